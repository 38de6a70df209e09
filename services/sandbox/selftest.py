"""Before the service serves, it exceeds its own limits on purpose, and refuses to serve if one does not hold.

The probes run as an environment does: in a sandbox, in a worker, started by a pool. Limits that would take long to
reach are made small for it; what holds a small limit holds a large one. What an isolation level does not promise is not
tried, and is reported as not held. A result is good for as long as the machine is up and everything that it depends on is
the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import ConfigurationError, SandboxError
from spade_rl.sandbox import metrics
from spade_rl.sandbox.episode import Episode
from spade_rl.sandbox.launch import Home
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Limits, Origin
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.program import Program, analyse
from spade_rl.seeds import source_digest
from spade_rl.telemetry import get_logger

# For a busy machine; the probes themselves take milliseconds.
PROBE_SECONDS = 30.0
DEADLINE_SECONDS = 0.25
MOST_PROCESSES = 4
MOST_FILES = 64
# Above what a sandbox with one worker needs, and little enough to be exceeded quickly.
SANDBOX_MEMORY_MB = 96
HELD = "held"

SOURCE = """
import os
import time


class Probe:
    def reset(self, seed):
        return "", {}

    def step(self, action):
        name, amount = action.split()
        try:
            seen = getattr(self, name)(int(amount))
        except (OSError, MemoryError):
            seen = "held"
        return seen, 0.0, False, False, {}

    def worker_memory(self, megabytes):
        block = bytearray(megabytes << 20)
        return f"a worker could take {len(block) >> 20} MB"

    def sandbox_memory(self, megabytes):
        blocks = [bytearray(b"x") * (8 << 20) for _ in range(megabytes // 8)]
        time.sleep(5)
        return f"a sandbox could use {8 * len(blocks)} MB"

    def processes(self, most):
        for _ in range(most):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        return f"a worker could start {most} processes"

    def open_files(self, most):
        opened = []
        try:
            while len(opened) < most:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        finally:
            for descriptor in opened:
                os.close(descriptor)
        return f"a worker could open {most} files"

    def file_size(self, megabytes):
        os.pwrite(os.open("long", os.O_RDWR | os.O_CREAT, 0o600), b"x", megabytes << 20)
        return f"a worker could write a file of {megabytes} MB"

    def disk(self, megabytes):
        for number in range(megabytes // 4):
            with open(f"part{number}", "wb") as part:
                part.write(bytes(4 << 20))
        return f"a worker could write {megabytes} MB"

    def network(self, port):
        import _socket
        for family, address in ((_socket.AF_INET, "192.0.2.1"), (_socket.AF_INET6, "2001:db8::1")):
            try:
                # Sends nothing: it asks for a route.
                _socket.socket(family, _socket.SOCK_DGRAM).connect((address, port))
            except OSError:
                continue
            return f"a worker has a route to {address}"
        return "held"

    def host_files(self, number):
        for folder in ("/", "/etc", os.path.dirname(os.__file__)):
            path = f"{folder}/spade-probe-{number}"
            try:
                with open(path, "x"):
                    os.unlink(path)
            except OSError:
                continue
            return f"a worker could write to {folder}"
        return "held"

    def deadline(self, number):
        while True:
            pass
"""


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One limit: whether it held, and else why not, or that the isolation level does not promise it."""

    name: str
    held: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Probe:
    name: str
    # The fault that also shows that the limit holds; the probe itself reports only that it was refused.
    fault: FaultKind | None
    levels: frozenset[Isolation]
    advice: str


_EVERYWHERE = frozenset(Isolation)
_NAMESPACES = frozenset({Isolation.GVISOR, Isolation.BUBBLEWRAP})
_GVISOR = frozenset({Isolation.GVISOR})
_UPDATE = "Install a current gVisor (`runsc --version` says which one this is)."
_PROBES = (
    _Probe("worker_memory", FaultKind.MEMORY, _EVERYWHERE, _UPDATE),
    _Probe(
        "sandbox_memory",
        FaultKind.MEMORY,
        _GVISOR,
        "The service reads a sandbox's memory from the descriptors of its processes below /proc: it must run as the user "
        f"who owns them, and see /proc. {_UPDATE}",
    ),
    _Probe("processes", FaultKind.PROCESSES, _GVISOR, _UPDATE),
    _Probe("open_files", FaultKind.FILES, _EVERYWHERE, _UPDATE),
    _Probe("file_size", FaultKind.DISK, _EVERYWHERE, _UPDATE),
    _Probe("disk", FaultKind.DISK, _NAMESPACES, _UPDATE),
    _Probe("network", None, _NAMESPACES, f"Sandboxes must have no network. {_UPDATE}"),
    _Probe("host_files", None, _NAMESPACES, f"Sandboxes must see nothing of this machine's files. {_UPDATE}"),
    _Probe("deadline", FaultKind.DEADLINE, _EVERYWHERE, "Is this machine too busy to end a process?"),
)
LIMITS = tuple(probe.name for probe in _PROBES)

_log = get_logger(__name__)


async def checked_limits(home: Home, section: SandboxSection, *, cached: bool = True) -> tuple[LimitCheck, ...]:
    """Return what the self-test found; raise ConfigurationError, with what to do, if a promised limit does not hold."""
    cache = home.root.parent / f"selftest-{_key(home)}.json"
    known = await asyncio.get_running_loop().run_in_executor(None, _read, cache) if cached else None
    checks = known or await try_limits(home, section)
    broken = [check for check in checks if not check.held and _promised(check.name, home)]
    if broken:
        advice = dict.fromkeys(probe.advice for probe in _PROBES if probe.name in {check.name for check in broken})
        raise ConfigurationError(
            "the sandbox does not serve, because limits do not hold on this machine: "
            + "; ".join(f"{check.name} ({check.message})" for check in broken)
            + f". {' '.join(advice)}"
        )
    if known is None:
        await asyncio.get_running_loop().run_in_executor(None, _write, cache, checks)
    for check in checks:
        metrics.LIMITS.labels(check.name).set(check.held)
    missing = [check.name for check in checks if not check.held]
    if missing:
        _log.warning(
            "limits that this isolation level does not promise", level=home.runtime.isolation.value, limits=missing
        )
    return checks


async def try_limits(home: Home, section: SandboxSection) -> tuple[LimitCheck, ...]:
    """Exceed every limit that the level promises. Raises SandboxError if a probe could not run at all."""
    small = replace(
        home.limits,
        call_seconds=PROBE_SECONDS,
        processes=min(home.limits.processes, MOST_PROCESSES),
        files=min(home.limits.files, MOST_FILES),
    )
    # A worker that needs longer than this even to start is ended all the same, and that is all there is to show.
    hasty = replace(small, call_seconds=DEADLINE_SECONDS)
    narrow = replace(small, sandbox_memory_mb=SANDBOX_MEMORY_MB, memory_mb=8 * SANDBOX_MEMORY_MB)
    most = {
        "worker_memory": small.memory_mb + 1,
        "sandbox_memory": 2 * SANDBOX_MEMORY_MB,
        "processes": small.processes + 1,
        "open_files": small.files + 1,
        "file_size": small.file_mb + 1,
        "disk": small.tmp_mb + 8,
    }
    groups = [
        # Processes go on after their probe, and the disk is full after its: they come last.
        (small, ("worker_memory", "open_files", "file_size", "network", "host_files", "processes", "disk")),
        (hasty, ("deadline",)),
        (narrow, ("sandbox_memory",)),
    ]
    seen = await asyncio.gather(
        *(
            _group(home, section, f"t{number}", limits, [(name, most.get(name, 0)) for name in names])
            for number, (limits, names) in enumerate(groups)
        )
    )
    found = {name: message for group in seen for name, message in group.items()}
    return tuple(
        LimitCheck(name, found[name] == "", found[name])
        if name in found
        else LimitCheck(name, False, f"{home.runtime.isolation.value} does not promise it")
        for name in LIMITS
    )


async def _group(
    home: Home, section: SandboxSection, prefix: str, limits: Limits, probes: Sequence[tuple[str, int]]
) -> dict[str, str]:
    """Run probes one after the other in a sandbox of their own; return what is wrong with each limit."""
    left = [(name, amount) for name, amount in probes if _promised(name, home)]
    found: dict[str, str] = {}
    if not left:
        return found
    one = section.model_copy(update={"max_sandboxes": 1, "max_workers": 2, "queue_seconds": PROBE_SECONDS})
    async with Pool(replace(home, limits=limits), one, prefix=prefix) as pool:
        while len(found) < len(left):
            await _run(pool, left[len(found) :], found)
    return found


async def _run(pool: Pool, probes: Sequence[tuple[str, int]], found: dict[str, str]) -> None:
    """Run probes in one worker until one ends it; note in ``found`` what is wrong with each limit, "" if nothing is."""
    name, amount = probes[0]
    try:
        async with asyncio.timeout(PROBE_SECONDS), pool.workers(_program(), 1) as (worker,):
            episode = Episode(worker)
            await episode.reset(0)
            for name, amount in probes:
                seen = (await episode.step([f"{name} {amount}"]))[0].observation
                found[name] = "" if seen == HELD else seen
    except TimeoutError:
        found[name] = f"nothing ended its probe within {PROBE_SECONDS:g} s"
    except EpisodeError as error:
        if error.origin is Origin.SANDBOX:
            raise SandboxError(f"the self-test of the limit {name} could not run: {error.message}") from error
        if error.kind is next(probe.fault for probe in _PROBES if probe.name == name):
            found[name] = ""
        else:
            found[name] = f"its probe ended with {error.kind}: {error.message}"


def _program() -> Program:
    """Return the probes as a program; they import what the gates would refuse."""
    honest = (
        "class Probe:\n    def reset(self, seed): ...\n    def step(self, action): ...\n    def solution(self): ...\n"
    )
    return replace(analyse(honest), source=SOURCE, digest=source_digest(SOURCE))


def _promised(name: str, home: Home) -> bool:
    return home.runtime.isolation in next(probe for probe in _PROBES if probe.name == name).levels


def _key(home: Home) -> str:
    """Name everything that a result depends on."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    tool = Path(home.runtime.command[0]).stat() if home.runtime.command else None
    parts = [
        SOURCE,
        boot.read_text() if boot.exists() else "",
        home.runtime.isolation.value,
        home.runtime.name,
        str(tool and (tool.st_mtime_ns, tool.st_size)),
        str(home.root),
        str(sorted(asdict(home.limits).items())),
        str(os.geteuid()),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _read(cache: Path) -> tuple[LimitCheck, ...] | None:
    try:
        return tuple(
            LimitCheck(str(name), held is True, str(message)) for name, held, message in json.loads(cache.read_text())
        )
    except (OSError, ValueError, TypeError):
        return None


def _write(cache: Path, checks: Sequence[LimitCheck]) -> None:
    # A result that cannot be kept is found out again.
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(prefix=".selftest-", dir=cache.parent)
        with os.fdopen(descriptor, "w") as file:
            json.dump([[check.name, check.held, check.message] for check in checks], file)
        Path(name).replace(cache)
