"""The command ``spade``.

Start-up is light: nothing here, nor in the modules of the commands, imports torch or transformers; what needs them is
imported when its command runs.
"""

from __future__ import annotations

import os
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from spade_rl.cli import check_env, doctor, environments, episodes, nano, report, runs, train
from spade_rl.cli.output import DEBUG_VARIABLE
from spade_rl.telemetry import configure_logging

app = typer.Typer(
    name="spade",
    help="Self-play reinforcement learning: one model designs executable environments and learns to act in them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train.train)
app.command()(train.resume)
app.command()(runs.runs)
app.add_typer(environments.app, name="envs")
app.add_typer(episodes.app, name="episodes")
app.command("check-env")(check_env.check_env)
app.command("report")(report.report)
app.add_typer(nano.app, name="nano")
app.command()(doctor.doctor)
app.command("presets")(train.list_presets)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spade {installed_version('spade-rl')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show tracebacks; the same as {DEBUG_VARIABLE}=1.")] = False,
) -> None:
    """Set what holds for every command."""
    del version
    # Services started by a command log to standard error; `train` and `resume` set their own level.
    configure_logging("WARNING")
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def main() -> None:
    """Run the command line; ends the process."""
    app(prog_name="spade")
