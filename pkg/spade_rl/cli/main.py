"""The command ``spade``.

Start-up is light: nothing here, nor in the modules of the commands, imports torch or transformers; what needs them is
imported when its command runs.
"""

from __future__ import annotations

import os
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated

import typer

from spade_rl.cli import check_env, doctor, environments, episodes, nano, remote, report, runs, train
from spade_rl.cli.output import DEBUG_VARIABLE, guarded
from spade_rl.cluster.target import make_target
from spade_rl.telemetry import configure_logging

ELSEWHERE = "Runs elsewhere (with --context or --coordinator)"

app = typer.Typer(
    name="spade",
    help="Self-play reinforcement learning: one model designs executable environments and learns to act in them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train.train)
app.command()(train.resume)
app.command(rich_help_panel=ELSEWHERE)(remote.submit)
app.command(rich_help_panel=ELSEWHERE)(remote.status)
app.command(rich_help_panel=ELSEWHERE)(remote.logs)
app.command(rich_help_panel=ELSEWHERE)(remote.stop)
app.command(rich_help_panel=ELSEWHERE)(remote.fetch)
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
    command: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show tracebacks; the same as {DEBUG_VARIABLE}=1.")] = False,
    context: Annotated[
        str | None,
        typer.Option(
            "--context", envvar="SPADE_CONTEXT", help="Context of your kubeconfig: the cluster that is meant."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", envvar="SPADE_NAMESPACE", help="Namespace; default: the context's.")
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", envvar="SPADE_RELEASE", help="Helm release; default: spade.")
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", envvar="SPADE_COORDINATOR", help="Address of a coordinator without a cluster."),
    ] = None,
    tls: Annotated[
        Path | None,
        typer.Option("--tls", envvar="SPADE_TLS", help="With --coordinator: folder with tls.crt, tls.key and ca.crt."),
    ] = None,
) -> None:
    """Set what holds for every command."""
    del version
    # Services started by a command log to standard error; `train` and `resume` set their own level.
    configure_logging("WARNING")
    command.obj = _target(context=context, namespace=namespace, release=release, address=coordinator, tls=tls)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


_target = guarded(make_target)


def main() -> None:
    """Run the command line; ends the process."""
    app(prog_name="spade")
