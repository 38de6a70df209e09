"""What the commands wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from spade_rl.cluster.coordinator import Coordinator, Event
from spade_rl.errors import DeadlineError
from spade_rl.v1 import coordinator_pb2 as pb

OVER = (pb.RUN_STATE_STOPPED, pb.RUN_STATE_FINISHED, pb.RUN_STATE_FAILED)
_POLL_SECONDS = 1.0


def state_name(state: pb.RunState) -> str:
    """Return a state as people read it: running, stopped."""
    return pb.RunState.Name(state).removeprefix("RUN_STATE_").lower()


async def follow(
    coordinator: Coordinator, run_id: str, heard: Callable[[Event], None], first: int = 0
) -> pb.GetRunResponse:
    """Tell every event of a run, from a number on, until the run ends; returns how it ended."""
    async for event in coordinator.events(run_id, first):
        heard(event)
    return await coordinator.status(run_id)


async def until_over(coordinator: Coordinator, run_id: str, seconds: float) -> pb.GetRunResponse:
    """Return how a run ended once it has; DeadlineError if it has not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while (status := await coordinator.status(run_id)).state not in OVER:
        if time.monotonic() > deadline:
            raise DeadlineError(
                f"the run {run_id} has not ended after {seconds:.0f} s: it stops at the end of its cycle; `spade status` tells when"
            )
        await asyncio.sleep(_POLL_SECONDS)
    return status
