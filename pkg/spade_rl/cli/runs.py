"""Finding runs: by identifier, by an unambiguous beginning of one, by path, or the newest."""

from __future__ import annotations

import fcntl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from spade_rl.cli.output import JsonOption, emit, guarded, out, percent, table, warn, warn_isolation
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.manifest import LOCK, MANIFEST, read_manifest
from spade_rl.report.events import EVENTS_FILE, RunLog, read_log

START_ONE = "start one with `spade train --preset quickstart`"

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="SPADE_RUNS_DIR", help="Folder that holds a folder for every run.")
]
RunArgument = Annotated[str | None, typer.Argument(help="Identifier, beginning of one, or path; default: the newest.")]
RunOption = Annotated[
    str | None, typer.Option("--run", "-r", help="Identifier, beginning of one, or path; default: the newest.")
]
DEFAULT_RUNS_DIR = Path("runs")


def _touched(run_dir: Path) -> float:
    """Return when a run last said something; runs that never did are as old as their folder's manifest."""
    for name in (EVENTS_FILE, MANIFEST):
        try:
            return (run_dir / name).stat().st_mtime
        except FileNotFoundError:
            continue
    return 0.0


def run_folders(runs_dir: Path) -> list[Path]:
    """Return the folders of all runs, the oldest first."""
    try:
        found = [path.parent for path in runs_dir.glob(f"*/{MANIFEST}")]
    except OSError as error:
        raise ConfigurationError(f"cannot read {runs_dir}: {error.strerror}") from error
    return sorted(found, key=lambda path: (_touched(path), path.name))


def find_run(runs_dir: Path, name: str | None) -> Path:
    """Return the folder of the run that ``name`` means; raises ConfigurationError if it means none or several."""
    if name is not None and (Path(name) / MANIFEST).is_file():
        return Path(name)
    folders = run_folders(runs_dir)
    if name is None:
        if not folders:
            raise ConfigurationError(f"there is no run in {runs_dir} yet; {START_ONE}")
        return folders[-1]
    exact = [path for path in folders if path.name == name]
    begun = exact or [path for path in folders if path.name.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ConfigurationError(
            f"{name!r} could be {', '.join(path.name for path in begun)}; give more of the identifier"
        )
    known = (
        f"there are {', '.join(path.name for path in folders[-5:])}" if folders else f"there is none yet; {START_ONE}"
    )
    raise ConfigurationError(f"there is no run {name!r} in {runs_dir}; {known}")


def is_running(run_dir: Path) -> bool:
    """Whether a process holds the run's folder right now."""
    try:
        with (run_dir / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def open_run(runs_dir: Path, name: str | None) -> tuple[Path, RunLog]:
    """Find a run, check that this version can read it, warn of its isolation, and return its folder and log."""
    run_dir = find_run(runs_dir, name)
    read_manifest(run_dir)
    log = read_log(run_dir)
    warn_isolation(log.started.isolation)
    return run_dir, log


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a list."""

    run_id: str
    path: str
    state: str
    cycles: int
    policy_version: int
    isolation: str
    held_out_before: float | None
    held_out_after: float | None
    age_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def run_row(run_dir: Path, now: float) -> RunRow:
    """Sum up one run; raises SpadeError if its folder cannot be read."""
    run_id = str(read_manifest(run_dir)["run_id"])
    running = is_running(run_dir)
    age = max(now - _touched(run_dir), 0.0)
    if not (run_dir / EVENTS_FILE).exists():
        return RunRow(run_id, str(run_dir), "running" if running else "not started", 0, 0, "unknown", None, None, age)
    log = read_log(run_dir)
    return RunRow(
        run_id,
        str(run_dir),
        "running" if running else str(log.state),
        len(log.cycles),
        log.policy_version,
        log.started.isolation,
        log.before.mean if log.before else None,
        log.after.mean if log.after else None,
        age,
    )


def age(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


@guarded
def runs(runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """List the runs, the newest last."""
    rows, unreadable = [], {}
    for run_dir in run_folders(runs_dir):
        try:
            rows.append(run_row(run_dir, time.time()))
        except SpadeError as error:
            unreadable[str(run_dir)] = str(error)
    if json:
        emit({"runs": [row.as_json() for row in rows], "unreadable": unreadable})
        return
    for message in unreadable.values():
        warn(message)
    if not rows:
        out().print(f"There is no run in {runs_dir} yet; {START_ONE}.", markup=False)
        return
    cells = [
        (row.run_id, row.state, row.cycles, row.policy_version, percent(row.held_out_before), percent(row.held_out_after), row.isolation, age(row.age_seconds))
        for row in rows
    ]  # fmt: skip
    columns = ("RUN", "STATE", "CYCLES", "VERSION", "BEFORE", "AFTER", "ISOLATION", "AGE")
    out().print(table(columns, cells, right=("CYCLES", "VERSION", "BEFORE", "AFTER", "AGE")))
    for level in sorted({row.isolation for row in rows} - {"gvisor", "unknown"}):
        warn_isolation(level)
