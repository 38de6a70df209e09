"""The figures, the ratio and the goals, from measurements that are made up."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.sandbox_report import (
    OURS,
    Contestant,
    busy_cores,
    cpu_shares,
    goals,
    memory_of,
    percentile,
    ratio,
    show,
    timing,
)


def answer(count: int, wall: float, seconds: float = 0.001) -> dict[str, Any]:
    return {"seconds": [seconds] * count, "wall": wall, "count": count, "cpu": {"client": wall}}


def contestants() -> list[Contestant]:
    ours = Contestant(OURS, isolated=True, version="1")
    ours.answers = {
        "fresh@1": [answer(100, 1.0, 0.005)],
        "fresh@64": [answer(400, 1.0, 0.1), answer(200, 1.0, 0.1), answer(300, 1.0, 0.1)],
        "steps/1@1": [answer(1000, 1.0, 0.0005)],
        "steps/100@1": [
            {"seconds": [0.01] * 100, "wall": 1.0, "count": 150_000, "cpu": {"sentry": 3.0, "client": 1.0}}
        ],
        "memory": [
            {
                "before": {"sandboxes": 2, "client": 50, "process": 5, "sentry": 30_000_000, "memory file": 10_000_000},
                "during": {"sandboxes": 2, "client": 90, "process": 5, "sentry": 30_000_000, "memory file": 18_000_000},
                "sessions": 4,
                "cpu": {},
            }
        ],
        "kill": [{"told": [0.01, 0.02], "stopped": [0.03, 0.04], "cpu": {}}],
    }
    slow = Contestant("slow", isolated=True)
    slow.answers = {"fresh@1": [answer(10, 1.0)], "fresh@8": [answer(20, 1.0)]}
    fast = Contestant("fast", isolated=False)
    fast.answers = {"fresh@1": [answer(5000, 1.0)]}
    missing = Contestant("missing", isolated=True, problems=["pip could not install it"])
    return [ours, slow, fast, missing]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.75, 3), (0.76, 4), (1, 4)])
def test_percentiles_by_nearest_rank(share: float, expected: float) -> None:
    assert percentile([4, 1, 3, 2], share) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="needs values"):
        percentile([], 0.5)


def test_rates_are_the_median_of_the_rounds() -> None:
    found = timing([answer(400, 1.0), answer(200, 1.0), answer(600, 2.0)])
    assert (found.rate, found.calls, found.rounds) == (300, 1200, 3)
    assert found.p50_ms == pytest.approx(1.0)


def test_the_ratio_takes_the_best_isolated_peer_that_ran_at_its_best() -> None:
    assert ratio(contestants()) == (15.0, "slow")


def test_without_an_isolated_peer_or_isolation_of_our_own_there_is_no_ratio() -> None:
    ours, slow, fast, missing = contestants()
    assert ratio([ours, fast, missing]) == (None, "")
    ours.isolated = False
    assert ratio([ours, slow]) == (None, "")


def test_memory_counts_what_an_episode_adds() -> None:
    memory = memory_of(contestants()[0].answers["memory"][0])
    assert memory.sandbox_mb == pytest.approx(20)
    assert memory.episode_mb == pytest.approx(2)
    assert memory.episode_parts_mb == {"memory file": 2.0, "process": 0.0, "sentry": 0.0}


def test_goals_pass_and_fail_by_their_bounds() -> None:
    every = contestants()
    assert [goal.met for goal in goals(every)] == [True] * 5
    ours = every[0]
    ours.answers["fresh@1"] = [answer(10, 1.0, 0.0101)]
    ours.answers["fresh@64"] = [answer(199, 1.0)]
    ours.answers["steps/1@1"] = [answer(10, 1.0, 0.0011)]
    ours.answers["steps/100@1"] = [answer(99_999, 1.0)]
    ours.answers["kill"] = [{"told": [0.01], "stopped": [0.101], "cpu": {}}]
    assert [goal.met for goal in goals(every)] == [False] * 5


def test_what_was_not_measured_is_not_met() -> None:
    reached = goals([Contestant(OURS, isolated=True)])
    assert [(goal.measured, goal.met) for goal in reached] == [(None, False)] * 5


def test_shares_of_the_processor_leave_out_what_is_small() -> None:
    answers = [{"cpu": {"sentry": 3.0, "client": 1.0, "gofer": -0.01}}, {"cpu": {"sentry": 3.0, "runsc": 0.01}}]
    assert list(cpu_shares(answers)) == ["sentry", "client"]
    assert cpu_shares([]) == {}


def test_busy_cores_are_processor_time_over_time() -> None:
    cpu = {"sentry": 3.0, "client": 1.0}
    assert busy_cores([{"cpu": cpu, "wall": 1.5}, {"cpu": cpu, "wall": 2.5}]) == 2.0
    assert busy_cores([{"cpu": cpu}]) == busy_cores([]) == 0.0


def test_the_report_names_who_did_not_run_and_why_goals_are_missed() -> None:
    every = contestants()
    every[0].answers["steps/100@1"][0]["count"] = 5
    every[1].skipped = {"fresh@8", "steps/1@1"}
    output = io.StringIO()
    show(Console(file=output, width=200), every, profile=False)
    text = output.getvalue()
    assert "missing: not run: pip could not install it" in text
    assert "slow: no time was left to ask steps/1@1" in text
    assert "processor time of spade, steps/1@1: 1.0 cores busy: client 100%" in text
    assert "fast (not isolated)" in text
    assert text.count("pass") == 4
    assert text.count("miss ") == 1
