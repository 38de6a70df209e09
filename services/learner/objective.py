"""The training objective of a micro-batch.

``L = sum over roles of lambda_role * (sum over trained tokens of l) / T_role``, with ``T_role`` the role's trained tokens in the whole
optimizer step (ALGORITHM, Loss). Every token carries ``lambda_role / T_role`` as its weight, so ``L`` is a plain sum over micro-batches and
processes, and one role's tokens never change the other's gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from spade_rl.config import LearnerSection
from spade_rl.learner.batch import DeviceBatch
from spade_rl.learner.losses import LOSSES, Bounds, Tokens
from spade_rl.learner.policy import Policy
from spade_rl.learner.samples import ROLES

# Columns of ``Tally.sums``.
TOKENS, LOSS, CLIPPED, RATIO, ENTROPY, DIVERGENCE = range(6)


@dataclass(frozen=True, eq=False)
class Tally:
    """What a step saw, by role: ``sums`` [2, 6] (weighted loss, else plain sums over tokens), ``peaks`` [2] (largest ratio)."""

    sums: Tensor
    peaks: Tensor

    @staticmethod
    def empty() -> Tally:
        """Return the tally of no tokens."""
        return Tally(torch.zeros(len(ROLES), 6, dtype=torch.float64), torch.zeros(len(ROLES), dtype=torch.float64))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sums + other.sums, torch.maximum(self.peaks, other.peaks))


class Objective(nn.Module):
    """Maps a micro-batch to its share of the loss; ``tally`` then holds what it saw."""

    def __init__(self, policy: Policy, settings: LearnerSection, *, reference: Policy | None = None) -> None:
        super().__init__()
        self.policy = policy
        self._loss = LOSSES[settings.loss]
        self._bounds = Bounds(
            clip_low=settings.clip_low, clip_high=settings.clip_high, importance_cap=settings.importance_cap
        )
        self._kl, self._entropy = settings.kl, settings.entropy
        # In a list, so that its parameters are not this module's.
        self._reference = [reference] if reference is not None else []
        self.tally = Tally.empty()

    def forward(self, batch: DeviceBatch) -> Tensor:
        """Return the loss (a scalar)."""
        places = (batch.token_ids, batch.rows, batch.columns)
        reference: tuple[Policy, Tensor] | None = None
        for policy in self._reference:
            with torch.no_grad():
                reference = policy, policy.hidden(*places)
        scores = self.policy.score(
            self.policy.hidden(*places),
            batch.targets,
            batch.temperatures,
            reference=reference,
            entropy_gradient=self._entropy > 0,
        )
        tokens = Tokens(new=scores.log_probs, old=batch.sampler, advantages=batch.advantages, sequences=batch.rows)
        terms = self._loss(tokens, self._bounds)
        each = terms.loss
        if self._kl:
            each = each + self._kl * scores.divergence
        if self._entropy:
            each = each - self._entropy * scores.entropy
        weighted = batch.weights * each
        self.tally = _tally(batch, weighted, terms.clipped, tokens.log_ratio.exp(), scores.entropy, scores.divergence)
        return weighted.sum()


@torch.no_grad()
def _tally(batch: DeviceBatch, weighted: Tensor, *columns: Any) -> Tally:
    counted = (batch.weights > 0).double()
    values = torch.stack([counted, weighted.double(), *(column.double() * counted for column in columns)], dim=1)
    sums = torch.zeros(len(ROLES), 6, dtype=torch.float64, device=values.device).index_add_(0, batch.roles, values)
    peaks = torch.zeros(len(ROLES), dtype=torch.float64, device=values.device)
    peaks.scatter_reduce_(0, batch.roles, values[:, RATIO], reduce="amax")
    return Tally(sums.cpu(), peaks.cpu())
