"""``spade nano``: build the shipped nano model again, and measure one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from spade_rl.cli.output import JsonOption, emit, err, guarded, out, percent, shown, table, warn_isolation
from spade_rl.cli.sandbox import IsolationOption, admit_all, sandbox_config
from spade_rl.config import Isolation
from spade_rl.errors import ConfigurationError

if TYPE_CHECKING:
    from spade_rl.nano.evaluate import Verdict
    from spade_rl.nano.heldout import Summary
    from spade_rl.nano.sampling import Sampler

app = typer.Typer(help="The nano model: build it, measure it.", no_args_is_help=True)


def _summary_json(summary: Summary) -> dict[str, Any]:
    return {
        **asdict(summary.overall),
        "families": {name: asdict(one) for name, one in summary.families.items()},
        "levels": {str(level): asdict(one) for level, one in summary.levels.items()},
    }


def _print_held_out(plain: Summary, hinted: Summary) -> None:
    rows = [("overall", plain.overall, hinted.overall)]
    rows += [(name, plain.families[name], hinted.families[name]) for name in plain.families]
    rows += [(f"level {level}", plain.levels[level], hinted.levels[level]) for level in plain.levels]
    cells = [
        (name, f"{one.mean:.1%} ({one.low:.1%} to {one.high:.1%})", f"{two.mean:.1%}", one.plays)
        for name, one, two in rows
    ]
    out().print(table(("HELD-OUT", "WITHOUT HINT", "WITH HINT", "INSTANCES"), cells, right=("INSTANCES",)))


@app.command("build")
@guarded
def build(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the model into; replaced at the end.")],
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, help="Training time; preparation and evaluation add about two.")
    ] = 20.0,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    json: JsonOption = False,
) -> None:
    """Train the nano model from scratch: vocabulary, demonstrations, supervised training, evaluation."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "config.json").exists():
        raise ConfigurationError(f"{folder} holds something else than a model; choose another folder")
    from spade_rl.nano.build import build as build_model

    columns = (
        TextColumn("{task.fields[stage]:>14}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[line]}"),
    )
    with Progress(*columns, console=err()) as bars:
        task = bars.add_task("", total=1.0, stage="", line="")

        def say(stage: str, share: float, line: str) -> None:
            bars.update(task, completed=share, stage=stage, line=line)

        try:
            result = build_model(folder, minutes, seed, say)
        except OSError as error:
            raise ConfigurationError(f"cannot write the model into {folder}: {error}") from error
    if json:
        emit(
            {
                "folder": str(result.folder),
                "steps": result.steps,
                "parameters": result.parameters,
                "hints_right": result.hints_right,
                "held_out": _summary_json(result.plain),
                "held_out_hinted": _summary_json(result.hinted),
            }
        )
        return
    _print_held_out(result.plain, result.hinted)
    out().print(
        shown(
            f"{result.parameters:,} parameters, {result.steps:,} steps, hints right {percent(result.hints_right)}: {result.folder}"
        )
    )


@app.command("eval")
@guarded
def evaluate(
    model: Annotated[str, typer.Argument(help="`nano`, or a folder that `spade nano build` wrote.")] = "nano",
    designs: Annotated[int, typer.Option("--designs", min=0, help="Designs to sample and to admit; 0: none.")] = 200,
    temperature: Annotated[float, typer.Option("--temperature", min=0.01)] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    isolation: IsolationOption = None,
    json: JsonOption = False,
) -> None:
    """Measure a nano model: designs that pass the gates, their grounding, hints, held-out plays in both arms."""
    from spade_rl.nano.evaluate import judge_designs, judge_hints, play_held_out
    from spade_rl.nano.words import documents

    sampler = _load_sampler(model)
    texts = documents("heldout")
    written = None
    if designs:
        warn_isolation(isolation or Isolation.GVISOR)
        written = judge_designs(
            sampler,
            texts,
            designs,
            temperature=temperature,
            seed=seed,
            seeded=0.5,
            admit=lambda sources: _admit(isolation, sources),
        )
    hints = judge_hints(sampler, texts, 100, temperature=0.3, seed=seed)
    plain = play_held_out(sampler, temperature=temperature, seed=seed, hinted=False)
    hinted = play_held_out(sampler, temperature=temperature, seed=seed, hinted=True)
    if json:
        emit(
            {
                "model": model,
                "isolation": str(isolation or Isolation.GVISOR) if designs else None,
                "designs": asdict(written) if written else None,
                "hints_right": hints,
                "held_out": _summary_json(plain),
                "held_out_hinted": _summary_json(hinted),
            }
        )
        return
    if written:
        gates = (
            ", ".join(f"{gate} {count}" for gate, count in sorted(written.gates.items(), key=lambda item: -item[1]))
            or "none"
        )
        out().print(
            shown(
                f"{written.designs} designs: valid {percent(written.valid)}, skill obeyed {percent(written.obeyed)}, "
                f"words from the document {percent(written.grounding)} (another document {percent(written.swapped)}), "
                f"mean level {written.mean_level:.1f}\nrefused by: {gates}"
            )
        )
    out().print(shown(f"hints right {percent(hints)}"))
    _print_held_out(plain, hinted)


def _load_sampler(model: str) -> Sampler:
    from transformers import PreTrainedTokenizerFast
    from transformers.utils.logging import disable_progress_bar

    from spade_rl.models import model_location
    from spade_rl.nano.model import load
    from spade_rl.nano.sampling import Sampler

    disable_progress_bar()
    folder = Path(model_location(model))
    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"{folder} holds no nano model; build one with `spade nano build --out FOLDER`")
    try:
        return Sampler(load(folder), PreTrainedTokenizerFast.from_pretrained(folder))
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise ConfigurationError(f"{folder} holds another model than nano ({type(error).__name__}: {error})") from error


def _admit(isolation: Isolation | None, sources: Sequence[str]) -> list[Verdict]:
    """Return the sandbox's verdict on every source; empty ones hold no program and are not sent."""
    from spade_rl.nano.evaluate import Verdict
    from spade_rl.v1 import environment_pb2

    programs = [source for source in sources if source.strip()]
    reports = iter(asyncio.run(admit_all(sandbox_config(isolation), programs, 0)))
    verdicts = []
    for source in sources:
        if not source.strip():
            verdicts.append(Verdict(False, "no program"))
            continue
        report = next(reports)
        failed = [one.gate for one in report.verdicts if one.verdict == environment_pb2.VERDICT_FAILED]
        verdicts.append(Verdict(report.admitted, failed[0] if failed else ""))
    return verdicts
