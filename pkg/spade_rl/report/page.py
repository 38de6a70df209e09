"""The report: one HTML page that needs neither network nor script.

Everything that a model wrote is escaped by the template; the page's own policy forbids scripts and every request, so
that what slipped through could still not act.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spade_rl.errors import ConfigurationError
from spade_rl.memory.records import Attempt, StoredEnvironment
from spade_rl.report import choice, curves
from spade_rl.report.events import Evaluation, RunLog
from spade_rl.report.text import clipped, short_digest, visible

REPORT_FILE = "report.html"
BEST, REFUSED_PER_GATE = 12, 3
SOURCE_LIMIT, TEXT_LIMIT, TURN_LIMIT = 20_000, 4_000, 60


@dataclass(frozen=True, slots=True)
class Gallery:
    """What the archive gives the report: all environments, all attempts, and some plays of an early and a late cycle."""

    environments: Sequence[StoredEnvironment] = ()
    attempts: Sequence[Attempt] = ()
    samples: Sequence[tuple[int, Sequence[choice.Pair]]] = ()


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC") if seconds else "–"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("spade_rl"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        percent=_percent, number=_number, moment=_moment, short=short_digest, visible=visible,
        learnable=choice.learnable, refusal=choice.refusal, source=lambda text: clipped(text, SOURCE_LIMIT), text=lambda text: clipped(text, TEXT_LIMIT),
    )  # fmt: skip
    return made


def gain(before: Evaluation | None, after: Evaluation | None) -> float | None:
    """Return the rise of held-out accuracy, or None if it was not measured twice."""
    return None if before is None or after is None else after.mean - before.mean


def render(log: RunLog, gallery: Gallery) -> str:
    """Return the page of one run; a pure function of its log and of what the archive holds."""
    environments = {one.environment.digest: one for one in gallery.environments}
    best = choice.best_environments(gallery.environments, BEST)
    context: dict[str, Any] = {
        "log": log,
        "minutes": float(log.summary.get("minutes") or log.active_seconds / 60),
        "weaker": log.started.isolation != "gvisor",
        "gain": gain(log.before, log.after),
        "held_out": curves.held_out_figures(log),
        "self_play": curves.self_play_figures(log.cycles),
        "costs": curves.cost_figures(log.cycles),
        "learner": curves.learner_figures(log.cycles),
        "gates": curves.gate_counts(log.cycles),
        "gate_chart": curves.gate_figure(log.cycles),
        "environments": environments,
        "best": best,
        "shown": {one.environment.digest for one in best},
        "lineages": choice.lineages(gallery.environments),
        "refusals": choice.refusals(gallery.attempts, REFUSED_PER_GATE),
        "samples": gallery.samples,
        "turn_limit": TURN_LIMIT,
        "tokens": sum(sum(cycle.tokens.values()) for cycle in log.cycles),
        "episodes": sum(cycle.episodes for cycle in log.cycles),
    }
    return _environment().get_template("report.html.j2").render(context)


def write_page(run_dir: Path, page: str) -> Path:
    """Write the page into the run's folder, whole or not at all, and return its path."""
    target = run_dir / REPORT_FILE
    temporary: str | None = None
    try:
        with tempfile.NamedTemporaryFile("w", dir=run_dir, prefix=".report-", suffix=".html", delete=False) as out:
            temporary = out.name
            out.write(page)
        Path(temporary).chmod(0o644 & ~_umask())
        Path(temporary).replace(target)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise ConfigurationError(
            f"cannot write the report {target}: {error.strerror}; make room or permit it, then run `spade report`"
        ) from error
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
