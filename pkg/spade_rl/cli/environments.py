"""``spade envs``: the environments of a run, listed, shown and played again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.syntax import Syntax
from rich.text import Text

from spade_rl.cli.archive import attempt_of, environment_json, one_environment, reading
from spade_rl.cli.output import JsonOption, emit, guarded, number, out, percent, shown, table
from spade_rl.cli.replay import replay
from spade_rl.cli.runs import DEFAULT_RUNS_DIR, RunArgument, RunOption, RunsDir, open_run
from spade_rl.report.text import short_digest, visible

if TYPE_CHECKING:
    from spade_rl.memory.records import Statistics, StoredEnvironment

app = typer.Typer(help="The environments of a run.", no_args_is_help=True)
app.command("replay")(replay)


class Order(StrEnum):
    """What a list is ordered by."""

    CYCLE = "cycle"
    REGRET = "regret"
    WIN_RATE = "win_rate"
    REWARD = "designer_reward"


def _key(stored: StoredEnvironment, order: Order) -> tuple[float, int, str]:
    value: float = 0.0
    if order is not Order.CYCLE:
        value = getattr(stored.statistics, order) if stored.statistics else float("-inf")
    return (value, stored.cycle, stored.environment.digest)


def regret_text(known: Statistics | None) -> str:
    """Return the regret, or a dash where the hinted arm was not played."""
    return f"{known.regret:+.3f} ± {known.regret_standard_error:.3f}" if known and known.hinted_plays else "–"


def _row(stored: StoredEnvironment) -> tuple[object, ...]:
    known = stored.statistics
    state = "new" if known is None else "quarantined" if known.quarantined else "closed" if known.closed else "in play"
    return (
        short_digest(stored.environment.digest),
        stored.environment.skill,
        stored.cycle,
        known.plain_plays + known.hinted_plays if known else 0,
        percent(known.win_rate if known else None, 0),
        percent(known.hinted_win_rate if known and known.hinted_plays else None, 0),
        regret_text(known),
        number(known.designer_reward if known and known.closed else None, 2),
        state,
    )


@app.command("list")
@guarded
def list_environments(
    run: RunArgument = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    skill: Annotated[str, typer.Option("--skill", help="Only of this skill.")] = "",
    order: Annotated[Order, typer.Option("--sort", help="What to order by; the greatest come last.")] = Order.CYCLE,
    learnable: Annotated[bool, typer.Option("--learnable", help="Only those that the policy wins sometimes.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The last so many.")] = 50,
    json: JsonOption = False,
) -> None:
    """List the environments that were admitted, with their results."""
    from spade_rl.report.choice import learnable as is_learnable

    run_dir, log = open_run(runs_dir, run)
    with reading(run_dir) as archive:
        found = archive.environments(log.started.run_id, skill=skill)
    chosen = sorted((one for one in found if not learnable or is_learnable(one)), key=lambda one: _key(one, order))
    last = chosen[-limit:]
    if json:
        emit(
            {
                "run_id": log.started.run_id,
                "isolation": log.started.isolation,
                "total": len(chosen),
                "environments": [environment_json(one, source=False) for one in last],
            }
        )
        return
    columns = ("DIGEST", "SKILL", "CYCLE", "PLAYS", "WON", "HINTED", "REGRET", "REWARD", "STATE")
    out().print(
        table(columns, [_row(one) for one in last], right=("CYCLE", "PLAYS", "WON", "HINTED", "REGRET", "REWARD"))
    )
    if len(chosen) > len(last):
        out().print(shown(f"the last {len(last)} of {len(chosen):,}; --limit shows more"))


@app.command("show")
@guarded
def show_environment(
    digest: Annotated[str, typer.Argument(help="Digest, or an unambiguous beginning of it.")],
    run: RunOption = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Show an environment: source, hint, where it comes from, how it was played."""
    run_dir, log = open_run(runs_dir, run)
    run_id = log.started.run_id
    with reading(run_dir) as archive:
        stored = one_environment(archive, run_id, digest)
        attempt = attempt_of(archive, run_id, stored)
    report = attempt.report if attempt else None
    if json:
        gates = (
            [{"gate": v.gate, "verdict": v.verdict, "message": v.message} for v in report.verdicts] if report else []
        )
        emit(
            {
                "run_id": run_id,
                "isolation": log.started.isolation,
                **environment_json(stored, source=True),
                "gates": gates,
            }
        )
        return
    _print_environment(stored, list(report.solution) if report else [])


def _print_environment(stored: StoredEnvironment, solution: list[str]) -> None:
    one, made, known = stored.environment, stored.environment.provenance, stored.statistics
    facts: list[tuple[str, Any]] = [
        ("digest", one.digest),
        ("skill", f"{one.skill} ({one.kind})"),
        ("written", f"cycle {stored.cycle}, policy version {made.policy_version}, attempt {made.attempts}"),
        ("document", made.document_id or "none"),
        ("positive seeds", ", ".join(map(short_digest, made.positive_seeds)) or "none"),
        ("negative seeds", ", ".join(map(short_digest, made.negative_seeds)) or "none"),
    ]
    if known:
        facts += [
            ("plays", f"{known.plain_plays} without hint, {known.hinted_plays} with, {known.void_episodes} void"),
            (
                "won",
                f"{known.win_rate:.0%} without hint"
                + (f", {known.hinted_win_rate:.0%} with" if known.hinted_plays else ""),
            ),
            ("regret", regret_text(known)),
            ("designer reward", number(known.designer_reward) if known.closed else "its window is still open"),
        ]
        if known.quarantined:
            facts.append(("quarantined", known.quarantine_reason))
    if solution:
        facts.append(
            ("solution", " · ".join(solution[:20]) + (f" … {len(solution) - 20} more" if len(solution) > 20 else ""))
        )
    for name, value in facts:
        out().print(Text(f"{name:>16}  ", style="dim") + shown(value))
    console = out()
    console.print(Text("\nSource", style="bold"))
    # Piped, the source comes as it is, without the padding that colours need.
    console.print(
        Syntax(visible(one.source), "python", theme="ansi_dark", word_wrap=True)
        if console.is_terminal
        else shown(one.source)
    )
    for title, body in (("Hint", one.hint), ("Document", made.document_excerpt)):
        console.print(Text(f"\n{title}", style="bold"))
        console.print(shown(body or "none"))
