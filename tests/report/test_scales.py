from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.report.scales import Scale, finite, label, ticks, whole_ticks

numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(numbers, numbers, st.integers(2, 12))
def test_ticks_enclose_the_values_and_are_evenly_apart(a: float, b: float, count: int) -> None:
    low, high = sorted((a, b))
    marks = ticks(low, high, count)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack
    assert 2 <= len(marks) <= 2 * count + 2
    gaps = {round((y - x) / (marks[1] - marks[0]), 3) for x, y in itertools.pairwise(marks)}
    assert gaps == {1.0}


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_whole_ticks_lie_within(a: int, b: int) -> None:
    low, high = sorted((a, b))
    marks = whole_ticks(low, high)
    assert marks
    assert all(low <= mark <= high and mark == int(mark) for mark in marks)


def test_ticks_are_round() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0, 1, 3) == [0, 0.5, 1.0]
    assert ticks(0, 0.93, 6) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(5, 5)[0] < 5 < ticks(5, 5)[-1]


@given(numbers, numbers.filter(lambda v: abs(v) > 1e-3), st.floats(0, 1))
def test_a_scale_maps_the_ends_and_is_linear(start: float, width: float, share: float) -> None:
    scale = Scale((start, start + width), (10.0, 110.0))
    assert math.isclose(scale(start), 10.0, abs_tol=1e-6)
    assert math.isclose(scale(start + width), 110.0, abs_tol=1e-6)
    middle = scale(start + width * share)
    assert math.isclose(middle, 10 + 100 * share, abs_tol=1.0)


def test_a_scale_of_one_point_maps_to_the_middle() -> None:
    assert Scale((3, 3), (0, 10))(3) == 5


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert finite([1, None, float("nan"), float("inf"), 0.5]) == [1.0, 0.5]


def test_labels_are_short() -> None:
    assert [label(v) for v in (0.25, 12, 1234, 12_345, 2_500_000, -0.5)] == [
        "0.25",
        "12",
        "1234",
        "12.3k",
        "2.5M",
        "-0.5",
    ]
