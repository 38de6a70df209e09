"""Micro-batches: padded token ids and, flat, one entry for every trained token.

Padding is on the right, so under causal attention no real token sees it and no attention mask is needed. A trained
token at position t is predicted at position t - 1; ``columns`` holds the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spade_rl.learner.samples import Role, Sample


@dataclass(frozen=True, eq=False, kw_only=True)
class MicroBatch:
    """B rows of T tokens with N trained tokens, on the host.

    ``token_ids`` [B, T]; all others [N]. ``weights`` is the role's weight over its trained tokens in the whole optimizer
    step, so a plain sum over tokens, micro-batches and processes is the loss; 0 marks a token that only fills a place.
    """

    token_ids: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    targets: NDArray[np.int64]
    sampler: NDArray[np.float32]
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]
    temperatures: NDArray[np.float32]
    roles: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceBatch:
    """A micro-batch as tensors on a device; shapes as in MicroBatch."""

    token_ids: Tensor
    rows: Tensor
    columns: Tensor
    targets: Tensor
    sampler: Tensor
    advantages: Tensor
    weights: Tensor
    temperatures: Tensor
    roles: Tensor


def collate(
    samples: Sequence[Sample],
    advantages: Sequence[float],
    *,
    weights: Mapping[Role, float],
    temperatures: Mapping[Role, float],
) -> MicroBatch:
    """Build a micro-batch; ``advantages`` has one entry a sample, the mappings one a role."""
    width = max(len(sample.token_ids) for sample in samples)
    token_ids = np.zeros((len(samples), width), dtype=np.int64)
    for row, sample in enumerate(samples):
        token_ids[row, : len(sample.token_ids)] = sample.token_ids
    places = [np.flatnonzero(sample.trained) for sample in samples]
    counts = [len(place) for place in places]
    rows = np.repeat(np.arange(len(samples)), counts)
    positions = np.concatenate(places)

    def spread(values: Sequence[float]) -> NDArray[np.float32]:
        return np.repeat(np.asarray(values, dtype=np.float32), counts)

    return MicroBatch(
        token_ids=token_ids,
        rows=rows,
        columns=positions - 1,
        targets=token_ids[rows, positions],
        sampler=np.concatenate([s.log_probs[p] for s, p in zip(samples, places, strict=True)]).astype(np.float32),
        advantages=spread(advantages),
        weights=spread([weights[sample.role] for sample in samples]),
        temperatures=spread([temperatures[sample.role] for sample in samples]),
        roles=np.repeat(np.asarray([sample.role.row for sample in samples], dtype=np.int64), counts),
    )


def filler() -> MicroBatch:
    """Return a micro-batch that adds nothing, for a process that has run out while others have not."""
    one, zero = np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.float32)
    index = np.zeros(1, dtype=np.int64)
    return MicroBatch(
        token_ids=np.zeros((1, 2), dtype=np.int64),
        rows=index,
        columns=index,
        targets=index,
        sampler=zero,
        advantages=zero,
        weights=zero,
        temperatures=one,
        roles=index,
    )


def to_device(batch: MicroBatch, device: torch.device) -> DeviceBatch:
    """Copy a micro-batch to a device."""
    return DeviceBatch(
        **{field.name: torch.from_numpy(getattr(batch, field.name)).to(device) for field in fields(MicroBatch)}
    )
