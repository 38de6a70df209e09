"""The figures of a cycle and of a run, and what the learner is given."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.coordinator import samples
from spade_rl.coordinator.figures import cycle_figures, mean_and_error, run_summary
from spade_rl.coordinator.state import Figures, LiveEnvironment, RunState
from spade_rl.v1 import designer_pb2, environment_pb2, learner_pb2, regret_pb2, trajectory_pb2

D = "c" * 64


def trajectory(play: int, value: float, arm: int = trajectory_pb2.ARM_PLAIN, sequences: int = 2):
    one = trajectory_pb2.Sequence(
        segments=[
            trajectory_pb2.Segment(token_ids=[5, 6]),
            trajectory_pb2.Segment(token_ids=[7], log_probs=[-1.0], sampled=True, trained=True),
        ]
    )
    return trajectory_pb2.Trajectory(
        id=f"{arm}/{play}", arm=arm, play=play, episode_return=value, sequences=[one] * sequences
    )


def evaluation(**fields):
    plays = [trajectory(0, 1.0), trajectory(1, 0.0), trajectory(0, 1.0, trajectory_pb2.ARM_HINTED)]
    return regret_pb2.EvaluateResponse(digest=D, trajectories=plays, plain_return=0.5, **fields)


def attempt(name: str, skill: str = "s", solution=("a", "b")):
    segment = trajectory_pb2.Segment(token_ids=[1], log_probs=[-1.0], sampled=True, trained=True)
    return designer_pb2.DesignAttempt(
        id=name,
        skill=skill,
        sequence=trajectory_pb2.Sequence(segments=[segment]),
        report=environment_pb2.AdmissionReport(digest=D, admitted=True, solution=solution),
        normalised_digest=name,
    )


def live(**fields):
    return LiveEnvironment(environment=environment_pb2.Environment(digest=D, skill="s"), attempt=attempt("x"), **fields)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_mean_and_error_agree_with_numpy(values):
    found = mean_and_error(values)
    assert found is not None
    assert math.isclose(found["mean"], np.mean(values), abs_tol=1e-12)
    assert math.isclose(found["se"], np.std(values, ddof=1) / math.sqrt(len(values)), abs_tol=1e-12)


def test_the_learner_gets_the_plain_arm_only_and_every_sequence_of_it():
    found = samples.agent_samples([evaluation()], cycle=3)
    assert [(s.unit, s.reward) for s in found] == [("1/0", 1.0)] * 2 + [("1/1", 0.0)] * 2
    assert {s.group for s in found} == {f"{D}/3"}
    assert {s.role for s in found} == {learner_pb2.ROLE_AGENT}


def test_plays_of_a_broken_environment_teach_nothing():
    assert samples.agent_samples([evaluation(quarantine_reason="raised")], cycle=0) == []


@pytest.mark.parametrize("invalid", [None, -0.3])
def test_refused_attempts_are_trained_on_if_there_is_a_reward_for_them(invalid):
    found = samples.designer_samples([live()], {D: 0.7}, [attempt("bad")], invalid)
    assert [(s.unit, s.reward) for s in found] == [("x", 0.7)] + ([("bad", -0.3)] if invalid else [])


def test_a_cycle_that_designed_nothing_has_no_valid_share():
    slots = [designer_pb2.DesignedSlot(slot=0, attempts=[attempt("x")])]
    common = {"live": [live()], "evaluations": {D: evaluation(pairs=1, regret=0.5)}, "rewards": {}, "learner": {}}
    one = cycle_figures(slots=slots, seconds={"play": 1.0}, engine_busy_share=0.5, **common)
    assert (one["valid_share"], one["attempts"], one["regret"]) == (0.0, 1, {"mean": 0.5, "se": 0.0})
    assert one["tokens"] == {"agent": 6, "designer": 1}
    none = cycle_figures(slots=[], seconds={}, engine_busy_share=0.5, **common)
    assert none["valid_share"] is None
    assert none["difficulty"] == 2.0


def test_the_summary_compares_the_first_and_the_last_fifth():
    figures = Figures(10, 8, (0.1, 0.3), tuple(float(i) for i in range(10)))
    summary = run_summary(RunState(run_id="r", figures=figures, seconds=90), isolation="gvisor", held_out_after=None)
    assert summary["difficulty"] == {"start": 0.5, "end": 8.5}
    assert summary["valid_share"] == 0.8
    assert summary["minutes"] == 1.5
