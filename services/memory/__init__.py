"""The memory service: the archive of environments and trajectories."""
