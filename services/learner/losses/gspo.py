"""GSPO: one importance ratio a sequence (arXiv 2507.18071).

Why: the reward belongs to a sequence, yet token ratios are corrected one by one, each from a single sample; their
noise adds up over long sequences and, in mixtures of experts, with every change of route. GSPO takes the geometric mean
of the token ratios, ``s = exp(mean(log r))``, and clips the sequence as a whole. ``s`` varies far less than ``r``: the paper clips at
3e-4 and 4e-4, so set ``learner.clip_low`` and ``learner.clip_high`` with this loss. Per token this is the paper's GSPO-token,
whose gradient equals GSPO's when all tokens of a sequence share one advantage, as here.
"""

from __future__ import annotations

import torch

from spade_rl.learner.losses.terms import Bounds, Terms, Tokens, through


def gspo(tokens: Tokens, bounds: Bounds) -> Terms:
    """Return the loss of every token, see the module."""
    log_ratio = tokens.log_ratio
    count = int(tokens.sequences.max()) + 1 if len(log_ratio) else 0
    total = log_ratio.new_zeros(count).index_add(0, tokens.sequences, log_ratio)
    length = log_ratio.new_zeros(count).index_add(0, tokens.sequences, torch.ones_like(log_ratio))
    ratio = (total / length.clamp(min=1)).exp()[tokens.sequences]
    low, high = 1 - bounds.clip_low, 1 + bounds.clip_high
    stopped = ((tokens.advantages > 0) & (ratio > high)) | ((tokens.advantages < 0) & (ratio < low))
    live = ratio.clamp(max=bounds.importance_cap) * through(tokens.new)
    weight = torch.where(stopped, ratio.clamp(low, high), live)
    return Terms(loss=-tokens.advantages * weight, clipped=stopped | (ratio > bounds.importance_cap))
