"""The charts of a run: which figures of its cycles are drawn, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spade_rl.report.bars import Share, count_bars, interval_bars
from spade_rl.report.charts import Series, line_chart, stacked_chart
from spade_rl.report.events import Cycle, Evaluation, RunLog

STAGES = ("design", "play", "score", "learn", "publish", "record", "checkpoint")


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption."""

    title: str
    caption: str
    chart: Markup


def _curve(name: str, cycles: Sequence[Cycle], value: Callable[[Cycle], float | None]) -> Series:
    found = ((float(cycle.cycle), value(cycle)) for cycle in cycles)
    return Series(name, tuple((x, y) for x, y in found if y is not None))


def _regret(cycles: Sequence[Cycle]) -> Series:
    measured = [(float(cycle.cycle), cycle.regret) for cycle in cycles if cycle.regret is not None]
    band = tuple((x, regret.mean - regret.se, regret.mean + regret.se) for x, regret in measured)
    return Series("regret", tuple((x, regret.mean) for x, regret in measured), band)


def _kept(figures: Sequence[tuple[str, str, Markup | None]]) -> list[Figure]:
    return [Figure(title, caption, chart) for title, caption, chart in figures if chart is not None]


def self_play_figures(cycles: Sequence[Cycle]) -> list[Figure]:
    """Return how designing and playing went; figures that no cycle holds are left out."""
    share = (0.0, 1.0)

    def lines(title: str, *series: Series, y_range: tuple[float, float] | None = None) -> Markup | None:
        return line_chart(title, [one for one in series if one.points], y_range=y_range)

    return _kept(
        [
            (
                "Valid share",
                "Designs that passed every admission gate.",
                lines("Valid share", _curve("valid", cycles, lambda c: c.valid_share), y_range=share),
            ),
            (
                "Regret",
                "Mean return with the hint minus without, on the same instances; the band is one standard error.",
                lines("Regret", _regret(cycles), y_range=(0.0, 0.1)),
            ),
            (
                "Difficulty",
                "Actions that an environment's own solution takes, mean over the environments in play.",
                lines("Difficulty", _curve("difficulty", cycles, lambda c: c.difficulty), y_range=(0.0, 1.0)),
            ),
            (
                "Win rates",
                "Mean return of both arms.",
                lines(
                    "Win rates",
                    _curve("without hint", cycles, lambda c: c.plain_return),
                    _curve("with hint", cycles, lambda c: c.hinted_return),
                    y_range=share,
                ),
            ),
            (
                "Learnable share",
                "Environments that the agent wins sometimes and not always.",
                lines("Learnable share", _curve("learnable", cycles, lambda c: c.learnable_share), y_range=share),
            ),
            (
                "Designer reward",
                "Mean over the environments whose window closed.",
                lines("Designer reward", _curve("reward", cycles, lambda c: c.designer_reward), y_range=share),
            ),
            (
                "Diversity",
                "Designs of a set that differ from each other.",
                lines(
                    "Diversity",
                    *(
                        _curve(name.replace("_", " "), cycles, lambda c, key=name: c.diversity.get(key))  # type: ignore[misc]
                        for name in sorted({name for cycle in cycles for name in cycle.diversity})
                    ),
                    y_range=share,
                ),
            ),
        ]
    )


def cost_figures(cycles: Sequence[Cycle]) -> list[Figure]:
    """Return what the cycles cost in tokens and time."""
    xs = [float(cycle.cycle) for cycle in cycles]
    roles = sorted({role for cycle in cycles for role in cycle.tokens})
    others = sorted({stage for cycle in cycles for stage in cycle.seconds} - set(STAGES))
    tokens = [(role, [cycle.tokens.get(role, 0.0) for cycle in cycles]) for role in roles]
    seconds = [(stage, [cycle.seconds.get(stage, 0.0) for cycle in cycles]) for stage in (*STAGES, *others)]
    busy = _curve("engine", cycles, lambda c: c.engine_busy_share)
    return _kept(
        [
            ("Tokens", "Sampled in each cycle, by role.", stacked_chart("Tokens of a cycle by role", xs, tokens)),
            (
                "Seconds",
                "Wall time of each cycle, by stage.",
                stacked_chart("Seconds of a cycle by stage", xs, seconds),
            ),
            (
                "Engine busy",
                "Share of a cycle's time in which the engine samples.",
                line_chart("Engine busy", [busy], y_range=(0.0, 1.0)),
            ),
        ]
    )


def learner_figures(cycles: Sequence[Cycle]) -> list[Figure]:
    """Return one curve for every metric of the learner."""
    names = sorted({name for cycle in cycles for name in cycle.learner})
    drawn = [
        (name, "", line_chart(name, [_curve(name, cycles, lambda c, key=name: c.learner.get(key))]))  # type: ignore[misc]
        for name in names
    ]
    return _kept(drawn)


def _share(evaluation: Evaluation | None, family: str | None) -> Share | None:
    if evaluation is None:
        return None
    measured = evaluation if family is None else evaluation.families.get(family)
    return Share(measured.mean, *measured.ci95) if measured is not None else None


def held_out_figures(log: RunLog) -> list[Figure]:
    """Return held-out accuracy before and after, overall and by family, and by level where levels were measured."""
    measured = [(when, one) for when, one in (("before", log.before), ("after", log.after)) if one is not None]
    families = sorted({family for _, one in measured for family in one.families})
    rows: list[str | None] = [None, *families]
    bars = interval_bars(
        "Held-out accuracy by family",
        ["overall", *families],
        [(when, [_share(one, row) for row in rows]) for when, one in measured],
    )
    by_level = [Series(when, _levels(one)) for when, one in measured]
    return _kept(
        [
            ("By family", "Share of held-out instances that the policy solves; the marks are 95 % intervals.", bars),
            (
                "By level",
                "The same by the instance's level.",
                line_chart(
                    "Held-out accuracy by level", [s for s in by_level if s.points], y_range=(0.0, 1.0), x_name="level"
                ),
            ),
        ]
    )


def _levels(evaluation: Evaluation) -> tuple[tuple[float, float], ...]:
    """Return (level, mean) in rising order."""
    values = {float(level): one if isinstance(one, float) else one.mean for level, one in evaluation.levels.items()}
    return tuple(sorted(values.items()))


def gate_counts(cycles: Sequence[Cycle]) -> list[tuple[str, int]]:
    """Return how many attempts each gate refused in the whole run, most first."""
    totals: dict[str, int] = {}
    for cycle in cycles:
        for gate, count in cycle.verdicts.items():
            totals[gate] = totals.get(gate, 0) + count
    return sorted(((gate, count) for gate, count in totals.items() if count), key=lambda item: (-item[1], item[0]))


def gate_figure(cycles: Sequence[Cycle]) -> Markup | None:
    """Return the bars of ``gate_counts``."""
    return count_bars("Attempts refused by gate", gate_counts(cycles))
