"""Events of a run that goes back to a checkpoint between two connections are all told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from spade_rl.cluster.coordinator import Coordinator, open_channel
from spade_rl.v1 import coordinator_pb2 as pb
from spade_rl.v1 import coordinator_pb2_grpc


class Cut(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """Serves a log: the first connection breaks after ``heard`` events, and others then find another log."""

    def __init__(self, before: list[str], after: list[str], heard: int) -> None:
        self._before, self._after, self._heard, self.asked = before, after, heard, 0

    async def WatchRun(
        self, request: pb.WatchRunRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.WatchRunResponse]:
        self.asked += 1
        log = self._before[: self._heard] if self.asked == 1 else self._after
        for number, line in list(enumerate(log))[request.first_event :]:
            yield pb.WatchRunResponse(number=number, event_json=line)
        if self.asked == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def GetRun(self, request: pb.GetRunRequest, context: grpc.aio.ServicerContext) -> pb.GetRunResponse:
        return pb.GetRunResponse(run_id="demo")


@asynccontextmanager
async def served(servicer: Cut, folder: Path) -> AsyncIterator[Coordinator]:
    server = grpc.aio.server()
    coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{folder}/c")
    await server.start()
    try:
        async with open_channel(f"unix:{folder}/c", None) as channel:
            yield Coordinator(channel, name="lab")
    finally:
        await server.stop(None)


def lines(first: int, last: int, life: int) -> list[str]:
    return [json.dumps({"number": number, "life": life}) for number in range(first, last)]


@pytest.mark.parametrize("length", [3, 5, 6, 9])
@pytest.mark.parametrize("kept", [0, 2, 5])
@pytest.mark.parametrize("first", [0, 1])
async def test_what_was_told_ends_as_the_log_does(first: int, kept: int, length: int, tmp_path: Path) -> None:
    before = lines(0, 8, 1)
    after = [*before[:kept], *lines(kept, max(kept, length), 2)]
    told: list[dict[str, Any]] = []
    async with served(Cut(before, after, 6), tmp_path) as coordinator:
        async for event in coordinator.events("demo", first):
            # A number that was told before takes everything back from there.
            told[event.number - first :] = [event.fields]
    assert told[: len(after) - first] == [json.loads(line) for line in after[first:]]


async def test_what_stayed_is_told_once(tmp_path: Path) -> None:
    before = lines(0, 8, 1)
    servicer = Cut(before, before, 6)
    async with served(servicer, tmp_path) as coordinator:
        numbers = [event.number async for event in coordinator.events("demo")]
    assert numbers == list(range(8))
    assert servicer.asked == 2
