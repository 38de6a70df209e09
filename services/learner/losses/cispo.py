"""CISPO: clip the importance weight, keep the gradient (MiniMax-M1, arXiv 2506.13585).

Why: PPO drops the gradient of the tokens that moved most, which are often the rare and decisive ones ("however",
"wait"). CISPO bounds their weight instead, so every token keeps teaching: ``loss = -A * sg(min(r, cap)) * log pi``. As in the
paper only the upper bound is used; it is ``importance_cap`` (the paper's ``1 + eps_high``).
"""

from __future__ import annotations

from spade_rl.learner.losses.terms import Bounds, Terms, Tokens, through


def cispo(tokens: Tokens, bounds: Bounds) -> Terms:
    """Return the loss of every token, see the module."""
    ratio = tokens.log_ratio.exp()
    weight = ratio.clamp(max=bounds.importance_cap)
    return Terms(loss=-tokens.advantages * weight * through(tokens.new), clipped=ratio > bounds.importance_cap)
