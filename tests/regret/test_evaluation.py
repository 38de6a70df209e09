"""Exactly G plays an arm on the same seeds, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.errors import SpadeError
from spade_rl.regret.evaluation import HINTED, PLAIN, PlannedPlay, Played, evaluate, plan, summarise
from spade_rl.seeds import play_seeds

DIGEST = "ab" * 32


def planned(plays: int = 4, hinted: bool = True) -> list[PlannedPlay]:
    return plan(DIGEST, run_id="run", run_seed=5, cycle=2, plays=plays, hinted=hinted)


def played(play: PlannedPlay, value: float = 0.0, *, void: bool = False, fault: str = "") -> Played[str]:
    return Played(play.arm, play.play, value, void or bool(fault), bool(fault), fault, play.trajectory_id)


@given(plays=st.integers(1, 40), hinted=st.booleans())
def test_a_plan_has_exactly_so_many_plays_an_arm_on_the_same_seeds(plays, hinted):
    wanted = planned(plays, hinted)
    arms = (PLAIN, HINTED) if hinted else (PLAIN,)
    assert {play.arm for play in wanted} == set(arms)
    for arm in arms:
        assert [play.seed for play in wanted if play.arm == arm] == play_seeds(5, DIGEST, 2, plays)
        assert [play.play for play in wanted if play.arm == arm] == list(range(plays))
    assert len({play.trajectory_id for play in wanted}) == len(wanted) == plays * len(arms)
    assert wanted[0].trajectory_id == "run/c2/abababababababab/plain/0"


@given(st.data())
def test_void_plays_are_in_neither_mean_and_take_their_pair_along(data):
    results = [
        played(play, data.draw(st.sampled_from([-1.0, 0.0, 0.5, 1.0])), void=data.draw(st.booleans()))
        for play in planned(5)
    ]
    evaluation = summarise(DIGEST, data.draw(st.permutations(results)))
    assert len(evaluation.played) + len(evaluation.void) == 10
    assert [(r.arm != PLAIN, r.play) for r in evaluation.played] == sorted(
        (r.arm != PLAIN, r.play) for r in results if not r.void
    )
    for arm, mean in ((PLAIN, evaluation.plain_return), (HINTED, evaluation.hinted_return)):
        values = [r.episode_return for r in results if r.arm == arm and not r.void]
        assert mean == pytest.approx(sum(values) / len(values) if values else 0)
    complete = {r.play for r in results} - {r.play for r in results if r.void}
    assert evaluation.regret.pairs == len(complete)
    assert evaluation.quarantine_reason == ""


async def test_a_fault_quarantines_and_ends_the_rest():
    left = []

    async def rollout(plays: Sequence[PlannedPlay]):
        try:
            for number, play in enumerate(plays):
                yield played(play, fault="exception: division by zero" if number == 3 else "")
        finally:
            left.append(True)

    evaluation = await evaluate(DIGEST, planned(), rollout)
    assert left == [True]
    assert len(evaluation.played) == 3
    assert len(evaluation.void) == 1
    assert evaluation.quarantine_reason == "exception: division by zero"


@pytest.mark.parametrize("change", [lambda p: p[:-1], lambda p: [*p, p[0]], lambda p: [*p[:-1], planned(9)[-1]]])
async def test_plays_that_are_lost_doubled_or_not_asked_for_are_an_error(change):
    async def rollout(plays: Sequence[PlannedPlay]):
        for play in change(list(plays)):
            yield played(play)

    with pytest.raises(SpadeError):
        await evaluate(DIGEST, planned(), rollout)
