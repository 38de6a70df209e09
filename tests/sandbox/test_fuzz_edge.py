"""The service's edge under requests that no honest client sends: no crash, no hang, the right status, nothing kept.

Everything is awaited with a deadline. The isolation makes no difference to the edge, so it is the fastest one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spade_rl.config import Endpoints, Isolation, RunConfig, SandboxSection
from spade_rl.rpc import open_channel
from spade_rl.sandbox.server import serve
from spade_rl.v1 import sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 60.0
ENVIRONMENT = """
import os, random
class Env:
    def reset(self, seed):
        self.n = random.Random(seed).randint(10, 99)
        return f"one more than {self.n}", {}
    def step(self, action):
        if action.startswith("write "):
            for descriptor in range(3, 64):
                try:
                    os.write(descriptor, bytes.fromhex(action[6:]))
                except OSError:
                    pass
        won = action == str(self.n + 1)
        return action[:9], float(won), won, False, {}
    def solution(self):
        return [str(self.n + 1)]
"""
# What gRPC's client says when it writes to a stream that the server has ended: the server's own status is lost.
TOO_LATE = "Internal error from Core"
MISTAKE = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
sources = st.one_of(st.just(ENVIRONMENT), st.just(""), texts, st.just("class Env: pass"))
seeds = st.integers(-(2**63), 2**63 - 1)
resets = st.builds(
    lambda source, seed: sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=source, seed=seed)),
    sources,
    seeds,
)
steps = st.builds(
    lambda actions: sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=actions)),
    st.lists(st.one_of(texts, st.binary(max_size=30).map(lambda data: "write " + data.hex())), max_size=4),
)
requests = st.one_of(resets, steps, st.just(sandbox_pb2.EpisodeRequest()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def channel(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[grpc.aio.Channel]:
    folder = tmp_path_factory.mktemp("fuzz")
    address = f"unix:{folder}/s"
    section = SandboxSection(isolation=Isolation.PROCESS, max_sandboxes=4, max_workers=8, queue_seconds=30.0)
    async with (
        serve(RunConfig(sandbox=section), run_dir=folder, address=address, endpoints=Endpoints()),
        open_channel(address) as opened,
    ):
        yield opened


async def status(channel: grpc.aio.Channel) -> sandbox_pb2.GetStatusResponse:
    return await SandboxServiceStub(channel).GetStatus(sandbox_pb2.GetStatusRequest(), timeout=SECONDS)


async def until_idle(channel: grpc.aio.Channel) -> None:
    deadline = time.monotonic() + SECONDS
    while (await status(channel)).live_workers:
        assert time.monotonic() < deadline, "workers stay"
        await asyncio.sleep(0.02)


async def lives(channel: grpc.aio.Channel) -> None:
    """The service is idle, and still plays."""
    await until_idle(channel)
    async with asyncio.timeout(SECONDS):
        call = SandboxServiceStub(channel).Episode(timeout=SECONDS)
        await call.write(sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=ENVIRONMENT, seed=1)))
        assert (await call.read()).reset.observation.startswith("one more")
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK


async def code_of(call: grpc.aio.Call) -> grpc.StatusCode:
    """Return a call's status once it has ended."""
    async with asyncio.timeout(SECONDS):
        if isinstance(call, grpc.aio.StreamStreamCall):
            # The status comes after the answers.
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
        return await told_code(call)


async def told_code(call: grpc.aio.Call) -> grpc.StatusCode:
    code = await call.code()
    if code is grpc.StatusCode.INTERNAL and await call.details() == TOO_LATE:
        return grpc.StatusCode.INVALID_ARGUMENT
    return code


@FUZZ
@given(st.sampled_from(["Admit", "GetStatus", "Unknown"]), st.binary(max_size=200))
async def test_any_bytes_as_a_request(channel: grpc.aio.Channel, method: str, data: bytes) -> None:
    call = channel.unary_unary(f"/spade_rl.v1.SandboxService/{method}")(data, timeout=SECONDS)
    expected = {grpc.StatusCode.UNIMPLEMENTED} if method == "Unknown" else MISTAKE
    assert await code_of(call) in expected


@FUZZ
@given(st.lists(st.binary(max_size=200), max_size=4))
async def test_any_bytes_as_a_stream(channel: grpc.aio.Channel, messages: list[bytes]) -> None:
    call = channel.stream_stream("/spade_rl.v1.SandboxService/Episode")(iter(messages), timeout=SECONDS)
    assert await code_of(call) in MISTAKE


@FUZZ
@given(requests, st.lists(st.tuples(st.integers(0, 1 << 10), st.integers(0, 255)), max_size=6))
async def test_a_damaged_message(
    channel: grpc.aio.Channel, request: sandbox_pb2.EpisodeRequest, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(request.SerializeToString())
    for where, what in changes:
        if data:
            data[where % len(data)] = what
    call = channel.stream_stream("/spade_rl.v1.SandboxService/Episode")(iter([bytes(data)]), timeout=SECONDS)
    assert await code_of(call) in MISTAKE


@FUZZ
@given(texts, st.integers(-(2**31), 2**31 - 1), seeds, st.lists(texts, max_size=4))
async def test_any_fields_of_an_admission(
    channel: grpc.aio.Channel, source: str, kind: int, seed: int, known: list[str]
) -> None:
    request = sandbox_pb2.AdmitRequest(source=source, kind=kind, seed=seed, known_normalised_digests=known)
    call = SandboxServiceStub(channel).Admit(request, timeout=SECONDS)
    assert await code_of(call) in MISTAKE


@settings(FUZZ, max_examples=60)
@given(st.lists(requests, max_size=5), st.sampled_from(["end", "cancel", "leave"]), st.booleans())
async def test_any_order_of_messages(
    channel: grpc.aio.Channel, messages: list[sandbox_pb2.EpisodeRequest], ending: str, read: bool
) -> None:
    call = SandboxServiceStub(channel).Episode(timeout=SECONDS)
    async with asyncio.timeout(SECONDS):
        for message in messages:
            try:
                await call.write(message)
                if read and await call.read() is grpc.aio.EOF:
                    break
            except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
                break  # The service has ended the stream.
        match ending:
            case "end":
                await call.done_writing()
            case "cancel":
                call.cancel()
    if ending == "leave":
        return  # The call ends when nobody holds it any more.
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.AioRpcError):
            while ending != "cancel" and await call.read() is not grpc.aio.EOF:
                pass
        assert await told_code(call) in {*MISTAKE, grpc.StatusCode.CANCELLED}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (sandbox_pb2.AdmitRequest(source="x" * 262_145), grpc.StatusCode.INVALID_ARGUMENT),
        (sandbox_pb2.AdmitRequest(source="é" * 131_073), grpc.StatusCode.INVALID_ARGUMENT),
        (sandbox_pb2.AdmitRequest(source="x" * 262_144), grpc.StatusCode.OK),
        (sandbox_pb2.AdmitRequest(source="\0" * 1000), grpc.StatusCode.OK),
        (
            sandbox_pb2.AdmitRequest(source="x", known_normalised_digests=["a"] * 65_537),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (sandbox_pb2.AdmitRequest(source="x", known_normalised_digests=["a" * 64] * 65_536), grpc.StatusCode.OK),
        (sandbox_pb2.AdmitRequest(source="x", kind=77), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_huge_and_foreign_fields_of_an_admission(
    channel: grpc.aio.Channel, message: sandbox_pb2.AdmitRequest, expected: grpc.StatusCode
) -> None:
    assert await code_of(SandboxServiceStub(channel).Admit(message, timeout=SECONDS)) is expected


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["x"] * 4096, grpc.StatusCode.OK),
        (["x"] * 4097, grpc.StatusCode.INVALID_ARGUMENT),
        (["x" * (1 << 20)], grpc.StatusCode.OK),
        (["x" * ((1 << 20) + 1)], grpc.StatusCode.INVALID_ARGUMENT),
        ([], grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_huge_batches(channel: grpc.aio.Channel, actions: list[str], expected: grpc.StatusCode) -> None:
    stream = [
        sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=ENVIRONMENT, seed=1)),
        sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=actions)),
    ]
    call = SandboxServiceStub(channel).Episode(iter(stream), timeout=SECONDS)
    assert await code_of(call) is expected


async def test_after_all_that_it_lives_and_keeps_nothing(channel: grpc.aio.Channel) -> None:
    await lives(channel)
    assert (await status(channel)).waiting == 0
