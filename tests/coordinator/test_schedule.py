"""The schedule: sets, windows and averages."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.coordinator.schedule import after_plays, closes_set, moved_averages, opens_set, slot_skills
from spade_rl.coordinator.state import LiveEnvironment, RunState
from spade_rl.v1 import designer_pb2, environment_pb2


def environment(skill: str = "a", **fields) -> LiveEnvironment:
    return LiveEnvironment(
        environment=environment_pb2.Environment(digest="0" * 64, skill=skill),
        attempt=designer_pb2.DesignAttempt(id="x", skill=skill),
        **fields,
    )


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 5), st.integers(0, 50))
def test_every_active_skill_gets_the_same_number_of_slots(skills, active, each, set_number):
    active = min(active, skills)
    names = [f"skill{i}" for i in range(skills)]
    counts = Counter(slot_skills(names, active, active * each, set_number))
    assert sorted(counts.values()) == [each] * active


@given(st.integers(1, 8), st.integers(1, 8))
def test_skills_take_turns(skills, active):
    active = min(active, skills)
    names = [f"skill{i}" for i in range(skills)]
    counts = Counter(name for s in range(skills) for name in slot_skills(names, active, active, s))
    assert set(counts.values()) == {active}


@given(st.integers(1, 6))
def test_a_window_has_exactly_its_cycles(window):
    state, cycles = RunState(run_id="r"), 0
    live = [environment()]
    age = state.age
    assert opens_set(state)
    while True:
        age += 1
        cycles += 1
        if closes_set(live, age, window):
            break
    assert cycles == window


def test_a_set_without_playable_environments_is_over_at_once():
    assert closes_set([], 1, 4)
    assert closes_set([environment(quarantine_reason="raised")], 1, 4)
    assert not closes_set([environment(), environment(quarantine_reason="raised")], 1, 4)


def test_regret_is_kept_from_the_cycle_that_measured_it():
    one = after_plays(
        environment(), plain=[0.0, 1.0], hinted=[1.0], regret=(0.5, 0.1), void_episodes=1, quarantine_reason=""
    )
    one = after_plays(one, plain=[1.0, 1.0], hinted=[], regret=None, void_episodes=2, quarantine_reason="late")
    assert (one.regret, one.regret_standard_error, one.mean_return) == (0.5, 0.1, 0.75)
    assert (one.void_episodes, one.quarantine_reason, one.hinted) == (3, "late", (1.0,))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_the_average_stays_between_the_returns_it_saw(returns):
    averages: dict[str, float] = {}
    for value in returns:
        averages = moved_averages(averages, [environment(plain=(value,))])
    assert min(returns) - 1e-9 <= averages["a"] <= max(returns) + 1e-9


def test_a_set_that_was_never_played_moves_no_average():
    assert moved_averages({"a": 0.3}, [environment()]) == {"a": 0.3}
