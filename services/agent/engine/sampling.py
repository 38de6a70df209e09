"""Draws tokens: by inverse transform, with a uniform number that only the seed and the position decide.

The uniform number comes from a counter-based generator (SplitMix64; Steele, Lea, Flood 2014), so that no state has to
follow a sequence from row to row and a draw never depends on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: np.ndarray) -> np.ndarray:
    """Return SplitMix64's finalizer of unsigned 64-bit numbers of any shape."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(seeds: Sequence[int], positions: Sequence[int]) -> np.ndarray:
    """Return one number in (0, 1) for every (seed, position); shape [n], float64."""
    start = _mix(np.array([seed & 0xFFFFFFFFFFFFFFFF for seed in seeds], dtype=np.uint64) + _GOLDEN)
    bits = _mix(start + (np.array(positions, dtype=np.uint64) + np.uint64(1)) * _GOLDEN)
    return np.asarray(((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def sample(
    logits: torch.Tensor, temperatures: Sequence[float], seeds: Sequence[int], positions: Sequence[int]
) -> tuple[list[int], list[float]]:
    """Draw one token for each row of ``logits`` [n, vocabulary].

    Returns the ids and their log-probabilities under ``softmax(logits / temperature)``, in float32; temperature 0
    takes the likeliest token and gives its log-probability at temperature 1. Raises ValueError where the logits are
    not finite: such a policy cannot be sampled.
    """
    device = logits.device
    scale = torch.tensor([t or 1.0 for t in temperatures], device=device, dtype=torch.float32)
    log_probs = torch.log_softmax(logits.float() / scale[:, None], dim=-1)
    mass = log_probs.exp().cumsum(dim=-1, dtype=torch.float64)
    draws = torch.from_numpy(uniforms(seeds, positions)).to(device)
    tokens = torch.searchsorted(mass, (draws * mass[:, -1])[:, None], right=True)[:, 0]
    if not all(temperatures):
        greedy = torch.tensor([t == 0 for t in temperatures], device=device)
        tokens = torch.where(greedy, log_probs.argmax(dim=-1), tokens)
    # A row with NaN ends past its last token.
    if int(tokens.max()) >= logits.shape[-1] or not bool(torch.isfinite(mass[:, -1]).all()):
        raise ValueError("the policy's logits are not finite")
    chosen = log_probs.gather(-1, tokens[:, None])[:, 0]
    return tokens.tolist(), chosen.tolist()
