"""A run as an ordinary run folder, made up to now: what a coordinator hands out.

    config.yaml, manifest.json, events.jsonl   as far as the last event
    memory.sqlite, trajectories/               the run's part of the archive, wherever the memory service keeps it
    report.html                                once the run has begun
    environments/                              the programs of largest regret, one file each
    weights/<version>/                         on request: the policy that the run has come to

Only what belongs to the cycles that the event log tells of is taken from the archive, so that the parts fit together while
the run goes on. The release's own settings (addresses, certificates, the archive's URL) are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeVar

from spade_rl.config import RunConfig
from spade_rl.config_files import dump_config, load_config
from spade_rl.coordinator.clients import Services
from spade_rl.coordinator.settings import public
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.manifest import CONFIG, MANIFEST
from spade_rl.v1 import memory_pb2

EVENTS, ENVIRONMENTS, WEIGHTS = "events.jsonl", "environments", "weights"
BEST = 12
T = TypeVar("T")
Page = TypeVar("Page")


async def write_folder(
    target: Path,
    *,
    source: Path,
    lines: list[str],
    services: Services,
    run_id: str,
    weights: Path | None,
    executor: Executor,
) -> None:
    """Write the run in ``source``, with the events ``lines``, into the empty folder ``target``.

    ``weights`` is the folder of the version to add. Raises SpadeError.
    """

    async def aside(work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    events = [json.loads(line) for line in lines]
    config = public(load_config(file=source / CONFIG))
    await aside(lambda: _write_account(target, source, config, events))
    last = max((event["cycle"] for event in events if event["event"] == "cycle"), default=-1)
    if last >= 0:
        await _write_archive(target, services, run_id, last, aside)
    if any(event["event"] == "run_started" for event in events):
        await aside(lambda: _write_report(target))
    if weights is not None:
        await aside(lambda: _link(weights, target / WEIGHTS / weights.name))


def _write_account(target: Path, source: Path, config: RunConfig, events: list[dict[str, Any]]) -> None:
    (target / CONFIG).write_text(dump_config(config))
    shutil.copyfile(source / MANIFEST, target / MANIFEST)
    shown = [
        {**event, "config": config.model_dump(mode="json")} if event["event"] == "run_started" else event
        for event in events
    ]
    (target / EVENTS).write_text("".join(f"{json.dumps(event)}\n" for event in shown))


async def _write_archive(
    target: Path, services: Services, run_id: str, last: int, aside: Callable[[Callable[[], None]], Any]
) -> None:
    try:
        from spade_rl.memory.archive import Archive
        from spade_rl.memory.wire import record_from
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the coordinator cannot write archives without {error.name}: pip install 'spade-rl[memory,report]'"
        ) from error

    archive: list[Archive] = []

    async def record(cycle: int, **parts: Any) -> None:
        request = memory_pb2.RecordRequest(run_id=run_id, cycle=cycle, **parts)
        await aside(lambda: _discard(archive[0].record(record_from(request))))

    await aside(lambda: archive.append(Archive.open(target)))
    try:
        async for cycle, attempts in _by_cycle(services.attempts(run_id), lambda one: one.cycle, last):
            await record(cycle, attempts=[one.attempt for one in attempts])
        stored = [one async for one in services.environments(run_id)]
        stored = [one for one in stored if one.environment.provenance.cycle <= last]
        for cycle in sorted({one.environment.provenance.cycle for one in stored}):
            mine = [one for one in stored if one.environment.provenance.cycle == cycle]
            await record(
                cycle,
                environments=[one.environment for one in mine],
                statistics=[one.statistics for one in mine if one.HasField("statistics")],
            )
        async for cycle, trajectories in _by_cycle(services.trajectories(run_id), lambda one: one.cycle, last):
            await record(cycle, trajectories=trajectories)
        await aside(lambda: _write_best(target / ENVIRONMENTS, stored))
    finally:
        await aside(archive[0].close)


def _discard(_: object) -> None:
    return None


async def _by_cycle(
    items: AsyncIterator[Page], cycle_of: Callable[[Page], int], last: int
) -> AsyncIterator[tuple[int, list[Page]]]:
    """Group what comes in the order of its cycles; what came after cycle ``last`` is left out."""
    group: list[Page] = []
    async for item in items:
        if group and cycle_of(group[0]) != cycle_of(item):
            yield cycle_of(group[0]), group
            group = []
        if cycle_of(item) <= last:
            group.append(item)
    if group:
        yield cycle_of(group[0]), group


def best(stored: Iterable[memory_pb2.ListEnvironmentsResponse]) -> list[memory_pb2.ListEnvironmentsResponse]:
    """Return the environments of largest regret that were not set aside, the best first."""
    played = [one for one in stored if one.HasField("statistics") and not one.statistics.quarantined]
    return sorted(played, key=lambda one: (-one.statistics.regret, one.environment.digest))[:BEST]


def _write_best(folder: Path, stored: list[memory_pb2.ListEnvironmentsResponse]) -> None:
    folder.mkdir(exist_ok=True)
    for place, one in enumerate(best(stored), start=1):
        (folder / f"{place:02d}-{one.environment.digest[:16]}.py").write_text(one.environment.source)


def _write_report(target: Path) -> None:
    try:
        from spade_rl.report import write_report

        write_report(target)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the coordinator cannot write reports without {error.name}: pip install 'spade-rl[memory,report]'"
        ) from error


def _link(source: Path, target: Path) -> None:
    """Take a folder's files over without copying them where the file system can do that."""
    try:
        target.mkdir(parents=True)
        for path in sorted(source.iterdir()):
            try:
                os.link(path, target / path.name)
            except OSError:
                shutil.copyfile(path, target / path.name)
    except OSError as error:
        raise SpadeError(
            f"cannot take over the weights {source}: {error}. Ask again: a newer version may be there"
        ) from error
