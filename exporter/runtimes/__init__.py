"""What runtimes and kubelets do, as data: a module for each with events, and one for kubelets."""
