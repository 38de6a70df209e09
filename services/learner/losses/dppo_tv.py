"""DPPO with the binary total variation (arXiv 2602.04879).

Why: a ratio is a poor measure of how far the policy has moved. A rare token's ratio explodes while the distribution
hardly changes, a common token's stays near 1 while much probability moves. DPPO measures the probability itself:
``|pi - mu|`` of the sampled token is the total variation between the two distributions seen as "this token or
another". Where it exceeds the threshold in the direction in which the advantage pushes, the gradient stops.
``clip_low`` and ``clip_high`` are the thresholds, in probability; the weight is cut at ``importance_cap``.
"""

from __future__ import annotations

import torch

from spade_rl.learner.losses.terms import Bounds, Terms, Tokens, through


def dppo_tv(tokens: Tokens, bounds: Bounds) -> Terms:
    """Return the loss of every token, see the module."""
    ratio = tokens.log_ratio.exp()
    moved = tokens.new.detach().exp() - tokens.old.exp()
    up = (tokens.advantages > 0) & (moved > bounds.clip_high)
    down = (tokens.advantages < 0) & (moved < -bounds.clip_low)
    weight = ratio.clamp(max=bounds.importance_cap)
    weight = torch.where(up | down, weight, weight * through(tokens.new))
    return Terms(loss=-tokens.advantages * weight, clipped=up | down | (ratio > bounds.importance_cap))
