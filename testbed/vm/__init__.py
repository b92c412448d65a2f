"""An emulated machine with a kernel of Debian's, cgroup v2 and its memory controller."""
