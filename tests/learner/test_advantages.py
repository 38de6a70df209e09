from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learner_cases import make_sample

from spade_rl.errors import LearnerError
from spade_rl.learner.advantages import EQUAL, credit, designer_scale, group_advantages
from spade_rl.learner.samples import Role, Sample

rewards = st.floats(-1, 1, allow_nan=False)


def sample(role: Role, group: str, unit: str, reward: float) -> Sample:
    return make_sample(np.random.default_rng(0), role=role, group=group, unit=unit, reward=reward)


@given(st.lists(rewards, min_size=2, max_size=20))
def test_a_group_has_mean_zero_or_no_signal(values: list[float]) -> None:
    result = group_advantages(values)
    if result is None:
        assert max(values) - min(values) <= EQUAL
    else:
        assert abs(sum(result)) < 1e-9
        ranked = [advantage for _, advantage in sorted(zip(values, result, strict=True))]
        assert ranked == sorted(result)


@given(st.lists(rewards, min_size=2, max_size=20), st.floats(-5, 5))
def test_a_shift_of_all_rewards_changes_nothing(values: list[float], shift: float) -> None:
    before, after = group_advantages(values), group_advantages([value + shift for value in values])
    if before is not None and after is not None:
        assert np.allclose(before, after, atol=1e-9)


@given(st.lists(st.tuples(rewards, st.integers(1, 5)), min_size=2, max_size=8))
def test_a_unit_counts_once_however_many_sequences_it_has(units: list[tuple[float, int]]) -> None:
    many = [sample(Role.AGENT, "g", str(i), r) for i, (r, count) in enumerate(units) for _ in range(count)]
    once = [sample(Role.AGENT, "g", str(i), r) for i, (r, _) in enumerate(units)]
    by_unit = dict(zip((s.unit for s in once), credit(once, window=1, cap=50).advantages, strict=True))
    result = credit(many, window=1, cap=50)
    assert [by_unit[s.unit] for s in many] == list(result.advantages)
    assert result.units[Role.AGENT] == len(units)


def test_a_group_of_one_and_a_group_of_equals_are_dropped() -> None:
    assert group_advantages([1.0]) is None
    assert group_advantages([0.1 + 0.2, 0.3, 0.3]) is None
    result = credit([sample(Role.AGENT, "a", "1", 1.0), sample(Role.AGENT, "b", "1", 0.0)], window=1, cap=50)
    assert result.advantages == (None, None)
    assert result.dropped[Role.AGENT] == 2
    assert result.groups[Role.AGENT] == 2


def test_the_deviation_divides_the_agents_advantages_only_when_asked() -> None:
    assert group_advantages([0.0, 1.0, 1.0, 0.0]) == [-0.5, 0.5, 0.5, -0.5]
    assert group_advantages([0.0, 1.0, 1.0, 0.0], normalise=True) == [-1.0, 1.0, 1.0, -1.0]
    samples = [sample(role, "g", str(i), float(i)) for role in Role for i in range(2)]
    plain, divided = (credit(samples, window=1, cap=50, normalise=n).advantages for n in (False, True))
    assert plain == (-0.5, 0.5, -0.5, 0.5)
    assert divided == (-1.0, 1.0, -0.5, 0.5)


@pytest.mark.parametrize(
    ("agent", "designer", "window", "scale"),
    [(160, 20, 2, 16), (384, 24, 4, 50), (0, 24, 4, 4), (10, 0, 4, 0), (1, 4, 2, 0.5)],
)
def test_the_designers_scale(agent: int, designer: int, window: int, scale: float) -> None:
    assert designer_scale(agent, designer, window=window, cap=50) == scale


def test_the_scale_counts_units_and_sees_groups_without_signal() -> None:
    agent = [sample(Role.AGENT, "g", str(i), 1.0) for i in range(6) for _ in range(3)]
    designer = [sample(Role.DESIGNER, "skill", str(i), float(i)) for i in range(2)]
    result = credit([*agent, *designer], window=2, cap=50)
    assert result.designer_scale == 6
    assert result.advantages[-2:] == (-3.0, 3.0)
    assert set(result.advantages[:-2]) == {None}


def test_roles_and_groups_do_not_mix() -> None:
    samples = [sample(role, "same", "same", 0.0) for role in Role] + [
        sample(role, "same", "other", 1.0) for role in Role
    ]
    assert all(math.isclose(abs(a or 0), 0.5) for a in credit(samples, window=1, cap=50).advantages)


def test_a_unit_with_two_rewards_is_refused_by_name() -> None:
    with pytest.raises(LearnerError, match="unit 'twice'"):
        credit([sample(Role.AGENT, "g", "twice", 0.0), sample(Role.AGENT, "g", "twice", 1.0)], window=1, cap=50)
