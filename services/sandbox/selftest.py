"""Before the service serves, it exceeds its own limits on purpose, and refuses to serve if one does not hold.

The probes run as an environment does: in a sandbox, in a worker, started by a pool. Limits that would take long to
reach are made small for it; what holds a small limit holds a large one. What an isolation level does not promise is not
tried, and is reported as not held. The limit of CPU time, which would take seconds, is not tried either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import ConfigurationError, SandboxError
from spade_rl.sandbox import metrics
from spade_rl.sandbox.episode import Episode
from spade_rl.sandbox.launch import Home
from spade_rl.sandbox.limits import EpisodeError, Limits, Origin
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.probes import HELD, PROBES, program, promised
from spade_rl.telemetry import get_logger

# For a busy machine; the probes themselves take milliseconds.
PROBE_SECONDS = 30.0
DEADLINE_SECONDS = 0.25
MOST_PROCESSES = 4
MOST_FILES = 64
# Above what a sandbox with one worker needs, and little enough to be exceeded quickly.
SANDBOX_MEMORY_MB = 96

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One limit: whether it held, and else why not, or that the isolation level does not promise it."""

    name: str
    held: bool
    message: str = ""


async def checked_limits(home: Home, section: SandboxSection) -> tuple[LimitCheck, ...]:
    """Return what the self-test found; raise ConfigurationError, with what to do, if a promised limit does not hold.

    With ``sandbox.self_test`` off nothing is tried, and nothing returned.
    """
    if not section.self_test:
        _log.info("the limits of the sandbox are not tried, as configured")
        return ()
    level = home.runtime.isolation
    checks = await try_limits(home, section, promised(level))
    refuse_broken(checks, level)
    for check in checks:
        metrics.LIMITS.labels(check.name).set(check.held)
    missing = [check.name for check in checks if not check.held]
    if missing:
        _log.warning("limits that this isolation level does not promise", level=level.value, limits=missing)
    return checks


def refuse_broken(checks: Sequence[LimitCheck], level: Isolation) -> None:
    """Raise ConfigurationError if a limit that a level promises did not hold."""
    promises = promised(level)
    broken = [check for check in checks if not check.held and check.name in promises]
    if broken:
        advice = " ".join(dict.fromkeys(PROBES[check.name].advice for check in broken))
        raise ConfigurationError(
            "the sandbox does not serve, because limits do not hold on this machine: "
            + "; ".join(f"{check.name} ({check.message})" for check in broken)
            + f". {advice}"
        )


async def try_limits(home: Home, section: SandboxSection, names: Collection[str]) -> tuple[LimitCheck, ...]:
    """Exceed the limits named, and report on all; once for a home. Raises SandboxError if a probe could not run at all."""
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
            _group(home, section, f"t{number}", limits, [(name, most.get(name, 0)) for name in group if name in names])
            for number, (limits, group) in enumerate(groups)
        )
    )
    found = {name: message for group in seen for name, message in group.items()}
    return tuple(
        LimitCheck(name, found[name] == "", found[name])
        if name in found
        else LimitCheck(name, False, f"{home.runtime.isolation.value} does not promise it")
        for name in PROBES
    )


async def _group(
    home: Home, section: SandboxSection, prefix: str, limits: Limits, probes: Sequence[tuple[str, int]]
) -> dict[str, str]:
    """Run probes one after the other in a sandbox of their own; return what is wrong with each limit."""
    found: dict[str, str] = {}
    if not probes:
        return found
    one = section.model_copy(
        update={"max_sandboxes": 1, "max_workers": 2, "prefork": 0, "queue_seconds": PROBE_SECONDS}
    )
    async with Pool(replace(home, limits=limits), one, prefix=prefix) as pool:
        while len(found) < len(probes):
            await _run(pool, probes[len(found) :], found)
    return found


async def _run(pool: Pool, probes: Sequence[tuple[str, int]], found: dict[str, str]) -> None:
    """Run probes in one worker until one ends it; note in ``found`` what is wrong with each limit, "" if nothing is."""
    name, amount = probes[0]
    try:
        async with asyncio.timeout(PROBE_SECONDS), pool.workers(program(), 1) as (worker,):
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
        held = error.kind is PROBES[name].fault
        found[name] = "" if held else f"its probe ended with {error.kind}: {error.message}"
