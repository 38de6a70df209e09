"""Which episodes are replayed, and what counts as a difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.sandbox import replay
from spade_rl.sandbox.answers import Reset, Step
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.quarantine import Quarantine
from spade_rl.sandbox.replay import Recording, is_replayed

STEPS = (Step("a", 0.0, False, False, "{}"), Step("b", 1.0, True, False, '{"x": 1}'))


def recorded(*steps: Step) -> Recording:
    recording = Recording()
    recording.begin(Reset("hello", "{}"))
    for step in steps:
        recording.add(["go", "never taken"], [step])
    return recording


def test_none_and_all_are_exactly_that() -> None:
    assert not any(is_replayed(0.0, "d" * 64, seed) for seed in range(1000))
    assert all(is_replayed(1.0, "d" * 64, seed) for seed in range(1000))


@given(st.floats(0, 1), st.floats(0, 1), st.text(), st.integers(0, 2**31))
def test_a_larger_share_replays_what_a_smaller_does(one: float, other: float, digest: str, seed: int) -> None:
    low, high = sorted((one, other))
    assert is_replayed(high, digest, seed) or not is_replayed(low, digest, seed)


def test_the_share_is_kept_over_many_seeds() -> None:
    hits = sum(is_replayed(0.1, "e" * 64, seed) for seed in range(20_000))
    assert 1_800 < hits < 2_200


def test_what_is_the_same_differs_nowhere() -> None:
    recording = recorded(*STEPS)
    assert recording.actions == ["go", "go"]
    assert recording.difference(Reset("hello", '{"other": 1}'), STEPS) == ""


@pytest.mark.parametrize(
    ("reset", "steps", "says"),
    [
        ("hallo", STEPS, "reset showed"),
        ("hello", (Step("A", 0.0, False, False, "{}"), STEPS[1]), "step 1 showed another observation"),
        ("hello", (STEPS[0], Step("b", 0.5, True, False, "{}")), "step 2 gave reward 1.0, and 0.5"),
        ("hello", (STEPS[0], Step("b", 1.0, False, True, "{}")), "step 2 gave terminated True, and False"),
        ("hello", (STEPS[0], Step("b", 1.0, True, True, "{}")), "step 2 gave truncated False, and True"),
        ("hello", STEPS[:1], "over after 2 steps, and after 1"),
    ],
)
def test_a_difference_is_named(reset: str, steps: tuple[Step, ...], says: str) -> None:
    assert says in recorded(*STEPS).difference(Reset(reset, "{}"), steps)


def test_an_endless_episode_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "RECORDED_CHARACTERS", 1000)
    recording = recorded(*[STEPS[0]] * 100)
    assert not recording.is_whole
    assert recording.actions == []


def test_the_quarantine_is_bounded_and_keeps_the_first_reason() -> None:
    quarantine = Quarantine(most=2)
    attack = EpisodeError(Origin.ENVIRONMENT, FaultKind.PROTOCOL, "first")
    for digest in "abc":
        assert quarantine.judge(digest, attack)
    assert quarantine.judge("c", EpisodeError(Origin.ENVIRONMENT, FaultKind.REPLAY, "second"))
    assert [(one.digest, one.message) for one in quarantine.latest(9)] == [("c", "first"), ("b", "first")]
    quarantine.check("a")
    with pytest.raises(EpisodeError, match="first") as caught:
        quarantine.check("b")
    assert (caught.value.origin, caught.value.kind) == (Origin.ENVIRONMENT, FaultKind.QUARANTINE)


@pytest.mark.parametrize(
    ("origin", "kind"),
    [
        (Origin.ENVIRONMENT, FaultKind.EXCEPTION),
        (Origin.ENVIRONMENT, FaultKind.DEADLINE),
        (Origin.ENVIRONMENT, FaultKind.QUARANTINE),
        (Origin.SANDBOX, FaultKind.SANDBOX),
        (Origin.SANDBOX, FaultKind.PROTOCOL),
    ],
)
def test_other_faults_put_nothing_under_quarantine(origin: Origin, kind: FaultKind) -> None:
    quarantine = Quarantine()
    assert not quarantine.judge("a", EpisodeError(origin, kind, "x"))
    assert len(quarantine) == 0
