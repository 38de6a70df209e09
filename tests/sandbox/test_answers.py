from __future__ import annotations

import contextlib
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.config import SandboxSection
from spade_rl.sandbox.answers import (
    CLAIMABLE,
    encodable,
    parse_reset,
    parse_solution,
    parse_steps,
    refusal,
    reward_problem,
)
from spade_rl.sandbox.frames import ProtocolViolation
from spade_rl.sandbox.limits import EpisodeError, FaultKind, limits_of

LIMITS = limits_of(SandboxSection(max_observation_bytes=64, max_info_bytes=64, max_solution_steps=4))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner, max_size=6),
    max_leaves=12,
)
keys = st.sampled_from(["observation", "info", "results", "actions", "fault", "message", "more"])


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(keys, anything, max_size=7))
def test_any_claim_is_parsed_or_refused(message: dict[str, object]) -> None:
    for parse in (
        refusal,
        lambda claim: parse_reset(claim, LIMITS),
        lambda claim: parse_steps(claim, LIMITS, most=3),
        lambda claim: parse_solution(claim, LIMITS),
    ):
        with contextlib.suppress(ProtocolViolation, EpisodeError):
            parse(message)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=50))
def test_text_becomes_encodable_and_honest_text_stays(text: str) -> None:
    made = encodable(text)
    made.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert made != text
    else:
        assert made == text


def test_the_size_is_counted_in_bytes() -> None:
    parse_reset({"observation": "x" * 64, "info": "{}"}, LIMITS)
    with pytest.raises(EpisodeError) as caught:
        parse_reset({"observation": "é" * 33, "info": "{}"}, LIMITS)
    assert caught.value.kind is FaultKind.OBSERVATION


@pytest.mark.parametrize("info", ["[]", '{"a": NaN}', "{", "1", "[" * 50])
def test_an_info_is_an_object_in_json(info: str) -> None:
    with pytest.raises(ProtocolViolation):
        parse_reset({"observation": "", "info": info}, LIMITS)


@settings(max_examples=50, deadline=None)
@given(st.floats())
def test_rewards_are_finite_and_small(reward: float) -> None:
    assert (reward_problem(reward) == "") == (math.isfinite(reward) and -1 <= reward <= 1)


def test_more_results_than_actions_are_refused() -> None:
    result = ["", 0.0, False, False, "{}"]
    assert len(parse_steps({"results": [result] * 3}, LIMITS, most=3)) == 3
    with pytest.raises(ProtocolViolation):
        parse_steps({"results": [result] * 4}, LIMITS, most=3)
    assert json.loads(parse_steps({"results": [result]}, LIMITS, most=1)[0].info_json) == {}


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind not in CLAIMABLE])
def test_a_worker_does_not_claim_what_only_the_host_finds(kind: FaultKind) -> None:
    with pytest.raises(ProtocolViolation):
        refusal({"fault": kind.value, "message": "it was somebody else"})


def test_a_worker_may_say_that_its_environment_raised() -> None:
    found = refusal({"fault": "exception", "message": "it raised"})
    assert found is not None
    assert (found.kind, found.message) == (FaultKind.EXCEPTION, "it raised")
