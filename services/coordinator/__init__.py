"""The coordinator service: the cycle, its checkpoints and its events."""
