"""Every family keeps the environment contract at every level, whatever words it is given."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.nano.demos import load_trusted, taught, walk_through
from spade_rl.nano.families import (
    DESIGNED,
    FAMILIES,
    MAX_LEVEL,
    SKILLS,
    STYLES,
    TRANSFER,
    Family,
    family_of,
    level_of,
    write,
)
from spade_rl.nano.families.base import local_slip
from spade_rl.nano.words import content_words, documents, is_content, pick_run

LEVELS = (1, 2, 5, 12, 33, MAX_LEVEL)
SEEDS = range(8)


def sources(family: Family, level: int, count: int = 6) -> list[str]:
    rng = random.Random(f"{family.name} {level}")
    made = []
    while len(made) < count:
        words = pick_run(rng.choice(documents("train")).text, rng.choice(family.runs), rng)
        if words:
            made.append(write(family, words, level, rng.randrange(STYLES)))
    return made


def play(source: str, seed: int, actions: list[str]) -> tuple[float, bool, int]:
    environment = load_trusted(source)()
    environment.reset(seed)
    for index, action in enumerate(actions):
        observation, reward, terminated, truncated, info = environment.step(action)
        assert isinstance(observation, str)
        assert isinstance(info, dict)
        assert not truncated
        assert -1.0 <= reward <= 1.0
        if terminated:
            return reward, True, index + 1
    return 0.0, False, len(actions)


def solution(source: str, seed: int) -> list[str]:
    environment = load_trusted(source)()
    environment.reset(seed)
    return list(environment.solution())


each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)


def test_there_are_ten_designed_families_under_five_skills_and_two_for_transfer() -> None:
    assert len(DESIGNED) >= 10
    assert len(SKILLS) >= 5
    assert len(TRANSFER) == 2
    assert {family.name for families in SKILLS.values() for family in families} == {family.name for family in DESIGNED}


@each_family
@pytest.mark.parametrize("level", LEVELS)
def test_solution_wins_with_its_last_action_and_not_before(family: Family, level: int) -> None:
    for source in sources(family, level):
        for seed in SEEDS:
            actions = solution(source, seed)
            assert play(source, seed, actions) == (1.0, True, len(actions))


@each_family
@pytest.mark.parametrize("level", LEVELS)
def test_a_seed_fixes_the_instance_and_other_seeds_give_others(family: Family, level: int) -> None:
    for source in sources(family, level):
        seen = set()
        for seed in range(16):
            first, again = load_trusted(source)(), load_trusted(source)()
            observation, info = first.reset(seed)
            assert (observation, info) == again.reset(seed)
            assert first.solution() == again.solution()
            seen.add((observation, tuple(first.solution())))
        assert len(seen) > 3


@each_family
@pytest.mark.parametrize("level", LEVELS)
def test_foreign_solutions_and_thoughtless_actions_seldom_win(family: Family, level: int) -> None:
    for source in sources(family, level):
        solutions = [solution(source, seed) for seed in SEEDS]
        crossed = [
            play(source, a, solutions[b])[0] > 0 for a in SEEDS for b in SEEDS if solutions[a] != solutions[b] or a != b
        ]
        assert sum(crossed) < 0.5 * len(crossed)
        for thoughtless in ("", "0", "1", "end", "random", solutions[0][0]):
            wins = sum(play(source, seed, [thoughtless] * 80)[0] > 0 for seed in range(1, 9))
            assert wins <= 4, (thoughtless, source)


@each_family
def test_answer_does_not_stand_alone_in_the_first_observation(family: Family) -> None:
    for level in LEVELS:
        for source in sources(family, level):
            given_away = 0
            for seed in SEEDS:
                environment = load_trusted(source)()
                observation, _ = environment.reset(seed)
                last = environment.solution()[-1]
                given_away += len(last) > 2 and f" {last} " in f" {observation} "
            assert given_away <= len(SEEDS) // 2


@each_family
def test_level_is_written_and_makes_episodes_longer(family: Family) -> None:
    lengths = []
    for level in LEVELS:
        source = sources(family, level, 1)[0]
        assert level_of(source) == level
        lengths.append(sum(len(solution(source, seed)) for seed in range(40)) / 40)
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@each_family
def test_instances_are_made_of_the_document(family: Family) -> None:
    source = write(family, ["alpha", "Bravo", "charlie", "delta"], 6, 0)
    shown = " ".join(
        step for seed in SEEDS for walk in walk_through(family, source, random.Random(seed)) for step in walk
    )
    assert set(content_words(shown)) <= {"alpha", "Bravo", "charlie", "delta"}
    assert "alpha" in shown


@each_family
def test_keyword_names_the_family_and_hints_name_no_word_of_a_document(family: Family) -> None:
    source = sources(family, 4, 1)[0]
    observation, _ = load_trusted(source)().reset(1)
    assert family_of(observation) == family.name
    assert len(set(family.hints)) >= 2
    assert not any(character.isdigit() and character != "0" for hint in family.hints for character in hint)


@each_family
def test_teacher_errs_and_errs_less_with_a_hint(family: Family) -> None:
    rng = random.Random(3)
    steps = [step for source in sources(family, 12) for step in walk_through(family, source, rng)] * 20
    errors = {
        hinted: sum(taught(family, o, a, hinted, rng) != a for o, a in steps) / len(steps) for hinted in (False, True)
    }
    assert 0.02 < errors[True] < 0.5 * errors[False]


def test_errors_grow_with_the_steps_that_lie_ahead() -> None:
    rates = [local_slip(depth, ["a", "b"], "a").rate for depth in range(0, 30, 5)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


@pytest.mark.parametrize(("words", "level"), [([], 3), (["a"], 0), (["a"], MAX_LEVEL + 1)])
def test_a_program_needs_words_and_a_level_in_range(words: list[str], level: int) -> None:
    with pytest.raises(ValueError, match="needs words and a level"):
        write(DESIGNED[0], words, level, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 479), st.integers(3, 6), st.integers(0, 2**32))
def test_a_run_is_consecutive_distinct_plain_and_half_content(index: int, length: int, seed: int) -> None:
    text = documents("train")[index].text
    run = pick_run(text, length, random.Random(seed))
    if run is None:
        return
    assert " ".join(run) in " ".join(text.split())
    assert len({word.lower() for word in run}) == length
    assert all(word.isalnum() for word in run)
    assert 2 * sum(map(is_content, run)) >= length
