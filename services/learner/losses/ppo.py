"""PPO's clipped surrogate against the sampler, with truncated importance sampling (the default).

Why: samples are reused for several optimizer steps, come from an engine whose numbers differ a little from the
trainer's, and those of the designer are some updates old. The ratio ``r = pi / mu`` to the *sampler* corrects all three
at once. Where ``r`` has already left ``[1 - low, 1 + high]`` in the direction in which the advantage pushes, the gradient
stops (PPO, arXiv 1707.06347); the upper side is wider, so that rare tokens can grow (clip-higher of DAPO, arXiv
2503.14476). PPO leaves ``r`` unbounded where the advantage is negative; there its weight is cut at ``importance_cap``
(truncated importance sampling, Ionides 2008; for inference engines, https://fengyao.notion.site/off-policy-rl).

``loss = -A * min(r, cap)``, constant in the clipped region.
"""

from __future__ import annotations

import torch

from spade_rl.learner.losses.terms import Bounds, Terms, Tokens, through


def ppo(tokens: Tokens, bounds: Bounds) -> Terms:
    """Return the loss of every token, see the module."""
    ratio = tokens.log_ratio.exp()
    low, high = 1 - bounds.clip_low, 1 + bounds.clip_high
    stopped = ((tokens.advantages > 0) & (ratio > high)) | ((tokens.advantages < 0) & (ratio < low))
    live = ratio.clamp(max=bounds.importance_cap) * through(tokens.new)
    weight = torch.where(stopped, ratio.clamp(low, high), live)
    return Terms(loss=-tokens.advantages * weight, clipped=stopped | (ratio > bounds.importance_cap))
