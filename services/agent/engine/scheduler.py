"""Which sequence is decoded in which row: continuous batching as a state machine without tensors or threads.

Rows ``0 … live - 1`` are always taken and the others free, so that a decoding step works on one contiguous part of
the cache. A row that becomes free is given to a waiting sequence at once; only when none waits does the last row move
into the hole. Sequences start in the order in which they arrived, and each ends exactly once: finished or cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from spade_rl.agent.engine.interface import FinishReason


@dataclass(slots=True, eq=False)
class Sequenced:
    """A prompt on its way through the engine. ``limit``: how many tokens may be sampled."""

    prompt: tuple[int, ...]
    temperature: float
    seed: int
    limit: int
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    cancelled: bool = False

    @property
    def length(self) -> int:
        """Tokens so far, prompt and sampled."""
        return len(self.prompt) + len(self.token_ids)


S = TypeVar("S", bound=Sequenced)


class Scheduler(Generic[S]):
    """Deals rows out to sequences."""

    def __init__(self, slots: int, stop_ids: frozenset[int]) -> None:
        self._slots = slots
        self._stop_ids = stop_ids
        self._waiting: deque[S] = deque()
        self._rows: list[S | None] = []

    @property
    def in_flight(self) -> int:
        """Sequences that wait or are being decoded."""
        return len(self._waiting) + self.decoding

    @property
    def decoding(self) -> int:
        """Sequences that hold a row."""
        return sum(sequence is not None for sequence in self._rows)

    def submit(self, sequences: Iterable[S]) -> None:
        """Queue sequences."""
        self._waiting.extend(sequences)

    def drop_cancelled(self) -> None:
        """Free what cancelled sequences hold."""
        self._rows = [None if s is not None and s.cancelled else s for s in self._rows]
        if any(sequence.cancelled for sequence in self._waiting):
            self._waiting = deque(sequence for sequence in self._waiting if not sequence.cancelled)

    def place(self) -> list[tuple[int, S]]:
        """Give free rows to waiting sequences, holes first; return who got which."""
        free = [row for row, sequence in enumerate(self._rows) if sequence is None]
        free += range(len(self._rows), self._slots)
        placed = [(row, self._waiting.popleft()) for row in free[: len(self._waiting)]]
        for row, sequence in placed:
            if row == len(self._rows):
                self._rows.append(sequence)
            else:
                self._rows[row] = sequence
        return placed

    def compact(self) -> list[tuple[int, int]]:
        """Move the last sequences into the holes; return the moves as (from, to), no row twice."""
        moves = []
        for hole in [row for row, sequence in enumerate(self._rows) if sequence is None]:
            while self._rows and self._rows[-1] is None:
                self._rows.pop()
            if hole >= len(self._rows):
                break
            self._rows[hole] = self._rows.pop()
            moves.append((len(self._rows), hole))
        return moves

    def live(self) -> list[S]:
        """Return the sequences by row. Only valid without holes, after ``compact``."""
        return [sequence for sequence in self._rows if sequence is not None]

    def record(self, rows: Sequence[int], token_ids: Sequence[int], log_probs: Sequence[float]) -> list[S]:
        """Append one sampled token to the sequence in each row; return those that it ended and free their rows."""
        finished: list[S] = []
        for row, token, log_prob in zip(rows, token_ids, log_probs, strict=True):
            sequence = self._rows[row]
            if sequence is None:
                raise ValueError(f"row {row} is free")
            sequence.token_ids.append(token)
            sequence.log_probs.append(log_prob)
            if token in self._stop_ids:
                sequence.finish_reason = FinishReason.STOP
            elif len(sequence.token_ids) >= sequence.limit:
                sequence.finish_reason = FinishReason.LENGTH
            if sequence.finish_reason is not None:
                self._rows[row] = None
                finished.append(sequence)
        return finished

    def clear(self) -> list[S]:
        """Forget everything; return the sequences that had not ended."""
        unfinished = [*self.live(), *self._waiting]
        self._rows.clear()
        self._waiting.clear()
        return [sequence for sequence in unfinished if not sequence.cancelled]


def batches(lengths: Sequence[int], call_tokens: int, most_tokens: int) -> list[list[int]]:
    """Group prompts of these lengths (tokens) into padded batches; return the indices in each.

    Prompts go together in order of length as long as the padding that one more adds costs less than a batch of its
    own, which is worth ``call_tokens`` tokens, and the padded batch stays within ``most_tokens``.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        group = groups[-1] if groups else []
        longest = lengths[index]
        cheap = bool(group) and (longest - lengths[group[-1]]) * len(group) <= call_tokens
        if cheap and longest * (len(group) + 1) <= most_tokens:
            group.append(index)
        else:
            groups.append([index])
    return groups
