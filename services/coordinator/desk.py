"""The runs of a coordinator: at most one is running, the others rest in their folders.

Every run has a folder below ``runs/``; what the other services keep lies beside it. ``coordinator.json`` names the run
that is wanted: it goes on when the coordinator is started again, unless somebody stopped it. ``start/`` keeps the policy
that every run begins from, since the learner holds the last run's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.coordinator.clients import Services
from spade_rl.coordinator.demand import Demand
from spade_rl.coordinator.events import read_events
from spade_rl.coordinator.run import Run
from spade_rl.coordinator.settings import adopted
from spade_rl.errors import CapacityError, ConfigurationError, SpadeError
from spade_rl.manifest import CONFIG, MANIFEST, prepare_run_dir, read_manifest
from spade_rl.telemetry import get_logger
from spade_rl.v1 import coordinator_pb2

RUNS, START, WANTED, EVENTS = "runs", "start", "coordinator.json", "events.jsonl"
SETTLE_SECONDS = 20.0
LIVE = (coordinator_pb2.RUN_STATE_RUNNING, coordinator_pb2.RUN_STATE_STOPPING)
_ENDINGS = {
    "run_finished": coordinator_pb2.RUN_STATE_FINISHED,
    "run_failed": coordinator_pb2.RUN_STATE_FAILED,
}

_log = get_logger("coordinator")


@dataclass(frozen=True, slots=True)
class Status:
    """How a run goes; ``state`` is a ``RunState`` of the wire."""

    run_id: str
    state: coordinator_pb2.RunState
    cycle: int
    cycles: int
    policy_version: int
    stage: str = ""
    stage_done: int = 0
    stage_total: int = 0
    error: str = ""
    events: int = 0
    last_event: float = 0.0
    isolation: str = ""


class Desk:
    """Starts, stops and tells of runs. ``close`` it: the run in progress ends at once and goes on from its checkpoint."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config = config
        self.folder = folder
        self.demand = Demand()
        self._run: Run | None = None
        self._task: asyncio.Task[Any] | None = None
        self._lock = asyncio.Lock()
        self._refused: dict[str, str] = {}

    # --- What there is ----------------------------------------------------------------------------

    def run_folder(self, run_id: str) -> Path:
        """Return where a run lies, or would lie."""
        return self.folder / RUNS / run_id

    def _known(self) -> list[str]:
        """Return the identifiers of all runs, in the order in which they began."""
        found = [path.parent for path in (self.folder / RUNS).glob(f"*/{MANIFEST}")]
        return [path.name for path in sorted(found, key=lambda path: ((path / MANIFEST).stat().st_mtime_ns, path.name))]

    def resolve(self, run_id: str) -> str:
        """Return the run that a name means; an empty one means the one that runs, or the newest."""
        known = self._known()
        if run_id in known:
            return run_id
        if not known:
            raise ConfigurationError("there is no run yet: submit one with `spade submit`")
        if not run_id:
            return self._run.state.run_id if self._live() and self._run else known[-1]
        raise ConfigurationError(f"there is no run {run_id!r}; there are {', '.join(known[-8:])}")

    def _live(self) -> bool:
        return self._task is not None and not self._task.done()

    def current(self, run_id: str) -> Run | None:
        """Return the run if it is the one that this process ran last."""
        return self._run if self._run is not None and self._run.state.run_id == run_id else None

    def status(self, run_id: str) -> Status:
        """Return how a run goes."""
        run_id = self.resolve(run_id)
        run = self.current(run_id)
        if run is not None:
            return of_run(run)
        status = _of_folder(run_id, self.run_folder(run_id))
        refusal = self._refused.get(run_id)
        return replace(status, state=coordinator_pb2.RUN_STATE_FAILED, error=refusal) if refusal else status

    def statuses(self) -> list[Status]:
        """Return how all runs go, the oldest first; one whose folder cannot be read is told as failed."""
        found = []
        for run_id in self._known():
            try:
                found.append(self.status(run_id))
            except SpadeError as error:
                found.append(Status(run_id, coordinator_pb2.RUN_STATE_FAILED, 0, 0, 0, error=str(error)))
        return found

    async def watch(self, run_id: str, first: int) -> AsyncIterator[tuple[int, str]]:
        """Yield the events of a run from a number on, and those to come, until it ends."""
        run_id = self.resolve(run_id)
        run = self.current(run_id)
        if run is not None:
            async for number, line in run.events.watch(first):
                yield number, line
            return
        path = self.run_folder(run_id) / EVENTS
        for number, event in enumerate(read_events(path) if path.exists() else []):
            if number >= first:
                yield number, json.dumps(event)

    # --- What is done -----------------------------------------------------------------------------

    async def open(self) -> None:
        """Go on with the run that is wanted; the first time, begin the one of the coordinator's own configuration.

        A wanted run that cannot go on, since the services were started with other settings meanwhile, is told as failed.
        """
        wanted = self._wanted()
        if wanted is None:
            if self.config.run.start:
                prepare_run_dir(self.run_folder(self.folder.name), self.config)
                self._launch(self.folder.name, self.config)
            return
        run_id, run = wanted
        if run:
            try:
                # A finished run only has to be told of.
                if self.status(run_id).state != coordinator_pb2.RUN_STATE_FINISHED:
                    self._launch(run_id, self._stored(run_id))
            except ConfigurationError as error:
                self._refused[run_id] = str(error)
                _log.error("the run cannot go on", run_id=run_id, error=str(error))

    async def start(self, run_id: str, text: str) -> Status:
        """Begin a run of a configuration given as YAML."""
        config = adopted(load_config(base=text), self.config)
        async with self._lock:
            folder = self.run_folder(run_id)
            if (folder / MANIFEST).exists():
                # Raises if the name is another run's.
                prepare_run_dir(folder, config)
                return self.status(run_id)
            await self._refuse_second(run_id)
            prepare_run_dir(folder, config)
            self._launch(run_id, config)
        return self.status(run_id)

    async def resume(self, run_id: str) -> Status:
        """Go on with a run from its newest checkpoint; one that is running or finished stays as it is."""
        async with self._lock:
            run_id = self.resolve(run_id)
            state = self.status(run_id).state
            if state == coordinator_pb2.RUN_STATE_FINISHED or (state in LIVE and self._live()):
                return self.status(run_id)
            await self._refuse_second(run_id)
            self._launch(run_id, self._stored(run_id))
        return self.status(run_id)

    async def stop(self, run_id: str) -> Status:
        """Have a run stop after its cycle; one that does not run stays as it is."""
        async with self._lock:
            run_id = self.resolve(run_id)
            run = self.current(run_id)
            if run is not None and self._live():
                self._want(run_id, run=False)
                run.stop()
            elif self._refused.pop(run_id, None):
                self._want(run_id, run=False)
        return self.status(run_id)

    async def close(self) -> None:
        """End the run in progress at once; nobody wants anything any more."""
        self.demand.close()
        if self._task is not None:
            self._task.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await self._task

    # --- How --------------------------------------------------------------------------------------

    def _stored(self, run_id: str) -> RunConfig:
        folder = self.run_folder(run_id)
        read_manifest(folder)
        return adopted(load_config(file=folder / CONFIG), self.config)

    async def _refuse_second(self, run_id: str) -> None:
        if self._run is None or self._task is None:
            return
        if self._run.status not in LIVE:
            # It has ended, and closes what it used.
            await asyncio.wait([self._task], timeout=SETTLE_SECONDS)
        if self._live():
            running = self._run.state.run_id
            raise CapacityError(
                f"the run {running} is running and the services can serve one: wait for it, or `spade stop {running}`, "
                f"before {run_id}"
            )

    def _launch(self, run_id: str, config: RunConfig) -> None:
        services = Services(self.config.endpoints, config.run.stage_seconds, self.config.tls, demand=self.demand)
        run = Run(config, services, run_dir=self.run_folder(run_id), run_id=run_id, start=self.folder / START)
        run.rewind()
        self._want(run_id, run=True)
        self._refused.pop(run_id, None)
        self._run = run
        self._task = asyncio.create_task(self._execute(run, services))

    async def _execute(self, run: Run, services: Services) -> None:
        try:
            summary = await run.execute(recoveries=run.config.run.recoveries)
            _log.info("the run ended", **{"run_id": run.state.run_id, **summary})
        except Exception as error:
            _log.error("the run failed", run_id=run.state.run_id, error=f"{type(error).__name__}: {error}")
        finally:
            await services.close()

    def _wanted(self) -> tuple[str, bool] | None:
        path = self.folder / WANTED
        try:
            data = json.loads(path.read_text())
            return str(data["run_id"]), bool(data["run"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"cannot read {path}: {error}; remove it to begin anew") from error

    def _want(self, run_id: str, *, run: bool) -> None:
        path = self.folder / WANTED
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps({"run_id": run_id, "run": run}))
            temporary.replace(path)
        except OSError as error:
            raise SpadeError(f"cannot write {path}: {error}") from error


def of_run(run: Run) -> Status:
    """Return how a run of this process goes."""
    last = run.events.last()
    return Status(
        run_id=run.state.run_id,
        state=run.status,
        cycle=run.state.cycle,
        cycles=run.config.run.cycles,
        policy_version=run.state.policy_version,
        stage=run.events.stage,
        stage_done=run.events.done,
        stage_total=run.events.total,
        error=run.error,
        events=len(run.events),
        last_event=float(last.get("time", 0.0)),
        isolation=run.isolation,
    )


def _of_folder(run_id: str, folder: Path) -> Status:
    """Return how a run ended that this process did not run."""
    config = load_config(file=folder / CONFIG)
    events = read_events(folder / EVENTS) if (folder / EVENTS).exists() else []
    last = events[-1] if events else {}
    cycle, version, isolation = 0, 0, ""
    for event in events:
        isolation = event.get("isolation", isolation)
        version = event.get("policy_version", version)
        if event["event"] in ("resumed", "checkpoint"):
            cycle = event["cycle"]
        elif event["event"] == "cycle":
            cycle = event["cycle"] + 1
    return Status(
        run_id=run_id,
        state=_ENDINGS.get(last.get("event", ""), coordinator_pb2.RUN_STATE_STOPPED),
        cycle=cycle,
        cycles=config.run.cycles,
        policy_version=(last.get("summary") or {}).get("policy_version", version),
        error=last.get("error", ""),
        events=len(events),
        last_event=float(last.get("time", 0.0)),
        isolation=isolation,
    )
