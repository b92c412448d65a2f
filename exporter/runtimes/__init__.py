"""What runtimes and kubelets do, as data: a module for each runtime, and one for kubelets."""
