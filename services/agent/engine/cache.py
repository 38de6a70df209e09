"""A key-value cache with one row per sequence, each at its own length.

Keys and values lie in one tensor a layer, [rows, heads, capacity, head width], which grows in steps and never
shrinks. A forward pass sees the cache through one ``Step``: a prefill writes whole prompts into chosen rows and attends
to nothing older; a decoding step writes one token a row at its own position and attends to the first ``span``
positions of the first rows, without copying them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

ROW_STEP = 16
CAPACITY_STEP = 64


@dataclass(slots=True)
class Step:
    """Where one forward pass writes.

    ``rows`` [n]; ``positions`` [n] of a decoding step, None in a prefill, which begins at position 0. ``span``: how
    many positions the pass attends to.
    """

    rows: torch.Tensor
    positions: torch.Tensor | None
    span: int


class _SlotLayer(CacheLayerMixin):
    """One layer's keys and values. The first rows of ``keys`` and ``values`` belong to live sequences."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.step: Step | None = None
        self.rows = ROW_STEP
        self.capacity = CAPACITY_STEP

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = self._empty(key_states)
        self.values = self._empty(value_states)
        self.is_initialized = True

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        # Zeros, because whatever is masked out still takes part in sums, and NaN times 0 is NaN.
        return like.new_zeros((self.rows, like.shape[1], self.capacity, like.shape[3]))

    def grow(self, rows: int, capacity: int) -> None:
        """Make room, and keep what is there."""
        self.rows, self.capacity = rows, capacity
        if self.keys is not None and self.values is not None:
            old_keys, old_values = self.keys, self.values
            self.keys, self.values = self._empty(old_keys), self._empty(old_values)
            for new, old in ((self.keys, old_keys), (self.values, old_values)):
                new[: old.shape[0], :, : old.shape[2]] = old

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states [n, heads, tokens, width] and return those to attend to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        step = self.step
        if step is None or self.keys is None or self.values is None:
            raise RuntimeError("the cache was used outside a step")
        if step.positions is None:
            self.keys[:, :, : step.span].index_copy_(0, step.rows, key_states)
            self.values[:, :, : step.span].index_copy_(0, step.rows, value_states)
            return key_states, value_states
        live = len(step.rows)
        self.keys[step.rows, :, step.positions] = key_states[:, :, 0]
        self.values[step.rows, :, step.positions] = value_states[:, :, 0]
        return self.keys[:live, :, : step.span], self.values[:live, :, : step.span]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        """Return 0: a prefill starts from nothing, and a decoding step brings its own mask and positions."""
        return 0

    def get_max_length(self) -> int:
        return -1


class SlotCache(Cache):
    """The cache of all layers of a model."""

    def __init__(self, layers: int) -> None:
        self._slots = [_SlotLayer() for _ in range(layers)]
        super().__init__(layers=list(self._slots))

    def begin(self, step: Step) -> None:
        """Direct the next forward pass, and make room for it."""
        first = self._slots[0]
        rows = max(first.rows, -(-(int(step.rows.max()) + 1) // ROW_STEP) * ROW_STEP)
        capacity = first.capacity
        if step.span > capacity:
            capacity = -(-max(step.span, capacity * 3 // 2) // CAPACITY_STEP) * CAPACITY_STEP
        for layer in self._slots:
            if (rows, capacity) != (layer.rows, layer.capacity):
                layer.grow(rows, capacity)
            layer.step = step

    def move(self, moves: Sequence[tuple[int, int]], span: int) -> None:
        """Copy the first ``span`` positions of rows: (from, to), no row twice."""
        if not moves:
            return
        for layer in self._slots:
            for tensor in (layer.keys, layer.values):
                if tensor is not None:
                    source = torch.tensor([a for a, _ in moves], device=tensor.device)
                    target = torch.tensor([b for _, b in moves], device=tensor.device)
                    part = tensor[:, :, :span]
                    part.index_copy_(0, target, part.index_select(0, source))
