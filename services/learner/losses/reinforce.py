"""REINFORCE (Williams 1992): no correction and no trust region.

Why: the baseline that the others reduce to where trainer and sampler agree, and the yardstick in their tests. It is right only
for samples of the very policy that is trained: one optimizer step an update, one numeric engine, no delayed
designer. ``loss = -A * log pi`` up to a constant.
"""

from __future__ import annotations

import torch

from spade_rl.learner.losses.terms import Bounds, Terms, Tokens, through


def reinforce(tokens: Tokens, bounds: Bounds) -> Terms:  # noqa: ARG001 - the signature of every loss
    """Return the loss of every token, see the module."""
    clipped = torch.zeros_like(tokens.new, dtype=torch.bool)
    return Terms(loss=-tokens.advantages * through(tokens.new), clipped=clipped)
