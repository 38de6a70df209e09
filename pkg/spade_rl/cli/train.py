"""``spade train`` and ``spade resume``: a run from its configuration, or from its last checkpoint, to its report."""

from __future__ import annotations

import re
import time
from asyncio import CancelledError
from pathlib import Path
from typing import Annotated, Any

import typer

from spade_rl import local
from spade_rl.cli.output import (
    JsonOption,
    emit,
    err,
    guarded,
    number,
    out,
    percent,
    shown,
    table,
    warn,
    warn_isolation,
)
from spade_rl.cli.progress import progress
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunArgument, RunsDir, find_run, is_running
from spade_rl.cli.view import RunView
from spade_rl.cli.where import target_of
from spade_rl.config import RunConfig
from spade_rl.config_files import dump_config, load_config, presets
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.manifest import CONFIG, MANIFEST, read_manifest
from spade_rl.report.events import EVENTS_FILE, RunState, read_log

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

NoReport = Annotated[bool, typer.Option("--no-report", help="Write no report at the end.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="Logs to show: DEBUG, INFO, WARNING or ERROR.")]


def _log_level(name: str) -> str:
    if name.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ConfigurationError(f"there is no log level {name!r}; there are DEBUG, INFO, WARNING and ERROR")
    return name.upper()


def new_run_dir(runs_dir: Path, name: str | None, origin: str, now: float) -> Path:
    """Return the folder of a new run, which does not exist yet; its name is the run's identifier.

    Raises ConfigurationError for a name that is taken or that could not be an identifier.
    """
    if name is not None:
        if not NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} cannot name a run: a name has 1 to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit"
            )
        if (runs_dir / name).exists():
            what = f"go on with it by `spade resume {name}`, or choose another name"
            raise ConfigurationError(f"there is a run {name!r} in {runs_dir} already; {what}")
        return runs_dir / name
    base = new_name(origin, now)
    candidates = [base, *(f"{base}-{index}" for index in range(2, 100))]
    return next(runs_dir / candidate for candidate in candidates if not (runs_dir / candidate).exists())


def new_name(origin: str, now: float) -> str:
    """Return an identifier made of a time and of what a run is made from."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", origin).strip("-.")[:32] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{stem}"


def split_items(items: list[str]) -> tuple[Path | None, list[str]]:
    """Tell the configuration file from the overrides among a command's arguments; what holds ``=`` is an override."""
    files = [item for item in items if "=" not in item]
    if len(files) > 1:
        raise ConfigurationError(f"give one configuration file, not {len(files)}: {', '.join(files)}")
    return (Path(files[0]) if files else None), [item for item in items if "=" in item]


def resolve(file: Path | None, preset: str | None, overrides: list[str], seed: int | None) -> RunConfig:
    """Return the configuration that the command line describes."""
    if file is None and preset is None:
        raise ConfigurationError(f"give a configuration file, or --preset with one of {', '.join(sorted(presets()))}")
    seeds = [] if seed is None else [f"run.seed={seed}"]
    return load_config(preset=preset, file=file, overrides=[*overrides, *seeds])


@guarded
def train(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE|KEY=VALUE", help="Configuration (YAML or TOML), and overrides as with --set."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", "-p", help="Begin from a preset; see `spade presets`.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Override a key: learner.learning_rate=1e-4. May be repeated."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The run's seed: the same as --set run.seed=SEED.")] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="The run's identifier; default: time and preset.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved configuration and start nothing.")
    ] = False,
    json: JsonOption = False,
    no_report: NoReport = False,
    log_level: LogLevel = "WARNING",
) -> None:
    """Run self-play: design environments, play them, learn from both.

    A preset is resolved first, then FILE, then every override. Ctrl-C checkpoints and stops; `spade resume` goes on.
    """
    file, given = split_items(items or [])
    config = resolve(file, preset, [*given, *(overrides or [])], seed)
    level = _log_level(log_level)
    run_dir = new_run_dir(runs_dir, name, preset or (file.stem if file else "run"), time.time())
    if dry_run:
        _print_config(config, json)
        return
    _execute(config, run_dir, spent=0.0, json=json, report=not no_report, log_level=level)


@guarded
def resume(
    context: typer.Context,
    run: RunArgument = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
    no_report: NoReport = False,
    log_level: LogLevel = "WARNING",
) -> None:
    """Go on with a run from its newest checkpoint: one of this machine, or of the coordinator that the options before name."""
    level = _log_level(log_level)
    if (target := target_of(context)) is not None:
        from spade_rl.cli import elsewhere

        elsewhere.resume(target, run, json=json)
        return
    run_dir = find_run(runs_dir, run)
    read_manifest(run_dir)
    if is_running(run_dir):
        raise ConfigurationError(
            f"the run {run_dir.name} is being run by another process; wait for it, or stop it first"
        )
    log = read_log(run_dir) if (run_dir / EVENTS_FILE).exists() else None
    if log is not None and log.state is RunState.FINISHED:
        warn(f"the run {run_dir.name} has finished: there is nothing to go on with")
        _end(dict(log.summary), run_dir, json=json, report=not no_report)
        return
    spent = log.active_seconds if log is not None else 0.0
    config = load_config(file=run_dir / CONFIG)
    _execute(config, run_dir, spent=spent, json=json, report=not no_report, log_level=level)


def _print_config(config: RunConfig, json: bool) -> None:
    if json:
        emit({"config": config.model_dump(mode="json")})
    else:
        out().print(shown(dump_config(config)), end="", soft_wrap=True)
    warn_isolation(config.sandbox.isolation)


def _execute(config: RunConfig, run_dir: Path, *, spent: float, json: bool, report: bool, log_level: str) -> None:
    """Run to the end, write the report, print the summary; the run's failure is the command's."""
    warn_isolation(config.sandbox.isolation)
    view = RunView(cycles=config.run.cycles, minutes=config.run.minutes, spent=spent)
    try:
        with progress(view, log_level) as listener:
            summary = local.train(config, run_dir=run_dir, listener=listener)
    except (SpadeError, CancelledError):
        if (run_dir / MANIFEST).exists():
            err().print(
                shown(f"The run's folder is {run_dir}; `spade resume {run_dir.name}` goes on from its last checkpoint.")
            )
        raise
    _end(summary, run_dir, json=json, report=report)


def _end(summary: dict[str, Any], run_dir: Path, *, json: bool, report: bool) -> None:
    """Write the report and print the summary of a run that is over."""
    failure: SpadeError | None = None
    path: Path | None = None
    if report:
        try:
            path = _write_report(run_dir)
        except SpadeError as error:
            # The run itself is over and kept: its summary must be printed first.
            failure = error
    summary |= {"run_id": run_dir.name, "run_dir": str(run_dir), "report": str(path) if path else None}
    warn_isolation(str(summary["isolation"]))
    if json:
        emit(summary)
    else:
        print_summary(summary)
    if failure is not None:
        raise failure


def _write_report(run_dir: Path) -> Path:
    from spade_rl.report import write_report

    return write_report(run_dir)


def _measured(one: dict[str, Any] | None) -> str:
    if one is None:
        return "–"
    low, high = one["ci95"]
    return f"{one['mean']:.1%} ({low:.1%} to {high:.1%})"


def print_summary(summary: dict[str, Any]) -> None:
    """Print the main figures of a run, before and after, and where its report is."""
    before, after = summary["held_out_before"], summary["held_out_after"]
    if before or after:
        families = {**(before or {}).get("families", {}), **(after or {}).get("families", {})}
        rows = [
            (family, _measured((before or {}).get("families", {}).get(family)), _measured((after or {}).get("families", {}).get(family)))
            for family in families
        ]  # fmt: skip
        out().print(table(("HELD-OUT", "BEFORE", "AFTER"), [("overall", _measured(before), _measured(after)), *rows]))
    regret, difficulty = summary["regret"], summary["difficulty"]
    out().print(
        shown(
            f"{summary['cycles']} cycles, policy version {summary['policy_version']}, {summary['minutes']:.1f} minutes, "
            f"isolation {summary['isolation']}\n"
            f"valid share {percent(summary['valid_share'])}, "
            + ("regret –" if regret is None else f"regret {regret['mean']:+.3f} ± {regret['se']:.3f}")
            + f", difficulty {number(difficulty['start'], 2)} → {number(difficulty['end'], 2)}"
        )
    )
    if summary.get("stopped"):
        out().print(shown(f"Stopped after a checkpoint; `spade resume {summary['run_id']}` goes on."))
    where = summary["report"]
    out().print(shown(f"Report: {where}" if where else f"Run: {summary['run_dir']}"), soft_wrap=True)


@guarded
def list_presets(json: JsonOption = False) -> None:
    """List the presets that `spade train --preset` takes."""
    known = presets()
    if json:
        emit({"presets": {name: load_config(preset=name).model_dump(mode="json") for name in sorted(known)}})
        return
    rows = [(name, next(iter(known[name].splitlines()), "").lstrip("# ")) for name in sorted(known)]
    out().print(table(("PRESET", "WHAT IT IS"), rows))
