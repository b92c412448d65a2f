"""The kernel's side: names, files, notifications."""
