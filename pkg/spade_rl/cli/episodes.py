"""``spade episodes``: the episodes of a run, listed and turn by turn."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from spade_rl.cli.archive import header_json, one_environment, one_trajectory, reading
from spade_rl.cli.output import JsonOption, emit, guarded, out, shown, table
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunArgument, RunOption, RunsDir, open_run
from spade_rl.cli.turns import ShownTurn, turns

app = typer.Typer(help="The episodes of a run.", no_args_is_help=True)


@app.command("list")
@guarded
def list_episodes(
    run: RunArgument = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    environment: Annotated[
        str, typer.Option("--env", "-e", help="Only of this environment: beginning of a digest.")
    ] = "",
    cycle: Annotated[int | None, typer.Option("--cycle", "-c", min=0, help="Only of this cycle.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    json: JsonOption = False,
) -> None:
    """List episodes, the newest last."""
    run_dir, log = open_run(runs_dir, run)
    run_id = log.started.run_id
    with reading(run_dir) as archive:
        digest = one_environment(archive, run_id, environment).environment.digest if environment else ""
        found = archive.trajectory_headers(run_id, digest_prefix=digest)
    chosen = [head for head in found if cycle is None or head.cycle == cycle]
    newest = chosen[-limit:]
    if json:
        emit(
            {
                "run_id": run_id,
                "isolation": log.started.isolation,
                "total": len(chosen),
                "episodes": [header_json(head) for head in newest],
            }
        )
        return
    rows = [
        (head.id.removeprefix(f"{run_id}/"), head.cycle, head.arm, f"{head.episode_return:+.2f}", head.stop_reason, head.turns, head.sampled_tokens)
        for head in newest
    ]  # fmt: skip
    columns = ("EPISODE", "CYCLE", "ARM", "RETURN", "END", "TURNS", "TOKENS")
    out().print(table(columns, rows, right=("CYCLE", "RETURN", "TURNS", "TOKENS")))
    if len(chosen) > len(newest):
        out().print(shown(f"the newest {len(newest)} of {len(chosen):,}; --limit shows more"))


@app.command("show")
@guarded
def show_episode(
    episode: Annotated[str, typer.Argument(help="Identifier, as `spade episodes list` prints it.")],
    run: RunOption = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Show one episode turn by turn."""
    run_dir, log = open_run(runs_dir, run)
    with reading(run_dir) as archive:
        found = one_trajectory(archive, log.started.run_id, episode)
    head = found.header
    if json:
        emit(
            {
                "run_id": log.started.run_id,
                "isolation": log.started.isolation,
                **header_json(head),
                "turns": [asdict(turn) for turn in found.turns],
                "last_observation": found.last_observation,
            }
        )
        return
    out().print(
        shown(
            f"{head.id}\nenvironment {head.environment_digest[:16]}, cycle {head.cycle}, {head.arm} arm, seed {head.seed}, "
            f"return {head.episode_return:+.2f}, {head.stop_reason}" + (f": {head.error}" if head.error else "")
        )
    )
    exchanges = [ShownTurn(turn.observation, turn.reply, turn.reward, turn.action) for turn in found.turns]
    out().print(turns(exchanges, found.last_observation))
