"""Episodes over gRPC: several on one stream, workers that are freed at once, replays and quarantine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from spade_rl.config import Endpoints, RunConfig, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.rpc import calling, open_channel
from spade_rl.sandbox.server import serve
from spade_rl.seeds import source_digest
from spade_rl.v1 import environment_pb2, sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = """
plays = 0
class Count:
    def reset(self, seed):
        global plays
        plays += 1
        self.turn, self.secret = 0, random.random()
        return f"play {plays} of {seed}", {}
    def step(self, action):
        if action == "hang":
            while True: pass
        self.turn += 1
        done = self.turn == 2
        return f"turn {self.turn}", 0.5 if done else 0.0, done, False, {"at": random.random()}
    def solution(self):
        return ["x", "x"]
"""
SHOWS_LUCK = COUNT.replace('f"turn {self.turn}"', 'f"turn {self.turn} {self.secret}"')
PAYS_LUCK = COUNT.replace("0.5 if done", "self.secret if done")
# Shows a token, and fails on any other: what was shown the first time is wrong the second time.
FAILS_THE_SECOND_TIME = COUNT.replace('f"play {plays} of {seed}"', "str(self.secret)").replace(
    "self.turn += 1", "assert action == str(self.secret); self.turn += 1"
)
FORGES = """
class Forge:
    def reset(self, seed):
        return "ready", {}
    def step(self, action):
        import os
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b"x" * 64)
            except OSError:
                pass
        return "", 1.0, True, False, {}
"""

# Admissible, but for what it does at the place in braces.
GUESS = """
import random, time
def forge():
    import os
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"x" * 64)
        except OSError:
            pass
def forge_later():
    time.sleep(0.05)
    forge()
played, solved = 0, 0
class Guess:
    def reset(self, seed):
        self.n = random.Random(seed).randint(1000, 9999)
        return f"one more than {{self.n}}", {{}}
    def step(self, action):
        global played
        played += 1
        {step}
        won = action == str(self.n + 1)
        return "", float(won), True, False, {{}}
    def solution(self):
        global solved
        solved += 1
        {solution}
        return [str(self.n + 1)]
"""
FORGES_ON_DEMAND = GUESS.format(step='if action == "forge": forge()', solution="pass")
FORGES_WHEN_SOLVED = GUESS.format(step="pass", solution="forge()")
# The first worker, when all that it is asked for is done; meanwhile the second, which begins with a win, takes its time.
FORGES_WHEN_DONE = GUESS.format(
    step="if played == 1 and action: time.sleep(1)",
    solution='if solved == 6: __import__("_thread").start_new_thread(forge_later, ())',
)


def reset(source: str = COUNT, seed: int = 5) -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=source, seed=seed))


def step(*actions: str) -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=actions))


@asynccontextmanager
async def served(section: SandboxSection, folder: Path, **settings: Any) -> AsyncIterator[str]:
    address = f"unix:{folder}/s"
    config = RunConfig(sandbox=section.model_copy(update={"call_seconds": 30.0, **settings}))
    async with serve(config, run_dir=folder, address=address, endpoints=Endpoints()):
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(section: SandboxSection, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with served(section, tmp_path_factory.mktemp("sandbox"), max_workers=4, replay_share=0.0) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub(address: str) -> AsyncIterator[SandboxServiceStub]:
    async with open_channel(address) as channel:
        yield SandboxServiceStub(channel)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def doubting(
    section: SandboxSection, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SandboxServiceStub]:
    """A sandbox that plays every episode twice."""
    async with (
        served(section, tmp_path_factory.mktemp("doubting"), replay_share=1.0) as found,
        open_channel(found) as channel,
    ):
        yield SandboxServiceStub(channel)


async def status(stub: SandboxServiceStub) -> sandbox_pb2.GetStatusResponse:
    async with calling("sandbox"):
        return await stub.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=10)


async def until_workers(stub: SandboxServiceStub, count: int) -> None:
    deadline = time.monotonic() + 20
    while (found := (await status(stub)).live_workers) != count:
        assert time.monotonic() < deadline, f"{found} workers, not {count}"
        await asyncio.sleep(0.02)


async def ask(call: Any, request: sandbox_pb2.EpisodeRequest) -> sandbox_pb2.EpisodeResponse:
    await call.write(request)
    answer = await call.read()
    assert answer is not grpc.aio.EOF, await call.code()
    return answer


async def play(stub: SandboxServiceStub, source: str, *actions: str) -> sandbox_pb2.EpisodeResponse:
    """Play one episode with actions one by one, "?" being the first observation; return the last answer."""
    call = stub.Episode(timeout=60)
    answer = await ask(call, reset(source))
    first = answer.reset.observation
    for action in actions:
        if answer.WhichOneof("response") == "fault":
            break
        answer = await ask(call, step(first if action == "?" else action))
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return answer


async def test_every_reset_begins_a_fresh_episode(stub: SandboxServiceStub) -> None:
    call = stub.Episode(timeout=60)
    for seed in range(3):
        assert (await ask(call, reset(seed=seed))).reset.observation == f"play 1 of {seed}"
        results = (await ask(call, step("x", "x", "x"))).step.results
        assert [one.terminated for one in results] == [False, True]
    # Instead of going on with one, and with another source.
    await ask(call, reset())
    await ask(call, step("x"))
    assert (await ask(call, reset(COUNT + "#", seed=7))).reset.observation == "play 1 of 7"
    assert (await ask(call, step("x"))).step.results[0].observation == "turn 1"
    assert (await status(stub)).live_workers == 1
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    await until_workers(stub, 0)


async def test_an_episode_that_is_over_holds_no_worker(stub: SandboxServiceStub) -> None:
    call = stub.Episode(timeout=60)
    await ask(call, reset())
    assert (await ask(call, step("x", "x"))).step.results[-1].terminated
    assert (await status(stub)).live_workers == 0
    with pytest.raises(ConfigurationError, match="begin one with a reset"):
        async with calling("sandbox"):
            await call.write(step("x"))
            await call.read()


@pytest.mark.parametrize("waits", [True, False], ids=["in the queue", "in a call"])
async def test_a_call_that_is_cancelled_frees_its_worker(stub: SandboxServiceStub, waits: bool) -> None:
    calls = [stub.Episode(timeout=60) for _ in range(4)]
    for call in calls:
        await ask(call, reset())
        await call.write(step("hang"))
    late = stub.Episode(timeout=60)
    if waits:
        await late.write(reset())
        await asyncio.wait([asyncio.ensure_future(late.read())], timeout=0.1)
    for call in (late, *calls):
        call.cancel()
    await until_workers(stub, 0)
    assert (await play(stub, COUNT, "x", "x")).step.results[0].terminated


async def test_a_client_that_goes_away_frees_its_workers(stub: SandboxServiceStub, address: str) -> None:
    async with open_channel(address) as channel:
        calls = [SandboxServiceStub(channel).Episode(timeout=60) for _ in range(3)]
        for call in calls:
            await ask(call, reset())
        await calls[0].write(step("hang"))
        await until_workers(stub, 3)
    await until_workers(stub, 0)


async def refusal(stub: SandboxServiceStub, source: str) -> environment_pb2.GateVerdict:
    report = (await stub.Admit(sandbox_pb2.AdmitRequest(source=source), timeout=60)).report
    (verdict,) = [one for one in report.verdicts if one.verdict == environment_pb2.VERDICT_FAILED]
    return verdict


async def test_an_environment_that_repeats_itself_is_paid(doubting: SandboxServiceStub) -> None:
    before = _count("spade_sandbox_replays_total", outcome="equal")
    results = (await play(doubting, COUNT, "x", "x")).step.results
    assert [(one.reward, one.terminated) for one in results] == [(0.5, True)]
    assert _count("spade_sandbox_replays_total", outcome="equal") == before + 1
    await until_workers(doubting, 0)


@pytest.mark.parametrize(
    ("source", "actions", "says"),
    [
        (SHOWS_LUCK, "x x", "step 1 showed another observation"),
        (PAYS_LUCK, "x x", "step 2 gave reward"),
        (FAILS_THE_SECOND_TIME, "? ?", "it failed: exception: step() raised AssertionError"),
    ],
)
async def test_what_does_not_repeat_itself_is_void_and_played_no_more(
    doubting: SandboxServiceStub, source: str, actions: str, says: str
) -> None:
    before = _count("spade_sandbox_replays_total", outcome="different")
    fault = (await play(doubting, source, *actions.split())).fault
    assert (fault.origin, fault.kind) == (sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, "replay")
    assert says in fault.message
    assert _count("spade_sandbox_replays_total", outcome="different") == before + 1
    again = (await play(doubting, source)).fault
    assert (again.origin, again.kind) == (sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, "quarantine")
    assert says in again.message
    latest = (await status(doubting)).quarantined[0]
    assert (latest.digest, latest.kind, latest.message) == (source_digest(source), "replay", fault.message)
    assert _count("spade_sandbox_quarantined") >= 1
    assert (await play(doubting, COUNT, "x", "x")).step.results[0].reward == 0.5
    await until_workers(doubting, 0)


async def test_who_breaks_the_protocol_is_played_no_more(stub: SandboxServiceStub) -> None:
    assert (await play(stub, FORGES, "x")).fault.kind == "protocol"
    assert (await play(stub, FORGES)).fault.kind == "quarantine"
    assert (await status(stub)).quarantined[0].digest == source_digest(FORGES)


@pytest.mark.parametrize("source", [FORGES_WHEN_SOLVED, FORGES_WHEN_DONE])
async def test_who_breaks_the_protocol_in_admission_is_played_no_more(stub: SandboxServiceStub, source: str) -> None:
    assert "protocol" in (await refusal(stub, source)).message
    assert (await play(stub, source)).fault.kind == "quarantine"
    latest = (await status(stub)).quarantined[0]
    assert (latest.digest, latest.kind) == (source_digest(source), "protocol")


async def test_what_is_under_quarantine_is_not_admitted(stub: SandboxServiceStub) -> None:
    assert (await stub.Admit(sandbox_pb2.AdmitRequest(source=FORGES_ON_DEMAND), timeout=60)).report.admitted
    assert (await play(stub, FORGES_ON_DEMAND, "forge")).fault.kind == "protocol"
    refused = await refusal(stub, FORGES_ON_DEMAND)
    assert (refused.gate, "under quarantine" in refused.message) == ("replay", True)
    # An honest refusal puts nothing there.
    await refusal(stub, COUNT)
    assert (await play(stub, COUNT, "x", "x")).step.results[0].reward == 0.5


async def test_what_one_episode_is_caught_at_voids_those_that_run(stub: SandboxServiceStub) -> None:
    source = FORGES.replace("import os\n", 'import os\n        if action == "x": return "", 1.0, True, False, {}\n')
    call = stub.Episode(timeout=60)
    await ask(call, reset(source))
    assert (await play(stub, source, "x")).step.results[0].reward == 1.0
    assert (await play(stub, source, "forge")).fault.kind == "protocol"
    assert (await ask(call, step("x"))).fault.kind == "quarantine"


async def test_a_replay_waits_for_no_room(section: SandboxSection, tmp_path: Path) -> None:
    async with (
        served(section, tmp_path, replay_share=1.0, max_workers=2, queue_seconds=30.0) as found,
        open_channel(found) as channel,
    ):
        stub = SandboxServiceStub(channel)
        answers = await asyncio.gather(*(play(stub, COUNT, "x", "x") for _ in range(4)))
    assert [answer.step.results[0].reward for answer in answers] == [0.5] * 4


def _count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0
