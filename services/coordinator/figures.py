"""The figures of a cycle and of a run: pure functions over what was seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spade_rl.coordinator.state import Figures, LiveEnvironment, RunState
from spade_rl.v1 import designer_pb2, environment_pb2, regret_pb2, trajectory_pb2

LEARNABLE = (0.2, 0.8)
END_SHARE = 0.2


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return sum(values) / len(values) if values else None


def mean_and_error(values: Sequence[float]) -> dict[str, float] | None:
    """Return mean and standard error of the mean; None of nothing, an error of 0 for a single value."""
    if not values:
        return None
    centre = sum(values) / len(values)
    if len(values) == 1:
        return {"mean": centre, "se": 0.0}
    variance = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
    return {"mean": centre, "se": math.sqrt(variance / len(values))}


def failed_gates(slots: Sequence[designer_pb2.DesignedSlot]) -> dict[str, int]:
    """Count the refused attempts by the gate that refused them."""
    counts: Counter[str] = Counter()
    for slot in slots:
        for attempt in slot.attempts:
            if not attempt.report.admitted:
                failed = [v.gate for v in attempt.report.verdicts if v.verdict == environment_pb2.VERDICT_FAILED]
                counts.update(failed[:1])
    return dict(counts)


def cycle_figures(
    *,
    slots: Sequence[designer_pb2.DesignedSlot],
    live: Sequence[LiveEnvironment],
    evaluations: Mapping[str, regret_pb2.EvaluateResponse],
    rewards: Mapping[str, float],
    learner: Mapping[str, float],
    seconds: Mapping[str, float],
    engine_busy_share: float,
) -> dict[str, Any]:
    """Return the fields of a ``cycle`` event.

    ``difficulty`` is the mean number of actions with which the environments' own solutions win; ``diversity`` the
    share of distinct programs among the admitted ones, names and layout apart.
    """
    trajectories = [t for e in evaluations.values() for t in (*e.trajectories, *e.void_trajectories)]
    win_rates = [e.plain_return for e in evaluations.values() if not e.quarantine_reason]
    attempts = sum(len(slot.attempts) for slot in slots)
    admitted = sum(slot.HasField("environment") for slot in slots)
    low, high = LEARNABLE
    measured = [e for e in evaluations.values() if e.pairs]
    return {
        "environments": len(live),
        "attempts": attempts,
        "admitted": admitted,
        "valid_share": admitted / attempts if attempts else None,
        "verdicts": failed_gates(slots),
        "hints": sum(bool(slot.environment.hint) for slot in slots),
        "plain_return": mean(win_rates),
        "hinted_return": mean([e.hinted_return for e in measured]),
        "regret": mean_and_error([e.regret for e in measured]),
        "difficulty": mean([float(one.oracle_steps) for one in live]),
        "learnable_share": mean([float(low <= rate <= high) for rate in win_rates]),
        "win_rates": win_rates,
        "void_episodes": sum(e.void_episodes for e in evaluations.values()),
        "quarantined": sum(bool(one.quarantine_reason) for one in live),
        "diversity": {"distinct_share": _distinct_share(slots)},
        "designer_reward": mean(list(rewards.values())),
        "tokens": {
            "agent": sum(_sampled(sequence) for t in trajectories for sequence in t.sequences),
            "designer": sum(_sampled(attempt.sequence) for slot in slots for attempt in slot.attempts),
        },
        "episodes": len(trajectories),
        "seconds": dict(seconds),
        "learner": dict(learner),
        "engine_busy_share": engine_busy_share,
    }


def with_cycle(
    figures: Figures, slots: Sequence[designer_pb2.DesignedSlot], live: Sequence[LiveEnvironment], *, measured: bool
) -> Figures:
    """Return a run's sums with one more cycle in them."""
    if not measured:
        return figures
    difficulty = mean([float(one.oracle_steps) for one in live])
    return replace(
        figures,
        attempts=figures.attempts + sum(len(slot.attempts) for slot in slots),
        admitted=figures.admitted + len(live),
        regrets=figures.regrets + tuple(one.regret for one in live if one.hinted),
        difficulties=figures.difficulties + ((difficulty,) if difficulty is not None else ()),
    )


def run_summary(state: RunState, *, isolation: str, held_out_after: dict[str, Any] | None) -> dict[str, Any]:
    """Return a run's summary. ``difficulty`` compares the first and the last fifth of the sets."""
    figures = state.figures
    edge = max(1, round(len(figures.difficulties) * END_SHARE))
    return {
        "run_id": state.run_id,
        "cycles": state.cycle,
        "policy_version": state.policy_version,
        "valid_share": figures.admitted / figures.attempts if figures.attempts else None,
        "regret": mean_and_error(figures.regrets),
        "difficulty": {"start": mean(figures.difficulties[:edge]), "end": mean(figures.difficulties[-edge:])},
        "held_out_before": state.held_out_before,
        "held_out_after": held_out_after,
        "isolation": isolation,
        "minutes": state.seconds / 60,
    }


def _sampled(sequence: trajectory_pb2.Sequence) -> int:
    return sum(len(segment.token_ids) for segment in sequence.segments if segment.sampled)


def _distinct_share(slots: Sequence[designer_pb2.DesignedSlot]) -> float | None:
    normalised = [slot.attempts[-1].normalised_digest for slot in slots if slot.HasField("environment")]
    return len(set(normalised)) / len(normalised) if normalised else None
