"""Thousands of random hostile and honest environments at one sandbox service, and nothing of them left behind.

    python tests/hostile/soak.py --count 10000 [--concurrency 16] [--seed 0] [--json]

Every environment is a variant of a case of this suite, or of a family of the nano model; each is admitted, played, or
both, and must come out as its case says. Then the service is stopped: there must be as many processes, descriptors,
mounts, containers, folders and temporary files as before it started, and no cgroup of it. The service has a folder of its
own for all that, so that whatever else runs on the machine is not counted. It is the one that ``target`` names; of one
that runs elsewhere only its status can be seen. Interrupted (SIGINT), it judges what it has done so far.

``memory_mb`` is the memory of this process, in which the service and its client run, after every tenth of the cases.

Most of the time goes into starting a sandbox for each environment, on all cores. SPADE_TEST_PLATFORM chooses gVisor's
platform.

Exit status: 0 passed, 1 failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import target
from case import ADMITTED, HONEST, PLAYS, Case
from catalogue import HONEST_CASES, HOSTILE_CASES
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from trial import Outcome, evaluate, evaluate_alone, problem

from spade_rl.nano.families import FAMILIES, STYLES, write
from spade_rl.sandbox.cgroup import find_cgroups
from spade_rl.sandbox.launch import FOLDER_PREFIX
from spade_rl.telemetry import configure_logging
from spade_rl.v1 import sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

IDLE_SECONDS = 60.0
SETTLE_SECONDS, SAME_COUNTS = 20.0, 5
SHOWN, MEMORY_SAMPLES = 50, 10
HONEST_SHARE, FAMILY_SHARE = 0.6, 0.7
# What ends by running into a limit uses a core for a second; there are fewer of it than of others, by this factor.
SLOW_SHARE = 0.25
# An environment is played once or twice: few workers need to wait for more.
CHANGES = {"call_seconds": 1.0, "prefork": 1}
# Easier levels, and fewer words, make some that admission refuses: won by chance, or of too few instances.
LEVELS, WORD_COUNT = (6, 12), 6
WORDS = [
    "lamp",
    "stone",
    "river",
    "cloud",
    "bread",
    "chair",
    "apple",
    "green",
    "table",
    "glass",
    "paper",
    "horse",
    "train",
    "plant",
    "mouse",
    "north",
]


@dataclass(frozen=True, slots=True)
class Left:
    """What a service may leave behind, counted."""

    processes: int
    descriptors: int
    mounts: int
    containers: int
    folders: int
    temporary_files: int


@dataclass(slots=True)
class Result:
    """What a soak brought; ``problems`` and ``leaks`` are empty if it passed."""

    asked: int
    isolation: str
    # As the service says it: the program that isolates, its version and platform.
    runtime: str = ""
    done: int = 0
    honest: int = 0
    hostile: int = 0
    interrupted: bool = False
    seconds: float = 0.0
    environments_per_second: float = 0.0
    memory_mb: list[float] = field(default_factory=list)
    gates: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    tried_again: int = 0
    problems: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether all came out as they must and nothing is left."""
        return self.done > 0 and not self.problems and not self.leaks


def drawn(count: int, seed: int) -> Iterator[Case]:
    """Yield random cases; each source is another one."""
    rng = random.Random(seed)
    # Where a wrong action does not end the episode, chance wins some instances, and admission may rightly refuse.
    families = [family for family in FAMILIES.values() if family.answer is None]
    # Whatever is added to a source of nothing but space makes another case of it.
    hostile = [case for case in HOSTILE_CASES if case.source.strip() and not target.left_out(case)]
    weights = [SLOW_SHARE if case.ends & {"deadline", "memory"} else 1.0 for case in hostile]
    for number in range(count):
        if rng.random() >= HONEST_SHARE:
            yield _varied(rng.choices(hostile, weights)[0], number, rng)
        elif rng.random() < FAMILY_SHARE:
            family = rng.choice(families)
            source = write(family, rng.sample(WORDS, WORD_COUNT), rng.randint(*LEVELS), rng.randrange(STYLES))
            yield Case(
                f"family {family.name} {number}",
                f"{source}# {number}\n",
                frozenset({ADMITTED}),
                ends=frozenset({PLAYS}),
            )
        else:
            yield replace(_varied(rng.choice(HONEST_CASES), number, rng), ends=frozenset({PLAYS}))


def _varied(case: Case, number: int, rng: random.Random) -> Case:
    low = rng.randint(10, 40)
    source = case.source.replace("randint(10, 99)", f"randint({low}, {low + rng.randint(40, 900)})")
    return replace(case, name=f"{case.name} {number}", source=f"{source}\n# {number}\n")


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """Have all that this process and its children make for a moment lie in one folder of theirs."""
    variables = {name: os.environ.get(name) for name in ("TMPDIR", "XDG_RUNTIME_DIR")}
    earlier = tempfile.tempdir
    # Its path is short: sockets lie in it. Users of workers must get through it, as through any such folder.
    with tempfile.TemporaryDirectory(prefix="spade-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        os.environ.update(dict.fromkeys(variables, name))
        tempfile.tempdir = name
        try:
            yield folder
        finally:
            tempfile.tempdir = earlier
            for variable, value in variables.items():
                if value is None:
                    del os.environ[variable]
                else:
                    os.environ[variable] = value


def count_left(folder: Path) -> Left:
    """Count what there is now of this process, its descendants, and services with their files in ``folder``."""
    needle = os.fsencode(str(folder))
    parents: dict[int, int] = {}
    ours: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if needle in (entry / "cmdline").read_bytes():
                    ours.add(int(entry.name))
    waiting = [os.getpid()]
    while waiting:
        current = waiting.pop()
        children = [pid for pid, parent in parents.items() if parent == current]
        ours.update(children)
        waiting += children
    services = _services(folder)
    return Left(
        processes=len(ours - {os.getpid()}),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        mounts=Path("/proc/self/mountinfo").read_text().count(str(folder)),
        containers=sum(len(list(service.glob("state/*.state"))) for service in services),
        folders=len(services),
        temporary_files=len(list(folder.iterdir())) - len(services),
    )


def _services(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{FOLDER_PREFIX}*"))


def _cgroups_of(services: list[str]) -> int:
    """Count the memory cgroups of the services that had folders of these names."""
    cgroups = find_cgroups()
    return 0 if cgroups is None else sum(len(list(cgroups.parent.glob(f"{name}.*"))) for name in services)


def _memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def differences(before: Left, after: Left, cgroups: int = 0) -> list[str]:
    """Say of what there is more or less than before, and whether there are ``cgroups`` of services that have ended."""
    earlier, later = asdict(before), asdict(after)
    said = [f"{name}: {earlier[name]} before, {later[name]} after" for name in earlier if earlier[name] != later[name]]
    return [*said, f"cgroups: {cgroups} left"] if cgroups else said


async def _settled(folder: Path) -> Left:
    """Return the count when it no longer changes: connections are closed a moment after a service has ended."""
    deadline = time.monotonic() + SETTLE_SECONDS
    counts = [count_left(folder)]
    while len(counts) < SAME_COUNTS or len(set(counts[-SAME_COUNTS:])) > 1:
        if time.monotonic() > deadline:
            raise RuntimeError(f"what there is before the soak does not settle: {counts[-SAME_COUNTS:]}")
        await asyncio.sleep(0.2)
        counts.append(count_left(folder))
    return counts[-1]


class Soak:
    """One run. ``stop`` ends it early; ``told`` is called whenever a case is done."""

    def __init__(self, *, count: int, seed: int, concurrency: int, told: Callable[[Result], None]) -> None:
        self.result = Result(count, target.ADDRESS or target.ISOLATION)
        self._cases = drawn(count, seed)
        self._concurrency = concurrency
        self._told = told
        self._again: list[Case] = []
        self._gates: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    def stop(self) -> None:
        """Begin no more cases."""
        self.result.interrupted = True

    async def run(self) -> Result:
        """Try all cases against a fresh service, and look for what it leaves."""
        with folder_of_its_own() as folder:
            return await self._run(folder)

    async def _run(self, folder: Path) -> Result:
        # What is made once and stays (threads of gRPC, the root file system) is made before anything is counted.
        async with target.opened(**CHANGES) as stub:
            await evaluate(stub, Case("first", HONEST, ends=frozenset({PLAYS})))
        before = await _settled(folder)
        began = time.monotonic()
        self.result.memory_mb.append(_memory_mb())
        async with target.opened(**CHANGES) as stub:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(self._try_cases(stub))
            # Deadlines are short: on a busy machine an honest call may miss one.
            for case in self._again:
                self.result.tried_again += 1
                self._judge(case, await evaluate_alone(stub, case))
            self.result.seconds = time.monotonic() - began
            await self._look(stub)
            services = [service.name for service in _services(folder)]
        if not target.ADDRESS:
            await self._compare(folder, before, services)
        self.result.gates, self.result.faults = dict(self._gates), dict(self._faults)
        self.result.environments_per_second = self.result.done / self.result.seconds
        return self.result

    async def _try_cases(self, stub: SandboxServiceStub) -> None:
        for case in self._cases:
            if self.result.interrupted:
                return
            outcome = await evaluate(stub, case)
            if problem(case, outcome) and outcome.was_slow:
                self._again.append(case)
            else:
                self._judge(case, outcome)
            self.result.done += 1
            if self.result.done % max(1, self.result.asked // MEMORY_SAMPLES) == 0:
                self.result.memory_mb.append(_memory_mb())
            if ADMITTED in case.gates:
                self.result.honest += 1
            else:
                self.result.hostile += 1
            self._told(self.result)

    def _judge(self, case: Case, outcome: Outcome) -> None:
        self._gates[outcome.gate or "not asked"] += 1
        self._faults.update(kind or "none" for kind, _ in outcome.endings)
        wrong = problem(case, outcome)
        if wrong and len(self.result.problems) < SHOWN:
            self.result.problems.append(f"{case.name}: {wrong[:500]}")

    async def _look(self, stub: SandboxServiceStub) -> None:
        """The service must be healthy and idle."""
        last = await evaluate(stub, Case("last", f"{HONEST}# last\n", frozenset({ADMITTED}), ends=frozenset({PLAYS})))
        if last.trouble or last.gate != ADMITTED:
            self.result.problems.append(f"after all that, an honest environment is not admitted: {last}")
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            status = await stub.GetStatus(sandbox_pb2.GetStatusRequest(), timeout=IDLE_SECONDS)
            self.result.runtime = status.runtime
            if not status.live_workers and not status.waiting:
                return
            if time.monotonic() > deadline:
                self.result.leaks.append(f"{status.live_workers} workers live on, {status.waiting} requests wait")
                return
            await asyncio.sleep(0.05)

    async def _compare(self, folder: Path, before: Left, services: list[str]) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while leaks := differences(before, count_left(folder), _cgroups_of(services)):
            if time.monotonic() > deadline:
                self.result.leaks += leaks
                return
            await asyncio.sleep(0.1)


async def _with_progress(arguments: argparse.Namespace) -> Result:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("environments", total=arguments.count)

        def told(result: Result) -> None:
            wrong = f", {len(result.problems)} wrong" if result.problems else ""
            bar.update(task, completed=result.done, description=f"environments{wrong}")

        soak = Soak(count=arguments.count, seed=arguments.seed, concurrency=arguments.concurrency, told=told)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, soak.stop)
        return await soak.run()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=10_000, help="environments to try")
    parser.add_argument("--concurrency", type=int, default=16, help="at once")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    configure_logging("ERROR" if sys.stderr.isatty() else "WARNING")
    result = asyncio.run(_with_progress(arguments))
    if arguments.json:
        print(json.dumps({"passed": result.passed, **asdict(result)}))
    else:
        for line in (*result.problems, *result.leaks):
            print(line)
        share = f"{result.done} of {result.asked} environments ({result.honest} honest) in {result.seconds:.0f} s"
        share += f", {result.runtime}"
        print(f"{'passed' if result.passed else 'FAILED'}{' (interrupted)' if result.interrupted else ''}: {share}")
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main())
