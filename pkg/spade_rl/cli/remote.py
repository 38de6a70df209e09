"""``spade submit``, ``status``, ``logs``, ``stop`` and ``fetch``: runs of a coordinator elsewhere, from here.

Where it is, the options before the command say (``--context`` and its companions, or ``--coordinator``). What the commands
do is in ``elsewhere``, which is imported when one runs.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from spade_rl.cli.output import JsonOption, guarded
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunsDir
from spade_rl.cli.train import NAME, new_name, split_items
from spade_rl.cli.where import needed
from spade_rl.errors import ConfigurationError

STOP_SECONDS = 7200.0

RunName = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="Identifier; default: the one that runs, or the newest.")
]
Weights = Annotated[bool, typer.Option("--weights", help="Copy the policy as well.")]
File = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE|KEY=VALUE", help="Configuration (YAML or TOML), and overrides as with --set."),
]


@guarded
def submit(
    context: typer.Context,
    items: File = None,
    preset: Annotated[
        str | None, typer.Option("--preset", "-p", help="Begin from a preset instead of the services' configuration.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="Override a key: run.cycles=50. May be repeated.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="The run's identifier; default: time and origin.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show events until the run ends, then copy its files home.")
    ] = False,
    weights: Weights = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Begin a run of a coordinator; without FILE, one of the configuration that its services were started with."""
    from spade_rl.cli import elsewhere

    target = needed(context)
    file, given = split_items(items or [])
    if name is not None and not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot name a run: a name has 1 to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit"
        )
    elsewhere.submit(
        target,
        name or new_name(preset or (file.stem if file else "run"), time.time()),
        elsewhere.Submission(file, preset, (*given, *(overrides or []))),
        runs_dir=runs_dir if follow else None,
        weights=weights,
        json=json,
    )


@guarded
def status(context: typer.Context, run: RunName = None, json: JsonOption = False) -> None:
    """Say how the runs of a coordinator go, or how one goes; ends with 1 if that one, or the newest, failed."""
    from spade_rl.cli import elsewhere

    if elsewhere.status(needed(context), run, json=json):
        raise typer.Exit(1)


@guarded
def logs(
    context: typer.Context,
    run: RunName = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    since: Annotated[int, typer.Option("--since", min=0, help="First event, by number.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print every event as one JSON object a line.")] = False,
) -> None:
    """Print the events of a run."""
    from spade_rl.cli import elsewhere

    elsewhere.logs(needed(context), run, follow=follow, since=since, json=json)


@guarded
def stop(
    context: typer.Context,
    run: RunName = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the run has checkpointed and stopped.")
    ] = True,
    seconds: Annotated[float, typer.Option("--timeout", min=1, help="How many seconds to wait.")] = STOP_SECONDS,
    json: JsonOption = False,
) -> None:
    """Have a run checkpoint at the end of its cycle, and stop; `resume` goes on with it."""
    from spade_rl.cli import elsewhere

    elsewhere.stop(needed(context), run, seconds=seconds if wait else None, json=json)


@guarded
def fetch(
    context: typer.Context,
    run: RunName = None,
    weights: Weights = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Copy a run's files home: report, events, configuration, archive, its best environments.

    What is here already is not copied again. The copy is an ordinary run: `report`, `envs` and `episodes` read it.
    """
    from spade_rl.cli import elsewhere

    elsewhere.fetch(needed(context), run, runs_dir=runs_dir, weights=weights, json=json)
