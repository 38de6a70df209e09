"""Reproduce the shipped nano model: vocabulary, demonstrations, supervised training, evaluation, a Hugging Face folder.

The result depends on ``seed`` and on how many steps fit into ``minutes``, so two machines give two models of
about the same quality, not the same bytes.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from spade_rl.nano.demos import Demonstrator
from spade_rl.nano.evaluate import judge_hints, judge_levels, play_held_out
from spade_rl.nano.heldout import Summary, held_out_runs
from spade_rl.nano.initial import initialise
from spade_rl.nano.model import NanoModel, export
from spade_rl.nano.sampling import Sampler
from spade_rl.nano.tokenizer import CHAT_TEMPLATE, train_tokenizer
from spade_rl.nano.training import Pools, Progress, train
from spade_rl.nano.vocabulary import vocabulary_texts
from spade_rl.nano.words import documents

ASSETS = Path(__file__).parent / "assets"
POOL_MINUTES = 20.0  # the training time for which the pools of demonstrations have their full size

# (stage, share of the stage that is done, a line to show)
Report = Callable[[str, float, str], None]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What was built, and how it plays the held-out set (accuracy by family, level and overall, both arms)."""

    folder: Path
    steps: int
    parameters: int
    hints_right: float
    plain: Summary
    hinted: Summary


def build(out: Path, minutes: float, seed: int = 0, report: Report | None = None) -> BuildResult:
    """Build the model into the folder ``out`` (replaced at the end, at once) with ``minutes`` of training.

    Preparation and evaluation take about two more minutes. Raises ``ValueError`` for a time that is not positive
    and ``OSError`` where the folder cannot be written.
    """
    if minutes <= 0:
        raise ValueError(f"the training time must be positive, got {minutes} minutes")
    say = report or (lambda _stage, _share, _line: None)
    out.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    torch.manual_seed(seed)

    say("demonstrations", 0.0, "learning the vocabulary")
    texts = documents("train")
    demonstrator = Demonstrator(texts, rng, held_out_runs())
    tokenizer = train_tokenizer(vocabulary_texts(texts, demonstrator, rng))
    model = NanoModel()
    initialise(model)
    sampler = Sampler(model, tokenizer)
    say("demonstrations", 0.1, "drawing demonstrations")
    pools = Pools(demonstrator, sampler, min(1.0, max(0.01, minutes / POOL_MINUTES)))

    def show(step: Progress) -> None:
        losses = " ".join(f"{name} {value:.3f}" for name, value in step.losses.items())
        say("training", step.share, f"step {step.step}: {losses}, {step.tokens_per_second:.0f} tokens/s")

    say("training", 0.0, f"{minutes:g} minutes")
    steps = train(model, pools, seconds=minutes * 60, rng=rng, progress=show)

    say("evaluation", 0.0, "hints and held-out plays")
    held_out = documents("heldout")
    hints_right = judge_hints(sampler, held_out, 100, temperature=0.3, seed=seed)
    levels = judge_levels(sampler, held_out, 10, temperature=1.0, seed=seed)
    plain = play_held_out(sampler, temperature=1.0, seed=seed, hinted=False)
    hinted = play_held_out(sampler, temperature=1.0, seed=seed, hinted=True)
    result = BuildResult(out, steps, sum(value.numel() for value in model.parameters()), hints_right, plain, hinted)
    write_folder(out, sampler, _facts(result, minutes, seed, levels))
    say(
        "evaluation",
        1.0,
        f"held-out accuracy {plain.overall.mean:.3f} without and {hinted.overall.mean:.3f} with hints",
    )
    return result


def _facts(result: BuildResult, minutes: float, seed: int, levels: dict[tuple[int, str], float]) -> dict[str, object]:
    def table(summary: Summary) -> dict[str, object]:
        return {
            "overall": asdict(summary.overall),
            "families": {name: value.mean for name, value in summary.families.items()},
            "levels": {str(level): value.mean for level, value in summary.levels.items()},
        }

    return {
        "minutes": minutes,
        "seed": seed,
        "steps": result.steps,
        "parameters": result.parameters,
        "hints_right": result.hints_right,
        "levels_written": {f"after {word} {level}": mean for (level, word), mean in levels.items()},
        "held_out_plain": table(result.plain),
        "held_out_hinted": table(result.hinted),
    }


def write_folder(out: Path, sampler: Sampler, facts: dict[str, object]) -> None:
    """Write the folder beside its place, then put it there; the old one is kept until the new one stands."""
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        sampler.tokenizer.save_pretrained(staging)
        (staging / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
        export(sampler.model).save_pretrained(staging)
        (staging / "evaluation.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        staging.chmod(0o755)
        if out.exists():
            old = staging.with_name(staging.name + "-old")
            out.replace(old)
            staging.replace(out)
            shutil.rmtree(old)
        else:
            staging.replace(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
