"""The kernel as a witness: which containers have processes, by files of cgroups and by inotify."""
