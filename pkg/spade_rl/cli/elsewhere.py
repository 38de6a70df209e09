"""What the commands do when the options before them name a coordinator elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from spade_rl.cli.output import emit, err, out, shown, table, warn_isolation
from spade_rl.cli.runs import age
from spade_rl.cli.view import event_line
from spade_rl.cluster.connect import coordinator
from spade_rl.cluster.coordinator import Coordinator, Event
from spade_rl.cluster.home import Copied, copy_home
from spade_rl.cluster.target import Target
from spade_rl.cluster.watch import follow, state_name, until_over
from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.errors import SpadeError
from spade_rl.v1 import coordinator_pb2 as pb

LIVE = (pb.RUN_STATE_RUNNING, pb.RUN_STATE_STOPPING)
COLUMNS = ("RUN", "STATE", "CYCLE", "VERSION", "STAGE", "ISOLATION", "LAST EVENT")


@dataclass(frozen=True, slots=True)
class Submission:
    """What a submitted run is made from.

    Overrides alone change what the services were started with. A file or preset stands for itself, as for ``spade train``;
    the coordinator refuses what does not fit its services.
    """

    file: Path | None
    preset: str | None
    overrides: tuple[str, ...]

    def resolved(self, base: str) -> RunConfig:
        """Return the configuration; ``base`` is what the services were started with, as YAML."""
        alone = self.file is None and self.preset is None
        return load_config(preset=self.preset, file=self.file, overrides=self.overrides, base=base if alone else None)


def as_given(config: RunConfig) -> str:
    """Return, as YAML, what a configuration was given: what it was not has the coordinator's defaults, whatever its version."""
    return yaml.safe_dump(config.model_dump(mode="json", exclude_unset=True), sort_keys=False)


def submit(
    target: Target, run_id: str, submission: Submission, *, runs_dir: Path | None, weights: bool, json: bool
) -> None:
    """Begin a run; with ``runs_dir`` follow it to its end and copy it there. The run's failure is the command's."""

    async def work() -> None:
        async with coordinator(target) as remote:
            config = submission.resolved((await remote.runs()).config)
            warn_isolation(config.sandbox.isolation)
            started = await remote.start(run_id, as_given(config))
            if runs_dir is None:
                _print_state(started.run_id, started.state, json=json)
                return
            err().print(shown(f"{started.run_id} runs: {target}. Ctrl-C leaves it running."))
            ended = await follow(remote, started.run_id, _teller(json=False))
            _print_copied(await _copy(remote, started.run_id, runs_dir, target, weights=weights), json=json)
            if ended.state == pb.RUN_STATE_FAILED:
                raise SpadeError(f"the run {started.run_id} failed: {ended.error}")

    asyncio.run(work())


def resume(target: Target, run: str | None, *, json: bool) -> None:
    """Go on with a run."""

    async def work() -> pb.ResumeRunResponse:
        async with coordinator(target) as remote:
            return await remote.resume(run or "")

    resumed = asyncio.run(work())
    _print_state(resumed.run_id, resumed.state, json=json)


def status(target: Target, run: str | None, *, json: bool) -> bool:
    """Print how runs go; returns whether the one that was named, or the newest, failed."""

    async def work() -> list[pb.GetRunResponse]:
        async with coordinator(target) as remote:
            return [await remote.status(run)] if run is not None else list((await remote.runs()).runs)

    found = asyncio.run(work())
    if json:
        emit({"runs": [as_row(one) for one in found]})
    elif not found:
        out().print("There is no run yet: `submit` begins one.", markup=False)
    else:
        out().print(table(COLUMNS, _cells(found, time.time()), right=("CYCLE", "VERSION", "LAST EVENT")))
        for one in found:
            if one.error:
                err().print(shown(f"{one.run_id}: {one.error}", "red"), soft_wrap=True)
    return bool(found) and found[-1].state == pb.RUN_STATE_FAILED


def logs(target: Target, run: str | None, *, follow: bool, since: int, json: bool) -> None:
    """Print a run's events from number ``since`` on: those so far, or all until it ends."""
    tell = _teller(json=json)

    async def work() -> None:
        async with coordinator(target) as remote:
            known = await remote.status(run or "")
            if not follow and since >= known.events:
                return
            async for event in remote.events(known.run_id, since):
                tell(event)
                if not follow and event.number + 1 >= known.events:
                    return

    asyncio.run(work())


def stop(target: Target, run: str | None, *, seconds: float | None, json: bool) -> None:
    """Have a run stop; wait for that for ``seconds``, None for not at all."""

    async def work() -> tuple[str, pb.RunState]:
        async with coordinator(target) as remote:
            asked = await remote.stop(run or "")
            if seconds is None:
                return asked.run_id, asked.state
            return asked.run_id, (await until_over(remote, asked.run_id, seconds)).state

    _print_state(*asyncio.run(work()), json=json)


def fetch(target: Target, run: str | None, *, runs_dir: Path, weights: bool, json: bool) -> None:
    """Copy a run home."""

    async def work() -> Copied:
        async with coordinator(target) as remote:
            return await _copy(remote, run or "", runs_dir, target, weights=weights)

    _print_copied(asyncio.run(work()), json=json)


def as_row(run: pb.GetRunResponse) -> dict[str, Any]:
    """Return how a run goes, by name."""
    names = [field.name for field in run.DESCRIPTOR.fields]
    return {name: getattr(run, name) for name in names} | {"state": state_name(run.state)}


def _cells(runs: Sequence[pb.GetRunResponse], now: float) -> list[tuple[object, ...]]:
    return [
        (
            one.run_id,
            state_name(one.state),
            f"{one.cycle}/{one.cycles}",
            one.policy_version,
            f"{one.stage} {one.stage_done}/{one.stage_total}" if one.stage and one.state in LIVE else "–",
            one.isolation or "–",
            age(max(now - one.last_event, 0.0)) if one.last_event else "–",
        )
        for one in runs
    ]


def _print_state(run_id: str, state: pb.RunState, *, json: bool) -> None:
    if json:
        emit({"run_id": run_id, "state": state_name(state)})
        return
    hint = {
        pb.RUN_STATE_RUNNING: "`logs -f` follows it",
        pb.RUN_STATE_STOPPING: "it stops at the end of its cycle",
        pb.RUN_STATE_STOPPED: "`resume` goes on with it",
        pb.RUN_STATE_FINISHED: "`fetch` copies it home",
        pb.RUN_STATE_FAILED: "`status` says why",
    }
    out().print(shown(f"{run_id} is {state_name(state)}; {hint[state]}."))


def _teller(*, json: bool) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if json:
            emit(event.fields)
            return
        line = event_line(event.fields)
        if line is not None:
            moment = time.strftime("%H:%M:%S", time.localtime(event.fields.get("time")))
            out().print(shown(f"{moment} {line}"), soft_wrap=True)

    return tell


async def _copy(remote: Coordinator, run_id: str, runs_dir: Path, target: Target, *, weights: bool) -> Copied:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = err()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("copying")
        return await copy_home(
            remote,
            run_id,
            runs_dir,
            origin=str(target),
            weights=weights,
            progress=lambda _path, done, total: bar.update(task, completed=done, total=total),
        )


def _print_copied(copied: Copied, *, json: bool) -> None:
    report = copied.folder / "report.html"
    if json:
        emit(
            {
                "run_id": copied.run_id,
                "state": state_name(copied.state),
                "run_dir": str(copied.folder),
                "report": str(report) if report.exists() else None,
                "files": copied.files,
                "received_bytes": copied.received,
            }
        )
        return
    state = state_name(copied.state)
    out().print(shown(f"{copied.run_id} ({state}): {copied.files} files in {copied.folder}"), soft_wrap=True)
    if report.exists():
        out().print(shown(f"Report: {report}"), soft_wrap=True)
