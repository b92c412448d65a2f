"""What the kernel's witnesses say in a machine of their own."""
