"""The nano model: a small language model, trained from scratch, that plays both roles."""
