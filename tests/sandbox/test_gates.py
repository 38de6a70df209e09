from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.sandbox.answers import Refusal, Reset, Step
from spade_rl.sandbox.gates import (
    CONSTANT,
    GATES,
    INSTANCES,
    Evidence,
    Instance,
    Verdict,
    instance_seeds,
    judge,
    static_refusal,
    strategies,
)
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin


def won(observation: str = "won") -> Step:
    return Step(observation, 1.0, True, False, "{}")


def good() -> Evidence:
    """Evidence that every gate passes."""
    instances = []
    for index in range(INSTANCES):
        reset, steps = Reset(f"task {index}", "{}"), (Step("go on", 0.0, False, False, "{}"), won())
        instances.append(Instance(index, reset, (f"first {index}", "second"), steps, reset, steps))
    lost = (Step("lost", 0.0, True, False, "{}"),)
    return Evidence(instances, probes=[("", lost)], trivial={"nothing": [lost] * INSTANCES}, normalised_digest="d")


def test_good_evidence_passes_every_gate() -> None:
    assert [(each.gate, each.verdict) for each in judge(good())] == [(gate, Verdict.PASSED) for gate in GATES]


@pytest.mark.parametrize("gate", GATES)
def test_a_static_refusal_is_in_its_place(gate: str) -> None:
    verdicts = static_refusal(gate, "why")
    at = GATES.index(gate)
    assert [each.verdict for each in verdicts] == (
        [Verdict.PASSED] * at + [Verdict.FAILED] + [Verdict.SKIPPED] * (len(GATES) - at - 1)
    )
    assert verdicts[at].message == "why"


@pytest.mark.parametrize("gate", [gate for gate in GATES if gate not in ("parse", "imports", "class")])
def test_a_worker_that_ends_fails_the_gate_it_worked_for(gate: str) -> None:
    evidence = good()
    evidence.error = EpisodeError(Origin.ENVIRONMENT, FaultKind.DEADLINE, "too late")
    evidence.error_gate = gate
    (failure,) = [each for each in judge(evidence) if each.verdict is Verdict.FAILED]
    assert (failure.gate, failure.message) == (gate, "too late")


@settings(max_examples=50, deadline=None)
@given(
    st.sets(st.sampled_from(["reset", "other_reset", "solution", "steps", "other_steps"]), min_size=1),
    st.integers(0, INSTANCES - 1),
)
def test_missing_evidence_never_admits(missing: set[str], index: int) -> None:
    evidence = good()
    for name in missing:
        setattr(evidence.instances[index], name, None)
    assert any(each.verdict is Verdict.FAILED for each in judge(evidence))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["reset", "other_reset", "solution", "steps", "other_steps"]), st.integers(0, INSTANCES - 1))
def test_a_fault_anywhere_never_admits(name: str, index: int) -> None:
    evidence = good()
    setattr(evidence.instances[index], name, Refusal(FaultKind.EXCEPTION, "it raised"))
    assert any("it raised" in each.message for each in judge(evidence) if each.verdict is Verdict.FAILED)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, INSTANCES))
def test_luck_is_allowed_on_half_of_the_plays(wins: int) -> None:
    evidence = good()
    lost = (Step("lost", 0.0, True, False, "{}"),)
    evidence.trivial = {"luck": [(won(),)] * wins + [lost] * (INSTANCES - wins)}
    failed = [each.gate for each in judge(evidence) if each.verdict is Verdict.FAILED]
    assert failed == (["trivial"] if wins > INSTANCES / 2 else [])


def test_what_was_played_before_must_not_matter() -> None:
    nothing = CONSTANT.format("")
    lost, won_now = (Step("lost", 0.0, True, False, "{}"),), (won(),)
    evidence = good()
    evidence.trivial = {nothing: [lost] * INSTANCES}
    assert all(each.verdict is Verdict.PASSED for each in judge(evidence))
    evidence.probes = [("", won_now)]
    (failure,) = [each for each in judge(evidence) if each.verdict is Verdict.FAILED]
    assert failure.gate == "determinism"
    assert "played again" in failure.message
    # One play was longer than the other: only what both saw is compared.
    evidence.probes = [("", (Step("on", 0.0, False, False, "{}"), *won_now))]
    evidence.trivial = {nothing: [(Step("on", 0.0, False, False, "{}"),)] + [lost] * (INSTANCES - 1)}
    assert all(each.verdict is Verdict.PASSED for each in judge(evidence))


def test_a_first_reset_must_not_differ_from_later_ones() -> None:
    evidence = good()
    evidence.probe_resets = [Reset("task 0", "{}"), Reset("task 0, for the first time", "{}")]
    (failure,) = [each for each in judge(evidence) if each.verdict is Verdict.FAILED]
    assert failure.gate == "determinism"
    assert "called again" in failure.message


def test_a_near_duplicate_is_refused() -> None:
    evidence = good()
    evidence.normalised_digest = "a" * 32 + "c" * 8 + "5" * 24
    evidence.known = ["b" * 32 + "d" * 8 + "5" * 24]
    assert all(each.verdict is Verdict.PASSED for each in judge(evidence))
    evidence.known = ["b" * 32 + "c" * 8 + "5" * 23 + "7"]
    (failure,) = [each for each in judge(evidence) if each.verdict is Verdict.FAILED]
    assert failure.gate == "duplicate"
    assert "98% the same" in failure.message


def test_strategies_know_nothing_of_the_instance_they_play() -> None:
    evidence = good()
    plays = strategies(evidence.instances, 1)
    assert plays == strategies(evidence.instances, 1)
    assert plays != strategies(evidence.instances, 2)
    constant = [actions for name, all_plays in plays.items() if "again" in name for _, actions in all_plays]
    assert all(len(set(actions)) == 1 for actions in constant)
    assert "second" in {actions[0] for actions in constant}, "the commonest action of all solutions is tried"


def test_instances_are_drawn_from_seed_and_source() -> None:
    seeds = instance_seeds(1, "a")
    assert len(set(seeds)) == INSTANCES
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == instance_seeds(1, "a")
    assert not set(seeds) & (set(instance_seeds(2, "a")) | set(instance_seeds(1, "b")))
