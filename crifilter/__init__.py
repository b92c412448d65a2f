"""Has the runtime's or the kubelet's socket alone, and passes on only what the observer needs."""
