"""What the load test makes of what it saw."""

from __future__ import annotations

import pytest

from benchmarks.load import ENVIRONMENTS, Sample, Tally, environments, growth_mb
from spade_rl.v1 import trajectory_pb2


def trajectory(name: str, reason: str = "TERMINATED", error: str = "") -> trajectory_pb2.Trajectory:
    reason = f"STOP_REASON_{reason}"
    return trajectory_pb2.Trajectory(id=name, stop_reason=reason, error=error, seconds=1.0)


def test_an_episode_is_lost_that_does_not_come_comes_twice_or_is_void_for_a_services_fault() -> None:
    tally = Tally(asked=6)
    for name in "abc":
        tally.add(trajectory(name))
    assert tally.lost == 3
    tally.add(trajectory("c"))
    assert tally.lost == 4
    tally.add(trajectory("d", "SANDBOX_ERROR", "no room"))
    tally.add(trajectory("e", "ENGINE_ERROR"))
    assert (tally.ended, tally.lost) == (5, 4)
    # The environment's own fault is an outcome like any other.
    tally.add(trajectory("f", "ENVIRONMENT_ERROR"))
    assert tally.lost == 3
    assert tally.errors == {"no room": 1}


def samples(*memory: float) -> list[Sample]:
    return [Sample(float(second), {"agent": amount}, 1, 1, 0) for second, amount in enumerate(memory)]


def test_growth_leaves_out_what_is_loaded_once_and_what_comes_after_the_end() -> None:
    assert growth_mb(samples(0, 50, 100, 100, 100, 100, 104, 106, 999), until=7.5) == {"agent": pytest.approx(5)}
    steady = growth_mb(samples(*range(100)), until=100)
    assert steady == {"agent": pytest.approx(50)}


def test_growth_is_not_told_of_too_few_samples() -> None:
    assert growth_mb([], until=1) == {}
    assert growth_mb(samples(1, 2), until=1) == {}


def test_every_environment_is_another_program() -> None:
    made = environments()
    assert len({each.digest for each in made}) == len({each.source for each in made}) == ENVIRONMENTS
