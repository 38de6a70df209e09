"""The sandbox: a fresh isolated episode, steps one by one and in batches, many at once, memory, and the kill.

Ours is the service as shipped, in a process of its own, over gRPC on a Unix socket. In turns with it run, each driven
by a process of its own with the same code: a new gVisor container for every episode; the PyPI package ``gvisor``, one
call into a running container for every call; ``openenv-core``'s environment server, and a plain process for every
episode, which are not isolated and only mark limits. All run the same environment, and what it shows is compared.

``ratio`` is our rate of fresh isolated episodes (started, reset, first observation, ended) over that of the best
isolated peer that ran, each at whichever number at once suited it best among those tried. A rate is the median over
the rounds; percentiles are over all calls of all rounds.

Peers that are Python packages live in a virtual environment of their own, made on the first full run. Every process
that a contender started has ended when the benchmark has; one that had to be killed stands in the report.

    python -m benchmarks.sandbox [--quick] [--json] [--profile] [--platform PLATFORM] [--peers-env FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.sandbox_peers import LIGHT, ensure, interpreter
from benchmarks.sandbox_report import OURS, Contestant, goals, ratio, show
from benchmarks.sandbox_usage import Process, leftovers, members, processes
from spade_rl.config import Isolation
from spade_rl.sandbox.rootfs import cache_folder

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS = 120.0
# Added to the time that a measurement asks for: many slow episodes may be under way when it is over.
SLACK_SECONDS = 120.0
STOP_SECONDS = 30.0
# How long what a contender started may outlive it.
GONE_SECONDS = 5.0
NOBODY = -1
LINE_BYTES = 1 << 26
CROWD = 64
EPISODE_STEPS = 10
# Actions in a call, and episodes at once.
STEPS = ((1, 1), (10, 1), (100, 1), (1000, 1), (1000, 4))

CAVEATS = (
    "One machine, in turns: client, service and sandboxes share its cores, so every rate includes its own client.",
    "A fresh episode of ours is a reset on a stream that may have had episodes before, in a worker that never has; "
    "workers are forked ahead of need, and their cost is in the rates, though not in the time of a single start.",
    "Memory of a live sandbox: private memory of its gVisor processes and the blocks of its memory file, with the "
    "workers that wait in it; of one more episode: what opening several adds to all of that and to the service, each.",
    "The binding's steps are calls that reset and take the actions; it keeps nothing between calls.",
)
QUICK_CAVEATS = ("A quick run: few calls, so the percentiles are rough, and peers are tried with few at once.",)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    rounds: int
    # Of each measurement; what is under way then is waited for.
    seconds: float
    kills: int
    sessions: int
    # Episodes at once that peers are tried with, which are far slower than ours.
    crowds: tuple[int, ...]
    # Seconds after the start after which nothing but kill and memory is asked, and after which nothing is.
    until: float = float("inf")
    last: float = float("inf")


FULL = Plan(rounds=3, seconds=2.0, kills=5, sessions=16, crowds=(1, 2, 8, CROWD))
QUICK = Plan(rounds=2, seconds=0.3, kills=1, sessions=4, crowds=(1, 4), until=26.0, last=33.0)


class Driver:
    """A contender's process."""

    def __init__(self, contestant: Contestant, command: Sequence[str]) -> None:
        self.contestant = contestant
        self.largest_batch = 1
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._folder = ""
        # Every process that was ever seen to be the contender's, by number, with its start.
        self._seen: dict[int, int] = {}

    @property
    def runs(self) -> bool:
        """Whether it can be asked."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it; what prevents that stands in the report."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            cwd=ROOT,
            start_new_session=True,
        )
        self._said = asyncio.create_task(_tail(self._process.stderr))
        ready = await self._read(READY_SECONDS)
        if ready is not None:
            self.contestant.version, self.largest_batch = ready["version"], ready["largest_batch"]
            self._folder = ready["folder"]
        self._look()

    async def ask(self, question: str, request: dict[str, Any]) -> None:
        """Have something measured, and keep the answer under ``question``."""
        if not self.runs:
            if not self.contestant.problems:
                self.contestant.problems.append(f"its process had ended before {question}: {await self._said}")
            return
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        answer = await self._read(request.get("seconds", 0.0) + SLACK_SECONDS)
        if answer is not None and "error" in answer:
            self.contestant.problems.append(f"{question}: {answer['error'][:300]}")
        elif answer is not None:
            self.contestant.answers.setdefault(question, []).append(answer)
        self._look()

    async def stop(self) -> None:
        """End it, first politely, and whatever it leaves behind, which the report then names."""
        if self._process is None:
            return
        self._look()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self.contestant.problems.append(f"had not ended {STOP_SECONDS:.0f} s after it was told to, and was killed")
            await self._kill()
        self._look()
        left = await self._left()
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if left:
            names = ", ".join(sorted({Path(process.arguments[0]).name for process in left if process.arguments}))
            self.contestant.problems.append(f"left {len(left)} processes behind ({names}), which were killed")

    async def _left(self) -> list[Process]:
        """Return what has not ended by itself after a while."""
        deadline = time.monotonic() + GONE_SECONDS
        while True:
            left = leftovers(self._seen, processes())
            if not left or time.monotonic() > deadline:
                return left
            await asyncio.sleep(0.1)

    def _look(self) -> None:
        """Take note of its processes. The number of one that has ended may already be another's."""
        every = processes()
        client = self._process.pid if self._process is not None and self.runs else NOBODY
        self._seen |= {pid: every[pid].started for pid in members(every, client, self._folder)}

    async def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def _read(self, seconds: float) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            self.contestant.problems.append(f"did not answer within {seconds:.0f} s")
            await self._kill()
            return None
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = await self._process.wait()
        self.contestant.problems.append(f"its process ended with status {status}: {await self._said}")
        return None


async def _tail(stream: asyncio.StreamReader | None) -> str:
    """Read a stream to its end, and return the last line."""
    last = b""
    while stream is not None and (data := await stream.read(1 << 16)):
        last = (last + data)[-2000:]
    return (last.decode(errors="replace").strip().splitlines() or [""])[-1][:300]


def drivers(peers: Path | None, isolation: Isolation, *, quick: bool, platform: str = "auto") -> list[Driver]:
    """Return everyone who takes part; who cannot says why. ``peers`` None: no packages. ``platform``: ours."""
    ours = [sys.executable, "-m", "benchmarks.sandbox_ours", f"--isolation={isolation.value}"]
    ours.append(f"--platform={platform}")
    found = [Driver(Contestant(OURS, isolated=isolation is Isolation.GVISOR), ours)]
    containers = Contestant("new runsc container", isolated=True)
    if shutil.which("runsc") is None:
        containers.problems.append("runsc is not installed")
    found.append(Driver(containers, [sys.executable, "-m", "benchmarks.sandbox_processes", "runsc"]))
    workers = 1 if quick else len(os.sched_getaffinity(0))  # Every one takes five seconds to import its package.
    for name, package, module, isolated, script in (
        ("gvisor binding, exec", "gvisor", "gvisor", True, ["benchmarks.sandbox_binding"]),
        ("openenv-core server", "openenv-core", "openenv.core", False, ["benchmarks.sandbox_openenv", str(workers)]),
    ):
        peer = Contestant(name, isolated=isolated)
        if peers is None:
            problem = "peers that are packages were not asked for"
        else:
            problem = ensure(peers, package, module, install=not quick or package in LIGHT)
        peer.problems += [problem] if problem else []
        found.append(Driver(peer, [str(interpreter(peers or Path())), "-m", *script]))
    plain = Contestant("plain subprocess", isolated=False)
    found.append(Driver(plain, [sys.executable, "-m", "benchmarks.sandbox_processes", "subprocess"]))
    return found


def questions(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Return what is asked in a round: what the goals are about comes first, in case that time runs out."""
    fresh = [(f"fresh@{crowd}", {"measure": "fresh", "at_once": crowd}) for crowd in sorted({*plan.crowds, CROWD})]
    steps = [
        (f"steps/{batch}@{crowd}", {"measure": "steps", "batch": batch, "at_once": crowd}) for batch, crowd in STEPS
    ]
    whole = (f"episodes@{CROWD}", {"measure": "episodes", "length": EPISODE_STEPS, "at_once": CROWD})
    ordered = (fresh[0], steps[0], *fresh[1:], *reversed(steps[1:]), whole)
    return [(name, asked | {"seconds": plan.seconds}) for name, asked in ordered]


def is_for(driver: Driver, asked: dict[str, Any], plan: Plan) -> bool:
    """Whether a contender is asked: it must take such batches, and a peer only gets crowds that it can work off."""
    ours = driver.contestant.name == OURS
    fits = asked["measure"] == "steps" or ours or asked["at_once"] in plan.crowds
    return fits and asked.get("batch", 1) <= driver.largest_batch


async def measure(everyone: Sequence[Driver], plan: Plan, console: Console) -> None:
    """Measure everyone in turns, so that what changes on the machine changes for all."""
    began = time.monotonic()
    able = [driver for driver in everyone if not driver.contestant.problems]

    async def ask(driver: Driver, name: str, asked: dict[str, Any], until: float) -> None:
        if not driver.runs or time.monotonic() - began < until:
            await driver.ask(name, asked)
        else:
            driver.contestant.skipped.add(name)

    try:
        await asyncio.gather(*(driver.start() for driver in able))
        for number in range(plan.rounds):
            for name, asked in questions(plan):
                console.print(f"round {number + 1} of {plan.rounds}: {name}", style="dim")
                for driver in able:
                    if is_for(driver, asked, plan):
                        await ask(driver, name, asked, plan.until)
        for driver in able:
            await ask(driver, "memory", {"measure": "memory", "sessions": plan.sessions}, plan.last)
            if driver.contestant.name == OURS:
                await ask(driver, "kill", {"measure": "kill", "trials": plan.kills}, plan.last)
    finally:
        await asyncio.gather(*(driver.stop() for driver in able))


def machine() -> str:
    """Return what the figures were taken on."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return (
        f"{len(os.sched_getaffinity(0))} cores ({model}), {memory:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} before"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="a smaller measurement, within 45 s; peers not at 64 at once"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--profile", action="store_true", help="who used the processor, for every measurement")
    parser.add_argument(
        "--peers-env",
        type=Path,
        default=cache_folder() / "peers",
        help="virtual environment of the peers (default: %(default)s)",
    )
    parser.add_argument(
        "--platform",
        choices=("auto", "systrap", "ptrace"),
        default="auto",
        help="of gVisor, for ours (sandbox.platform)",
    )
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    plan, about = QUICK if arguments.quick else FULL, machine()
    everyone = drivers(arguments.peers_env, Isolation.GVISOR, quick=arguments.quick, platform=arguments.platform)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # Whoever ends this, ends everyone.
    asyncio.run(measure(everyone, plan, Console(stderr=True)))
    contestants = [driver.contestant for driver in everyone]
    console.print(about)
    for each in contestants:
        if each.version:
            console.print(f"{each.name}: {each.version}", markup=False)
    show(console, contestants, profile=arguments.profile)
    caveats = (*CAVEATS, *(QUICK_CAVEATS if arguments.quick else ()))
    for caveat in caveats:
        console.print(f"- {caveat}", markup=False)
    if arguments.json:
        value, peer = ratio(contestants)
        print(
            json.dumps(
                {
                    "ratio": value,
                    "ratio_of": peer,
                    "isolated_peers_that_ran": [
                        each.name for each in contestants if each.isolated and each.ran and each.name != OURS
                    ],
                    "not_run": {each.name: each.why_not() for each in contestants if not each.ran},
                    "goals": [asdict(goal) for goal in goals(contestants)],
                    "machine": about,
                    "load_after": os.getloadavg()[0],
                    "caveats": caveats,
                    "plan": asdict(plan) | {"until": None, "last": None},
                    "contenders": {each.name: each.figures() for each in contestants},
                }
            )
        )


if __name__ == "__main__":
    main()
