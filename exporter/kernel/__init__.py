"""The third witness: which containers have processes, as the kernel shows it. Files and inotify."""
