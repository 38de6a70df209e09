"""The designer's reward."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.regret.rewards import LOWEST, VARIANTS, Measured, blend, learning_potential, plateau, score
from spade_rl.regret.rewards import regret as regret_reward

unit = st.floats(-1, 1)
differences = st.floats(-2, 2)


@st.composite
def measured(draw):
    return Measured(draw(unit), draw(differences), draw(unit), quarantined=False)


@pytest.mark.parametrize(
    ("w", "value"),
    [(-1, 0), (0.15, 0), (0.275, 0.5), (0.4, 1), (0.5, 1), (0.6, 1), (0.725, 0.5), (0.85, 0), (1, 0)],
)
def test_the_plateau_has_its_shape(w, value):
    assert plateau(w) == pytest.approx(value, abs=1e-12)


@given(w=unit, other=unit)
def test_the_plateau_rises_then_falls_no_steeper_than_its_slope_around_one_half(w, other):
    assert plateau(w) == pytest.approx(plateau(1 - w), abs=1e-9)
    assert 0 <= plateau(w) <= 1
    assert abs(plateau(w) - plateau(other)) <= abs(w - other) / 0.25 + 1e-9
    if abs(w - 0.5) <= abs(other - 0.5):
        assert plateau(w) >= plateau(other) - 1e-12


@given(known=measured(), more=st.floats(0, 2))
def test_the_blend_lies_between_zero_and_one_and_grows_with_regret(known, more):
    assert 0 <= blend(known) <= 1
    higher = Measured(known.mean_return, known.regret + more, known.skill_average, False)
    assert blend(higher) >= blend(known)


def test_the_blend_is_the_papers_recipe():
    assert blend(Measured(0.5, 0.15, 0, False)) == pytest.approx(1)
    assert blend(Measured(0.5, -0.3, 0, False)) == pytest.approx(0.6)
    assert blend(Measured(1.0, 0.075, 0, False)) == pytest.approx(0.2)
    assert blend(Measured(0.275, 2.0, 0, False)) == pytest.approx(0.7)


@given(known=measured())
def test_regret_and_learning_potential_are_their_formulas(known):
    assert regret_reward(known) == max(0, known.regret)
    assert learning_potential(known) == abs(known.mean_return - known.skill_average)


@given(known=measured(), variant=st.sampled_from(sorted(VARIANTS)))
def test_no_variant_pays_less_than_quarantine_which_pays_the_least(known, variant):
    assert score(variant, known) == VARIANTS[variant](known) >= LOWEST
    assert score(variant, replace(known, quarantined=True)) == LOWEST
