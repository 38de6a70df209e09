"""``spade doctor``: what a run would find, here or on a cluster, and what to do about what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from spade_rl.cli.machine import checks, examine, run_isolation
from spade_rl.cli.output import JsonOption, emit, guarded, out, shown, table
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunsDir
from spade_rl.cli.where import target_of
from spade_rl.cluster.target import Release
from spade_rl.errors import ConfigurationError
from spade_rl.health import Check, Health

STYLES = {Health.GOOD: "green", Health.WARNING: "yellow", Health.BAD: "bold red"}


@guarded
def doctor(
    context: typer.Context,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    values: Annotated[
        list[Path] | None, typer.Option("--values", "-f", help="With --context: the chart's values. May be repeated.")
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option("--image", help="With --context: probe with this image instead of the release's."),
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="With --context: start a pod to see gVisor and the images.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Look at this machine, or with --context at a cluster; ends with 1 if a run could not start there."""
    target = target_of(context)
    if isinstance(target, Release):
        _cluster(target, values or [], images or [], probe=probe, json=json)
    elif values or images:
        raise ConfigurationError("--values and --image are about a cluster: name it with --context before the command")
    else:
        _machine(runs_dir, json=json)


def _machine(runs_dir: Path, *, json: bool) -> None:
    machine = examine(runs_dir)
    found = checks(machine)
    ready = all(check.health is not Health.BAD for check in found)
    if json:
        emit(
            {
                "ready": ready,
                "isolation": run_isolation(machine.gvisor),
                "gvisor": asdict(machine.gvisor),
                "checks": [asdict(check) for check in found],
            }
        )
    else:
        _print(found)
        out().print(shown("A default run can start here." if ready else "A default run cannot start here yet."))
    if not ready:
        raise typer.Exit(1)


def _cluster(target: Release, values: Sequence[Path], images: Sequence[str], *, probe: bool, json: bool) -> None:
    from spade_rl.cluster.preflight import examine as examine_cluster
    from spade_rl.cluster.preflight import ready
    from spade_rl.cluster.values import read_values

    wishes = read_values(values, version("spade-rl"), images)
    found = examine_cluster(target, wishes, probing=probe)
    good = ready(found)
    if json:
        emit({"ready": good, "target": asdict(target), "checks": [asdict(check) for check in found]})
    else:
        _print(found)
        out().print(shown("A release can run there." if good else "A release cannot run there yet."))
    if not good:
        raise typer.Exit(1)


def _print(found: Sequence[Check]) -> None:
    rows = [(shown(check.health, STYLES[check.health]), check.name, check.found) for check in found]
    out().print(table(("", "WHAT", "FOUND"), rows))
    for check in found:
        if check.advice:
            out().print(shown(f"{check.name}: {check.advice}", STYLES[check.health]), soft_wrap=True)
