"""Spade: self-play reinforcement learning for language models (after SPADE, arXiv 2608.19197)."""
