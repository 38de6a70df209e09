"""The sandbox service: admission and episodes of generated code."""
