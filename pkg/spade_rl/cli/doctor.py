"""``spade doctor``: what is installed, which isolation a run would get, and what to do about what is missing."""

from __future__ import annotations

from dataclasses import asdict

import typer

from spade_rl.cli.machine import Health, checks, examine, run_isolation
from spade_rl.cli.output import JsonOption, emit, guarded, out, shown, table
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunsDir

STYLES = {Health.GOOD: "green", Health.WARNING: "yellow", Health.BAD: "bold red"}


@guarded
def doctor(runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """Look at this machine; ends with 1 if a default run could not start here."""
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
        rows = [(shown(check.health, STYLES[check.health]), check.name, check.found) for check in found]
        out().print(table(("", "WHAT", "FOUND"), rows))
        for check in found:
            if check.advice:
                out().print(shown(f"{check.name}: {check.advice}", STYLES[check.health]), soft_wrap=True)
        out().print(shown("A default run can start here." if ready else "A default run cannot start here yet."))
    if not ready:
        raise typer.Exit(1)
