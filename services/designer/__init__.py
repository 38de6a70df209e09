"""The Environment Designer service."""
