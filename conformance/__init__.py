"""Is what a container runtime announces what its clients may rely on? Properties, on a real one."""
