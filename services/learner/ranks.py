"""The processes of one learner: the first leads, the others follow.

``torchrun --nproc-per-node N -m spade_rl.learner ...`` starts them; without torchrun there is one. The leader answers gRPC and tells the
others what to do; everyone then says how it went, so a failure anywhere is an error at the leader. Commands and answers have a
process group of their own (gloo), apart from the one that training uses, so that a process that failed in the middle of
training is heard. Every exchange has a deadline. Followers rest until there is a command, and end when the leader is gone.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from spade_rl.errors import DeadlineError, LearnerError

# Seconds between a follower's looks for a command.
_PAUSE = 0.02


class Ranks:
    """This process among the ``world`` processes of the learner; number ``rank``, 0 leads."""

    def __init__(self, store: Store, rank: int, world: int, seconds: float) -> None:
        self.rank, self.world, self.seconds = rank, world, seconds
        deadline = timedelta(seconds=seconds)
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group(
            "nccl" if cuda else "gloo",
            store=PrefixStore("training", store),
            rank=rank,
            world_size=world,
            timeout=deadline,
        )
        self._control = dist.new_group(backend="gloo", timeout=deadline)
        self._calls = PrefixStore("commands", store)
        self._count = 0

    def tell(self, command: Any) -> None:
        """Send a command to the followers (leader only)."""
        self._count += 1
        if self.world > 1:
            self._calls.set(str(self._count), "called")
            self._exchange(dist.broadcast_object_list, [command], src=0)

    def hear(self) -> Any:
        """Return the leader's next command; waiting for it is a follower's rest and may last."""
        self._count += 1
        try:
            # Asked, not waited for: the store's own wait has no way to end early, and warns whenever it times out.
            while not self._calls.check([str(self._count)]):
                time.sleep(_PAUSE)
        except dist.DistError as error:
            raise LearnerError(f"process {self.rank} of the learner lost the leading one: {error}") from error
        box = [None]
        self._exchange(dist.broadcast_object_list, box, src=0)
        return box[0]

    def agree(self, fault: str | None) -> None:
        """Exchange how a command went; LearnerError on every process if it failed on any."""
        faults: list[str | None] = [fault]
        if self.world > 1:
            faults = [None] * self.world
            self._exchange(dist.all_gather_object, faults, fault)
        failed = [f"process {rank}: {text}" for rank, text in enumerate(faults) if text is not None]
        if failed:
            raise LearnerError("; ".join(failed))

    def reduce(self, tensor: torch.Tensor, *, largest: bool = False) -> torch.Tensor:
        """Return the sum, or the largest, of a host tensor over all processes."""
        if self.world > 1:
            self._exchange(dist.all_reduce, tensor, op=dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
        return tensor

    def _exchange(self, collective: Any, *arguments: Any, **options: Any) -> None:
        try:
            collective(*arguments, group=self._control, **options)
        except RuntimeError as error:
            raise DeadlineError(
                f"the processes of the learner lost each other (deadline {self.seconds:g} s): {error}. Restart them and "
                "resume from the last checkpoint"
            ) from error

    def leave(self) -> None:
        """Leave the process groups."""
        dist.destroy_process_group()


def join(seconds: float) -> Ranks:
    """Meet the other processes that torchrun started, or be the only one; ``seconds`` is every exchange's deadline."""
    # DeepSpeed asks for it even where there is one process.
    os.environ.setdefault("LOCAL_RANK", "0")
    if "RANK" not in os.environ:
        return Ranks(dist.HashStore(), 0, 1, seconds)  # type: ignore[attr-defined]
    store, rank, world = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
    return Ranks(store, rank, world, seconds)
