"""Regret over pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.regret.pairing import paired_regret

returns = st.dictionaries(st.integers(0, 30), st.floats(-1, 1), max_size=20)


@given(plain=returns, hinted=returns)
def test_swapping_the_arms_swaps_the_sign_and_nothing_else(plain, hinted):
    forth, back = paired_regret(plain, hinted), paired_regret(hinted, plain)
    assert forth.value == -back.value
    assert forth.standard_error == pytest.approx(back.standard_error, abs=1e-12)
    assert forth.pairs == back.pairs == len(plain.keys() & hinted.keys())


@given(plain=returns, hinted=returns)
def test_value_and_standard_error_are_numpys(plain, hinted):
    result = paired_regret(plain, hinted)
    differences = np.array([hinted[play] - plain[play] for play in plain.keys() & hinted.keys()])
    assert -2 <= result.value <= 2
    if len(differences) == 0:
        assert (result.value, result.standard_error) == (0, 0)
    else:
        assert result.value == pytest.approx(differences.mean(), abs=1e-9)
    if len(differences) > 1:
        assert result.standard_error == pytest.approx(differences.std(ddof=1) / len(differences) ** 0.5, abs=1e-9)
    else:
        assert result.standard_error == 0


@given(plain=returns, hinted=returns, alone=st.integers(100, 200), lost=st.floats(-1, 1))
def test_a_play_without_its_partner_changes_nothing(plain, hinted, alone, lost):
    expected = paired_regret(plain, hinted)
    assert paired_regret({**plain, alone: lost}, hinted) == expected
    assert paired_regret(plain, {**hinted, alone: lost}) == expected


@given(hardness=st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=20), help_=st.floats(0, 0.4))
def test_what_instances_have_in_common_is_no_error(hardness, help_):
    plain = dict(enumerate(hardness))
    hinted = {play: value + help_ for play, value in plain.items()}
    result = paired_regret(plain, hinted)
    assert result.value == pytest.approx(help_, abs=1e-9)
    assert result.standard_error == pytest.approx(0, abs=1e-9)
