"""The whole way of an episode under load: many at once through the agent and sandbox services, for minutes.

Both services run as processes of their own, as they ship, on loopback: the agent with the nano model, the sandbox with
gVisor. The client keeps more plays waiting than the agent has places, so that ``--episodes`` are in flight all the time,
each with a worker of its own in the sandbox. When the time is over nothing new is asked for, and what was asked for is
waited for: an episode is lost if its trajectory does not come, comes twice, or is void for the fault of a service.

Printed while it runs: the resident memory of each service, the memory of all sandboxes together, and episodes. The
growth of each is the mean over the last quarter of the time less that over the second, so that what is loaded and
filled once is not taken for a leak.

Exit status: 0 nothing was lost, 1 something was. There is no peer, and so no ``ratio``.

    python -m benchmarks.load [--episodes 1000] [--minutes 10] [--platform auto] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import random
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.service import running
from spade_rl.config import RunConfig
from spade_rl.config_files import dump_config, load_config
from spade_rl.nano.families import FAMILIES, STYLES, write
from spade_rl.rpc import calling, open_channel
from spade_rl.sandbox.runtime import PLATFORMS
from spade_rl.seeds import source_digest
from spade_rl.v1 import agent_pb2, environment_pb2, sandbox_pb2, trajectory_pb2
from spade_rl.v1.agent_pb2_grpc import AgentServiceStub
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

# A machine that is loaded like this answers late; a sample that comes late is still one.
CALL_SECONDS = 120.0
# After the time is over, for what is in flight and what waits for a place behind it.
DRAIN_SECONDS = 600.0
SAMPLES = 60
# Calls at once, and plays in each as a share of the places: twice as many plays as places, and no two calls end together.
CALLS, SHARE = 64, 1 / 32
ENVIRONMENTS, LEVEL = 16, 6
WORDS = ("lamp", "stone", "river", "cloud", "bread", "chair", "apple", "green")
LOST = frozenset({trajectory_pb2.STOP_REASON_SANDBOX_ERROR, trajectory_pb2.STOP_REASON_ENGINE_ERROR})
AGENT, SANDBOX, SANDBOXES = "agent", "sandbox", "sandboxes"
# A replay has a second worker from the start.
REPLAY_ROOM = 1.1


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was at a moment. Memory in MB: resident of the two services, and of all sandboxes together."""

    seconds: float
    memory: dict[str, float]
    in_flight: int
    workers: int
    ended: int


@dataclass(slots=True)
class Tally:
    """Plays that were asked for and trajectories that came."""

    asked: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def ended(self) -> int:
        """Trajectories that came."""
        return len(self.seen)

    @property
    def lost(self) -> int:
        """Plays without a trajectory, with more than one, or with one that a service's fault made void."""
        twice = sum(count > 1 for count in self.seen.values())
        void = sum(self.reasons[trajectory_pb2.StopReason.Name(reason)] for reason in LOST)
        return self.asked - len(self.seen) + twice + void

    def add(self, trajectory: trajectory_pb2.Trajectory) -> None:
        """Count one."""
        self.seen[trajectory.id] += 1
        self.reasons[trajectory_pb2.StopReason.Name(trajectory.stop_reason)] += 1
        self.seconds.append(trajectory.seconds)
        if trajectory.error:
            self.errors[trajectory.error[:200]] += 1


def growth_mb(samples: Sequence[Sample], until: float) -> dict[str, float]:
    """Return by how much memory grew from the second quarter of the time until ``until`` to the last."""
    grown = {}
    for name in samples[0].memory if samples else ():
        quarters: list[list[float]] = [[], [], [], []]
        for sample in samples:
            if sample.seconds <= until:
                quarters[min(3, int(4 * sample.seconds / until))].append(sample.memory[name])
        if quarters[1] and quarters[3]:
            grown[name] = statistics.fmean(quarters[3]) - statistics.fmean(quarters[1])
    return grown


def environments() -> list[environment_pb2.Environment]:
    """Return games of all families, each another source."""
    rng, made = random.Random(0), []
    families = itertools.cycle(FAMILIES.values())
    for number in range(ENVIRONMENTS):
        source = f"{write(next(families), rng.sample(WORDS, 6), LEVEL, number % STYLES)}# {number}\n"
        kind = environment_pb2.ENVIRONMENT_KIND_GAME
        made.append(environment_pb2.Environment(digest=source_digest(source), source=source, kind=kind))
    return made


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _gauge(port: int, name: str) -> float:
    """Return the value of a gauge without labels that a service of this machine shows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=CALL_SECONDS) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                return float(sample.value)
    raise RuntimeError(f"no service at port {port} shows {name}")


class Load:
    """One run. ``told`` is called with every sample."""

    def __init__(self, config: RunConfig, *, seconds: float, told: Callable[[Sample], None]) -> None:
        self.tally = Tally()
        self.samples: list[Sample] = []
        self.runtime = ""
        # Until all that was asked for had come.
        self.whole_seconds = 0.0
        self._config = config
        self._seconds = seconds
        self._told = told
        self._numbers = itertools.count()
        self._environments = environments()

    async def run(self) -> None:
        """Start both services, load them, and stop them."""
        with tempfile.TemporaryDirectory(prefix="spade-bench-") as name:
            folder = Path(name)
            ports = _free_ports(4)
            addresses = {"sandbox": f"127.0.0.1:{ports[0]}", "agent": f"127.0.0.1:{ports[1]}"}
            shown = {"sandbox": ports[2], "agent": ports[3]}
            config = self._config.model_copy(
                update={"endpoints": self._config.endpoints.model_copy(update=addresses)},
            )
            (folder / "config.yaml").write_text(dump_config(config))
            async with (
                running("sandbox", folder, addresses["sandbox"], f"--metrics-port={shown['sandbox']}") as sandbox,
                running("agent", folder, addresses["agent"], f"--metrics-port={shown['agent']}") as agent,
                open_channel(addresses["sandbox"]) as to_sandbox,
                open_channel(addresses["agent"]) as to_agent,
            ):
                status: Any = SandboxServiceStub(to_sandbox)  # type: ignore[no-untyped-call]
                stub: Any = AgentServiceStub(to_agent)  # type: ignore[no-untyped-call]
                self.runtime = (await status.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=CALL_SECONDS)).runtime
                began = time.monotonic()
                watching = asyncio.create_task(self._watch(began, {AGENT: agent, SANDBOX: sandbox}, shown, status))
                try:
                    async with asyncio.timeout(self._seconds + DRAIN_SECONDS), asyncio.TaskGroup() as group:
                        for _ in range(CALLS):
                            group.create_task(self._ask(stub, began))
                except TimeoutError:
                    print(f"not all episodes came within {DRAIN_SECONDS:.0f} s after the last was asked for")
                finally:
                    self.whole_seconds = time.monotonic() - began
                    watching.cancel()
                    await asyncio.wait([watching])
                if not watching.cancelled():
                    raise RuntimeError("the services could not be watched") from watching.exception()

    async def _ask(self, stub: Any, began: float) -> None:
        count = max(1, int(SHARE * self._config.agent.concurrency))
        while time.monotonic() - began < self._seconds:
            plays = [
                agent_pb2.Play(
                    trajectory_id=f"load/{number}",
                    environment=number % len(self._environments),
                    arm=trajectory_pb2.ARM_PLAIN,
                    seed=number,
                )
                for number in itertools.islice(self._numbers, count)
            ]
            self.tally.asked += len(plays)
            request = agent_pb2.RolloutRequest(environments=self._environments, plays=plays)
            async with calling("agent"):
                async for response in stub.Rollout(request, timeout=self._seconds + DRAIN_SECONDS):
                    self.tally.add(response.trajectory)

    async def _watch(self, began: float, pids: dict[str, int], shown: dict[str, int], status: Any) -> None:
        while True:
            now = await status.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=CALL_SECONDS)
            sandboxes = await asyncio.to_thread(_gauge, shown["sandbox"], "spade_sandbox_memory_bytes")
            in_flight = await asyncio.to_thread(_gauge, shown["agent"], "spade_agent_episodes_in_progress")
            memory = {name: _resident_mb(pid) for name, pid in pids.items()} | {SANDBOXES: sandboxes / (1 << 20)}
            sample = Sample(time.monotonic() - began, memory, int(in_flight), int(now.live_workers), self.tally.ended)
            self.samples.append(sample)
            self._told(sample)
            await asyncio.sleep(self._seconds / SAMPLES)


def _line(sample: Sample) -> str:
    memory = "".join(f"{sample.memory[name]:>11,.0f}" for name in (AGENT, SANDBOX, SANDBOXES))
    return f"{sample.seconds:7.0f}{memory}{sample.in_flight:>11}{sample.workers:>9}{sample.ended:>10}"


def main() -> int:
    """Load, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, help="in flight at once (1,000; with --quick 64)")
    parser.add_argument("--minutes", type=float, help="how long new ones are asked for (10; with --quick 0.25)")
    parser.add_argument("--platform", choices=("auto", *PLATFORMS), default="auto", help="gVisor's platform")
    parser.add_argument("--quick", action="store_true", help="a smaller load, within 45 s")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    episodes = arguments.episodes or (64 if arguments.quick else 1000)
    minutes = arguments.minutes or (0.25 if arguments.quick else 10.0)
    config = load_config(
        preset="quickstart",
        overrides=[
            f"agent.concurrency={episodes}",
            f"sandbox.max_workers={int(REPLAY_ROOM * episodes) + 2}",
            f"sandbox.platform={arguments.platform}",
            "sandbox.queue_seconds=600",
            "evaluation.suite=none",
        ],
    )
    print(f"{'s':>7}{'agent MB':>11}{'sandbox MB':>11}{'all boxes':>11}{'in flight':>11}{'workers':>9}{'ended':>10}")
    load = Load(config, seconds=60 * minutes, told=lambda sample: print(_line(sample), flush=True))
    asyncio.run(load.run())
    tally, grown = load.tally, growth_mb(load.samples, 60 * minutes)
    during = [sample for sample in load.samples if sample.seconds <= 60 * minutes]
    figures = {
        "episodes_in_flight": statistics.median(sample.in_flight for sample in during),
        "workers": statistics.median(sample.workers for sample in during),
        "minutes": minutes,
        "asked": tally.asked,
        "ended": tally.ended,
        "lost": tally.lost,
        "episodes_per_second": tally.ended / load.whole_seconds,
        "episode_p50_seconds": statistics.median(tally.seconds) if tally.seconds else None,
        "growth_mb": grown,
        "reasons": dict(tally.reasons),
        "errors": dict(tally.errors.most_common(10)),
        "runtime": load.runtime,
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "samples": [asdict(sample) for sample in load.samples],
    }
    for error, count in tally.errors.most_common(5):
        print(f"{count} episodes: {error}")
    print(
        f"{tally.ended} of {tally.asked} episodes, {tally.lost} lost, {figures['episodes_per_second']:.1f} a second, "
        f"{figures['episodes_in_flight']:.0f} in flight ({load.runtime})"
    )
    print("growth: " + ", ".join(f"{name} {value:+.0f} MB" for name, value in grown.items()))
    if arguments.json:
        print(json.dumps(figures))
    return 1 if tally.lost else 0


if __name__ == "__main__":
    sys.exit(main())
