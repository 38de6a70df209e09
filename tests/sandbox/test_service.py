"""The service over gRPC."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from spade_rl.config import Endpoints, Isolation, RunConfig, SandboxSection
from spade_rl.errors import CapacityError, ConfigurationError
from spade_rl.rpc import calling, open_channel
from spade_rl.sandbox.check import check_file
from spade_rl.sandbox.launch import FOLDER_PREFIX, make_folder, remove_stale
from spade_rl.sandbox.server import serve
from spade_rl.v1 import environment_pb2, sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEVELS = {
    Isolation.PROCESS: environment_pb2.ISOLATION_LEVEL_PROCESS,
    Isolation.GVISOR: environment_pb2.ISOLATION_LEVEL_GVISOR,
}
GUESS = """
import random
class Guess:
    def reset(self, seed):
        self.n = random.Random(seed).randint(10, 99)
        return f"one more than {self.n}", {"digits": 2}
    def step(self, action):
        if action == "raise":
            raise ValueError("asked to")
        if action == "wait":
            return "waiting", 0.0, False, False, {}
        return "", float(action == str(self.n + 1)), True, False, {}
    def solution(self):
        return [str(self.n + 1)]
"""


def reset(source: str = GUESS, seed: int = 5) -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=source, seed=seed))


def step(*actions: str) -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=actions))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub(section: SandboxSection, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxServiceStub]:
    folder = tmp_path_factory.mktemp("sandbox")
    address = f"unix:{folder}/s"
    config = RunConfig(sandbox=section.model_copy(update={"max_workers": 4, "queue_seconds": 1.0, "replay_share": 0.0}))
    async with (
        serve(config, run_dir=folder, address=address, endpoints=Endpoints()),
        open_channel(address) as channel,
    ):
        yield SandboxServiceStub(channel)


async def status(stub: SandboxServiceStub) -> sandbox_pb2.GetStatusResponse:
    async with calling("sandbox"):
        return await stub.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=10)


async def until_idle(stub: SandboxServiceStub) -> None:
    deadline = time.monotonic() + 20
    while (await status(stub)).live_workers:
        assert time.monotonic() < deadline, "workers stay"
        await asyncio.sleep(0.02)


async def test_an_episode_is_a_reset_and_batches_of_steps(stub: SandboxServiceStub) -> None:
    call = stub.Episode(timeout=60)
    await call.write(reset(seed=2**62 + 1))
    first = (await call.read()).reset
    number = int(re.fullmatch(r"one more than (\d+)", first.observation)[1])
    assert first.info_json == '{"digits": 2}'
    await call.write(step("wait", "wait"))
    results = (await call.read()).step.results
    assert [(one.observation, one.reward, one.terminated) for one in results] == [("waiting", 0.0, False)] * 2
    await call.write(step("wait", str(number + 1), "never taken"))
    results = (await call.read()).step.results
    assert [(one.reward, one.terminated) for one in results] == [(0.0, False), (1.0, True)]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    await until_idle(stub)


async def test_equal_seeds_show_equal_instances(stub: SandboxServiceStub) -> None:
    seen = []
    for seed in (3, 3, 4, 5, 6):
        call = stub.Episode(timeout=60)
        await call.write(reset(seed=seed))
        seen.append((await call.read()).reset.observation)
        await call.done_writing()
        await call.code()
    assert seen[0] == seen[1]
    assert len(set(seen)) > 2


@pytest.mark.parametrize(
    ("source", "action", "kind", "says"),
    [
        (GUESS, "raise", "exception", "ValueError: asked to (line 9, in step)"),
        ("class Env", "", "program", "line 1"),
        ("import socket", "", "import", "socket"),
        (GUESS.replace("randint(10, 99)", "randint(10)"), "", "exception", "reset(seed=5) raised TypeError"),
        (GUESS.replace("float(action == str(self.n + 1))", "2.0"), "1", "reward", "between"),
    ],
)
async def test_a_fault_names_its_origin_and_ends_the_stream(
    stub: SandboxServiceStub, source: str, action: str, kind: str, says: str
) -> None:
    call = stub.Episode(timeout=60)
    await call.write(reset(source))
    answer = await call.read()
    if answer.WhichOneof("response") == "reset":
        await call.write(step(action))
        answer = await call.read()
    assert answer.fault.origin == sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT
    assert answer.fault.kind == kind
    assert says in answer.fault.message
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_requests_out_of_order_are_the_callers_mistake(stub: SandboxServiceStub) -> None:
    for requests in ([step("x")], [reset(), step("1"), step("1")], [sandbox_pb2.EpisodeRequest()]):
        call = stub.Episode(timeout=60)
        with pytest.raises(ConfigurationError):
            async with calling("sandbox"):
                for request in requests:
                    await call.write(request)
                await call.done_writing()
                while await call.read() is not grpc.aio.EOF:
                    pass
    await until_idle(stub)


async def test_dropped_streams_free_their_workers(stub: SandboxServiceStub) -> None:
    calls = [stub.Episode(timeout=60) for _ in range(4)]
    for call in calls:
        await call.write(reset())
        await call.read()
    assert (await status(stub)).live_workers == 4
    for call in calls:
        call.cancel()
    await until_idle(stub)


async def test_who_finds_no_room_in_time_is_told(stub: SandboxServiceStub) -> None:
    calls = [stub.Episode(timeout=60) for _ in range(4)]
    for call in calls:
        await call.write(reset())
        await call.read()
    late = stub.Episode(timeout=60)
    await late.write(reset())
    fault = (await late.read()).fault
    assert (fault.origin, fault.kind) == (sandbox_pb2.FAULT_ORIGIN_SANDBOX, "capacity")
    with pytest.raises(CapacityError, match="max_workers"):
        async with calling("sandbox"):
            await stub.Admit(sandbox_pb2.AdmitRequest(source=GUESS), timeout=60)
    for call in calls:
        call.cancel()
    await until_idle(stub)


async def test_more_sources_than_sandboxes_take_turns(stub: SandboxServiceStub) -> None:
    async def one(number: int) -> str:
        call = stub.Episode(timeout=60)
        await call.write(reset(f"{GUESS}\n# {number}\n"))
        answer = await call.read()
        await call.done_writing()
        await call.code()
        return answer.WhichOneof("response")

    assert [await one(number) for number in range(5)] == ["reset"] * 5
    assert (await status(stub)).live_sandboxes <= 4


async def test_admission_over_the_wire(stub: SandboxServiceStub, level: Isolation) -> None:
    async with calling("sandbox"):
        good = await stub.Admit(sandbox_pb2.AdmitRequest(source=GUESS, seed=1), timeout=60)
        bad = await stub.Admit(sandbox_pb2.AdmitRequest(source="import not_there"), timeout=60)
    assert good.report.admitted
    assert good.report.observation == f"one more than {int(good.report.solution[0]) - 1}"
    assert len(good.normalised_digest) == 64
    assert bad.report.isolation == LEVELS[level]
    assert not bad.report.admitted
    assert [(one.gate, one.verdict) for one in bad.report.verdicts][:3] == [
        ("parse", environment_pb2.VERDICT_PASSED),
        ("imports", environment_pb2.VERDICT_FAILED),
        ("compile", environment_pb2.VERDICT_SKIPPED),
    ]


async def test_the_status_names_the_level(stub: SandboxServiceStub, level: Isolation) -> None:
    answer = await status(stub)
    assert answer.isolation == LEVELS[level]
    assert {Isolation.PROCESS: "no isolation", Isolation.GVISOR: "runsc"}[level] in answer.runtime


async def test_a_request_that_breaks_the_schema_is_refused(stub: SandboxServiceStub) -> None:
    with pytest.raises(ConfigurationError, match="AdmitRequest"):
        async with calling("sandbox"):
            await stub.Admit(sandbox_pb2.AdmitRequest(), timeout=10)


async def test_nothing_is_left_when_the_service_stops(
    section: SandboxSection, tmp_path: Path, base: Path, processes_naming: Callable[[str], list[int]]
) -> None:
    address = f"unix:{tmp_path}/s"
    config = RunConfig(sandbox=section)
    async with serve(config, run_dir=tmp_path, address=address, endpoints=Endpoints()):
        (folder,) = base.glob(FOLDER_PREFIX + "*")
        async with open_channel(address) as channel:
            call = SandboxServiceStub(channel).Episode(timeout=60)
            await call.write(reset())
            await call.read()
            assert processes_naming(str(folder))
    assert not processes_naming(str(folder))
    assert not folder.exists()


async def test_a_living_services_folder_is_not_stale(tmp_path: Path) -> None:
    folder, lock = make_folder(tmp_path)
    assert remove_stale(tmp_path) == 0
    os.close(lock)
    assert remove_stale(tmp_path) == 1
    assert not folder.exists()


async def test_without_runsc_it_refuses_and_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(str(Path(tool).parent) for tool in _tools(tmp_path)))
    with pytest.raises(ConfigurationError) as caught:
        async with serve(RunConfig(), run_dir=tmp_path, address=f"unix:{tmp_path}/s", endpoints=Endpoints()):
            pass
    for word in ("apt-get install runsc", "backports", "spade doctor", "sandbox.isolation: process"):
        assert word in str(caught.value)


def _tools(folder: Path) -> list[str]:
    """Links to what is needed beside runsc, in a folder of their own."""
    found = []
    for name in ("setpriv", "ldd"):
        link = folder / name
        path = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        link.symlink_to(path)
        found.append(str(link))
    return found


async def test_a_file_of_ones_own_is_checked_by_the_same_gates(section: SandboxSection, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(GUESS)
    report = await asyncio.to_thread(check_file, mine, section)
    assert report.admitted
    assert report.isolation is section.isolation
    with pytest.raises(ConfigurationError, match="cannot read"):
        await asyncio.to_thread(check_file, tmp_path / "none.py", section)
