"""Who works when: pure functions of the configuration and the run's state.

A *set* of environments lives for ``window`` cycles. Its first cycle designs it and plays both arms; every cycle plays
the plain arm; its last one rewards the designer, because only then is the win rate known. A set that lost all its
environments ends early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spade_rl.coordinator.state import LiveEnvironment, RunState

AVERAGE_RATE = 0.1


def slot_skills(skills: Sequence[str], active: int, environments: int, set_number: int) -> list[str]:
    """Return the skill of every slot of a set.

    ``active`` of the skills take part, round robin over sets, each with the same number of slots.
    """
    chosen = [skills[(set_number * active + index) % len(skills)] for index in range(active)]
    return [chosen[slot % active] for slot in range(environments)]


def opens_set(state: RunState) -> bool:
    """Whether the next cycle designs a set."""
    return state.age == 0


def closes_set(live: Sequence[LiveEnvironment], age: int, window: int) -> bool:
    """Whether a set that was played for ``age`` cycles is over."""
    return age >= window or all(one.quarantine_reason for one in live)


def after_plays(
    one: LiveEnvironment,
    *,
    plain: Sequence[float],
    hinted: Sequence[float],
    regret: tuple[float, float] | None,
    void_episodes: int,
    quarantine_reason: str,
) -> LiveEnvironment:
    """Return an environment with one more cycle's plays; ``regret`` is (mean, standard error) where it was measured."""
    mean, error = regret if regret is not None else (one.regret, one.regret_standard_error)
    return replace(
        one,
        plain=one.plain + tuple(plain),
        hinted=one.hinted + tuple(hinted),
        regret=mean,
        regret_standard_error=error,
        void_episodes=one.void_episodes + void_episodes,
        quarantine_reason=one.quarantine_reason or quarantine_reason,
    )


def moved_averages(averages: dict[str, float], closed: Sequence[LiveEnvironment]) -> dict[str, float]:
    """Return each skill's slow moving average of mean returns after a set was closed.

    A skill's first set is its average; later ones move it by a tenth of the difference.
    """
    moved = dict(averages)
    by_skill: dict[str, list[float]] = {}
    for one in closed:
        if one.plain:
            by_skill.setdefault(one.environment.skill, []).append(one.mean_return)
    for skill, returns in by_skill.items():
        mean = sum(returns) / len(returns)
        moved[skill] = moved[skill] + AVERAGE_RATE * (mean - moved[skill]) if skill in moved else mean
    return moved
