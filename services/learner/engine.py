"""What the learner asks of a training engine.

An engine holds the policy and its optimizer. It is called from one thread. ``step`` either takes a whole optimizer step or raises and takes
none; the gradient it follows is the sum of the micro-batches' gradients, however they are split among processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from spade_rl.learner.batch import MicroBatch
from spade_rl.learner.objective import Tally


@dataclass(frozen=True, eq=False, kw_only=True)
class StepReport:
    """``gradient_norm`` before clipping; ``tally`` over all micro-batches and processes."""

    gradient_norm: float
    tally: Tally


class Engine(Protocol):
    """Forward, backward, optimizer, state."""

    @property
    def name(self) -> str:
        """As the configuration calls it."""

    @property
    def vocabulary(self) -> int:
        """Token ids are below this."""

    @property
    def identity(self) -> Mapping[str, str | int]:
        """What a checkpoint must agree with to be loaded: parameters, processes, stage."""

    def step(self, batches: Sequence[MicroBatch]) -> StepReport:
        """Take one optimizer step on at least one micro-batch; LearnerError when the gradient is not finite."""

    def export(self) -> dict[str, Tensor]:
        """Return copies of all weights on the host by their Hugging Face names, embeddings untied."""

    def save(self, folder: Path) -> None:
        """Write weights and optimizer state into an empty folder."""

    def load(self, folder: Path) -> None:
        """Restore what ``save`` wrote, exactly; ConfigurationError when it cannot be read."""

    def close(self) -> None:
        """Free everything; no call may follow."""
