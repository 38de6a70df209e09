"""What an environment earns its designer: one pure function for each variant.

A variant takes the mean return w of the plain arm over the environment's whole window, the regret measured in the cycle
in which the environment was made, and the slow moving average of w over the skill. Sources: ALGORITHM.md, "Formulas"; the
blend is the recipe of SPADE (arXiv 2608.19197).

The least that any variant gives is ``LOWEST``, 0, and a quarantined environment earns exactly that whatever its
returns were: its own code failed in play, and the designer is charged for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LOWEST = 0.0

PLATEAU_LOW, PLATEAU_HIGH = 0.4, 0.6
PLATEAU_SLOPE = 0.25
"""Distance over which the plateau falls from 1 to 0."""

PLATEAU_WEIGHT, REGRET_WEIGHT = 0.6, 0.4
FULL_REGRET = 0.15
"""Regret that earns the whole of the blend's second term."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of an environment when its window is over.

    ``mean_return`` and ``skill_average`` lie in [-1, 1], ``regret`` in [-2, 2].
    """

    mean_return: float
    regret: float
    skill_average: float
    quarantined: bool


def plateau(w: float) -> float:
    """Return 1 for w in [0.4, 0.6], falling linearly to 0 over 0.25 on each side."""
    outside = max(PLATEAU_LOW - w, w - PLATEAU_HIGH, 0.0)
    return max(0.0, 1.0 - outside / PLATEAU_SLOPE)


def blend(measured: Measured) -> float:
    """Return ``0.6 · plateau(w) + 0.4 · clip(max(0, regret) / 0.15, 0, 1)``: solvable half of the time, and better with advice."""
    return PLATEAU_WEIGHT * plateau(measured.mean_return) + REGRET_WEIGHT * min(
        1.0, max(0.0, measured.regret) / FULL_REGRET
    )


def regret(measured: Measured) -> float:
    """Return ``max(0, regret)``: what advice is worth."""
    return max(0.0, measured.regret)


def solve_rate(measured: Measured) -> float:
    """Return ``plateau(w)``: how close the environment is to being won half of the time."""
    return plateau(measured.mean_return)


def learning_potential(measured: Measured) -> float:
    """Return ``|w − skill average|``: how far the environment is from what the policy is used to in its skill."""
    return abs(measured.mean_return - measured.skill_average)


VARIANTS: dict[str, Callable[[Measured], float]] = {
    "blend": blend,
    "regret": regret,
    "solve_rate": solve_rate,
    "learning_potential": learning_potential,
}


def score(variant: str, measured: Measured) -> float:
    """Return the designer's reward for one environment by the named variant; KeyError if there is none."""
    reward = VARIANTS[variant]
    return LOWEST if measured.quarantined else reward(measured)
