"""Advantages: how much better a unit did than the others of its group.

Pure functions. A unit counts once in its group's mean, however many sequences it has, so a long episode weighs as
much as a short one. A group of one, or of equal rewards, carries no signal: its samples get ``None``, and neither
the loss nor the token counts see them.

- agent: ``R - mean(R)`` over the plays of an environment in one cycle, as in GRPO (arXiv 2402.03300) without its
  division by the deviation, which over-weights groups that are nearly solved or nearly hopeless (Dr. GRPO, arXiv
  2503.20783); ``normalise`` brings the division back.
- designer: ``(U - mean(U)) * scale`` over the designs of a skill in this batch, never divided, with
  ``scale = min(agent units / designer units * window, cap)``. The units are those of this batch, with signal or not,
  so the scale does not depend on luck. A batch without agent units counts the ratio as 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spade_rl.errors import LearnerError
from spade_rl.learner.samples import ROLES, Role, Sample

# Rewards closer than this are equal: means of returns carry rounding.
EQUAL = 1e-9

GroupKey = tuple[Role, str]


@dataclass(frozen=True, kw_only=True)
class Credit:
    """``advantages`` has one entry a sample, ``None`` where the group has no signal; the counts are by role."""

    advantages: tuple[float | None, ...]
    designer_scale: float
    units: Mapping[Role, int]
    groups: Mapping[Role, int]
    dropped: Mapping[Role, int]


def group_advantages(rewards: Sequence[float], *, normalise: bool = False) -> list[float] | None:
    """Return each unit's reward minus the mean, or ``None`` when the group carries no signal."""
    values = np.asarray(rewards, dtype=np.float64)
    if len(values) < 2 or float(values.max() - values.min()) <= EQUAL:
        return None
    centred = values - values.mean()
    return (centred / centred.std() if normalise else centred).tolist()


def designer_scale(agent_units: int, designer_units: int, *, window: int, cap: float) -> float:
    """Return the factor of the designer's advantages (ALGORITHM, designer advantage)."""
    if designer_units == 0:
        return 0.0
    ratio = agent_units / designer_units if agent_units else 1.0
    return min(ratio * window, cap)


def _groups(samples: Sequence[Sample]) -> dict[GroupKey, dict[str, float]]:
    """Return the reward of every unit of every group; a unit with two rewards is refused."""
    groups: dict[GroupKey, dict[str, float]] = {}
    for sample in samples:
        known = groups.setdefault((sample.role, sample.group), {}).setdefault(sample.unit, sample.reward)
        if known != sample.reward:
            raise LearnerError(f"{sample.name} has the reward {sample.reward}, another of its unit has {known}")
    return groups


def credit(samples: Sequence[Sample], *, window: int, cap: float, normalise: bool = False) -> Credit:
    """Return the advantage of every sample; ``normalise`` concerns the agent alone."""
    groups = _groups(samples)
    units = {role: sum(len(group) for key, group in groups.items() if key[0] is role) for role in ROLES}
    scale = designer_scale(units[Role.AGENT], units[Role.DESIGNER], window=window, cap=cap)
    table: dict[GroupKey, dict[str, float]] = {}
    for key, rewards in groups.items():
        agent = key[0] is Role.AGENT
        values = group_advantages(list(rewards.values()), normalise=normalise and agent)
        if values is not None:
            factor = 1.0 if agent else scale
            table[key] = {unit: value * factor for unit, value in zip(rewards, values, strict=True)}
    count = {role: sum(key[0] is role for key in groups) for role in ROLES}
    kept = {role: sum(key[0] is role for key in table) for role in ROLES}
    return Credit(
        advantages=tuple(table.get((s.role, s.group), {}).get(s.unit) for s in samples),
        designer_scale=scale,
        units=units,
        groups=count,
        dropped={role: count[role] - kept[role] for role in ROLES},
    )
