"""``spade report``: write a run's report again."""

from __future__ import annotations

from spade_rl.cli.output import JsonOption, emit, guarded, out, shown
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunArgument, RunsDir, open_run


@guarded
def report(run: RunArgument = None, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """Write the report of a run, finished or not, and print where it is."""
    from spade_rl.report import write_report

    run_dir, log = open_run(runs_dir, run)
    path = write_report(run_dir)
    if json:
        emit({"run_id": log.started.run_id, "report": str(path), "isolation": log.started.isolation})
    else:
        out().print(shown(path), soft_wrap=True)
