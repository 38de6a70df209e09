"""Laws of retrieval: equal requests, equal examples; nothing that failed is ever a positive one."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.memory.records import Environment, Provenance, RefusedSource, Statistics, StoredEnvironment
from spade_rl.memory.retrieval import (
    distance,
    is_positive,
    negative_reason,
    negatives,
    positives,
    rarity,
    worth,
)

LEARNABLE = (0.15, 0.85)
PROVENANCE = Provenance("run", 0, "d", "", (), (), 0, 1)


def environment(source: str) -> Environment:
    return Environment(hashlib.sha256(source.encode()).hexdigest(), source, "game", "count", "", PROVENANCE)


def statistics(digest: str, win_rate: float = 0.5, **changes) -> Statistics:
    known = {
        "plain_plays": 8, "hinted_plays": 8, "win_rate": win_rate, "hinted_win_rate": 0.5, "regret": 0.1,
        "regret_standard_error": 0.1, "designer_reward": 0.5, "void_episodes": 0, "quarantined": False,
        "quarantine_reason": "", "closed": True,
    }  # fmt: skip
    return Statistics(digest=digest, **{**known, **changes})


def stored(source: str, win_rate: float = 0.5, cycle: int = 0, **changes) -> StoredEnvironment:
    made = environment(source)
    return StoredEnvironment(made, cycle, statistics(made.digest, win_rate, **changes))


sources = st.text(st.sampled_from("abc de"), min_size=1, max_size=20)
played = st.builds(
    lambda source, win_rate, cycle, plays, quarantined, reward, regret: stored(
        source, win_rate, cycle, plain_plays=plays, quarantined=quarantined, designer_reward=reward, regret=regret
    ),
    sources,
    st.floats(-1, 1),
    st.integers(0, 5),
    st.integers(0, 2),
    st.booleans(),
    st.floats(-10, 10),
    st.floats(-2, 2),
)
unplayed = st.builds(lambda source: StoredEnvironment(environment(source), 0, None), sources)
archives = st.lists(played | unplayed, max_size=12, unique_by=lambda s: s.environment.digest)
refusals = st.lists(
    st.builds(
        lambda n, source: RefusedSource(f"a{n}", 0, environment(source), "refused it"), st.integers(0, 99), sources
    ),
    max_size=5,
    unique_by=lambda r: r.attempt_id,
)


@given(archives, st.integers(0, 2**63 - 1), st.integers(0, 5), st.randoms(use_true_random=False))
def test_positives(archive, seed, count, shuffler) -> None:
    drawn = positives(archive, count, seed=seed, learnable=LEARNABLE)
    possible = [s for s in archive if is_positive(s, LEARNABLE)]
    assert len(drawn) == min(count, len(possible))
    assert len({e.environment.digest for e in drawn}) == len(drawn)
    for example in drawn:
        assert not example.statistics.quarantined
        assert LEARNABLE[0] <= example.statistics.win_rate <= LEARNABLE[1]
        assert example.reason == ""
    shuffled = list(archive)
    shuffler.shuffle(shuffled)
    assert positives(shuffled, count, seed=seed, learnable=LEARNABLE) == drawn


@given(archives, refusals, st.integers(0, 2**63 - 1), st.integers(0, 5), st.randoms(use_true_random=False))
def test_negatives(archive, refused, seed, count, shuffler) -> None:
    drawn = negatives(archive, refused, count, seed=seed)
    assert len(drawn) <= count
    assert len({e.environment.digest for e in drawn}) == len(drawn)
    assert all(example.reason for example in drawn)
    shuffled = list(archive)
    shuffler.shuffle(shuffled)
    assert negatives(shuffled, refused[::-1], count, seed=seed) == drawn


@given(st.lists(sources, max_size=10))
def test_rarity_is_a_share(texts) -> None:
    assert all(0 <= value <= 1 for value in rarity(texts))


@given(sources, sources)
def test_distance_is_symmetric_and_bounded(one, other) -> None:
    assert distance(one, one) == 0
    assert 0 <= distance(one, other) == distance(other, one) <= 1


def test_rarity_of_what_all_share_and_of_what_none_shares() -> None:
    assert rarity(["x y", "x y", "x y"]) == [0, 0, 0]
    assert rarity(["a", "b"]) == [1, 1]
    assert rarity(["only one"]) == [1]


def test_worth_prefers_the_frontier() -> None:
    base = {"digest": "d", "designer_reward": 0.0, "regret": 0.0}
    assert worth(statistics(win_rate=0.5, **base)) == 1
    assert worth(statistics(win_rate=0.5, **{**base, "designer_reward": 1.0, "regret": 0.5})) == 2.5
    assert worth(statistics(win_rate=-1, **{**base, "regret": -2.0})) == 0


def test_what_earned_more_is_drawn_more_often() -> None:
    poor = stored("alpha beta", designer_reward=0.0, regret=0.0, win_rate=0.2)
    rich = stored("gamma delta", designer_reward=1.0, regret=0.8)
    firsts = [positives([poor, rich], 1, seed=seed, learnable=LEARNABLE)[0].environment for seed in range(300)]
    assert 0.65 < firsts.count(rich.environment) / 300 < 0.95


def test_the_second_example_keeps_away_from_the_first() -> None:
    pool = [stored("a b c d 1"), stored("a b c d 2"), stored("w x y z 3")]
    pairs = [positives(pool, 2, seed=seed, learnable=LEARNABLE) for seed in range(300)]
    alike = sum("w" not in first.environment.source + second.environment.source for first, second in pairs)
    assert alike / 300 < 0.15


def test_reasons() -> None:
    assert negative_reason(stored("x", 0.95)) == "too easy"
    assert negative_reason(stored("x", 0.05)) == "too hard"
    assert negative_reason(stored("x", 0.5)) == ""
    assert negative_reason(stored("x", 0.95, plain_plays=0)) == ""
    assert negative_reason(stored("x", 0.5, quarantined=True, quarantine_reason="raised KeyError")) == "raised KeyError"
    assert negative_reason(StoredEnvironment(environment("x"), 0, None)) == ""


def test_every_kind_of_negative_gets_its_turn() -> None:
    many = [RefusedSource(f"a{i}", 0, environment(f"refused {i}"), "no solution") for i in range(100)]
    easy = stored("easy", 0.95)
    drawn = [negatives([easy], many, 1, seed=seed)[0].reason for seed in range(200)]
    assert 0.35 < drawn.count("too easy") / 200 < 0.65
