"""The Reasoning Agent service and the inference engines."""
