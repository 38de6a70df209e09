"""How many workers wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.sandbox.prefork import QUIET_SECONDS, WINDOW_SECONDS, Demand


@given(most=st.integers(0, 8), gaps=st.lists(st.floats(0, 2), max_size=40), waiting=st.integers(0, 8))
def test_no_more_wait_than_are_allowed(most: int, gaps: list[float], waiting: int) -> None:
    demand, now = Demand(most), 0.0
    for gap in gaps:
        now += gap
        demand.began(now)
        assert 0 <= demand.ahead(now) <= most
        assert demand.surplus(now, waiting) == 0


def test_as_many_wait_as_episodes_began_in_the_last_moment() -> None:
    demand = Demand(4)
    assert demand.ahead(0.0) == 0
    demand.began(1.0)
    assert demand.ahead(1.0) == 1
    demand.began(1.1)
    demand.began(1.2)
    assert demand.ahead(1.3) == 3
    assert demand.ahead(1.3 + 2 * WINDOW_SECONDS) == 1


def test_one_goes_on_waiting_when_it_is_quiet() -> None:
    demand = Demand(4)
    for _ in range(4):
        demand.began(0.0)
    assert demand.surplus(QUIET_SECONDS / 2, 4) == 0
    assert demand.surplus(2 * QUIET_SECONDS, 4) == 3
    assert Demand(0).surplus(2 * QUIET_SECONDS, 2) == 2
