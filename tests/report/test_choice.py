from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.memory.records import Environment, Provenance, Statistics, StoredEnvironment, TrajectoryHeader
from spade_rl.report.choice import best_environments, learnable, lineages, paired_plays, sampled_cycles


def _stored(digest: str, cycle: int = 0, seeds: tuple[str, ...] = (), **results: float) -> StoredEnvironment:
    provenance = Provenance("r", cycle, "d", "text", seeds, (), 0, 1)
    statistics = Statistics(digest, 4, 4, 0.5, 0.5, 0.0, 0.1, 0.0, 0, False, "", True)
    return StoredEnvironment(
        Environment(digest, "x", "game", "count", "", provenance), cycle, replace(statistics, **results)
    )


def _digests(found: list[StoredEnvironment]) -> list[str]:
    return [one.environment.digest for one in found]


def test_learnable_environments_come_first_then_regret() -> None:
    easy = _stored("a", win_rate=0.95, regret=0.9)
    good = _stored("b", win_rate=0.5, regret=0.1)
    better = _stored("c", win_rate=0.3, regret=0.4)
    assert _digests(best_environments([easy, good, better], 3)) == ["c", "b", "a"]
    assert _digests(best_environments([easy, good, better], 1)) == ["c"]


def test_the_unplayed_and_the_quarantined_are_left_out() -> None:
    unplayed = replace(_stored("a"), statistics=None)
    quarantined = _stored("b", quarantined=True)
    assert best_environments([unplayed, quarantined], 5) == []
    assert not learnable(unplayed)
    assert not learnable(quarantined)


def test_a_lineage_goes_back_to_the_first_ancestor_and_on_to_the_children() -> None:
    found = lineages([_stored("a"), _stored("b", 1, ("a",)), _stored("c", 2, ("b", "a")), _stored("d", 2, ("b",))])
    assert found["c"].ancestors == ("a", "b")
    assert found["b"].children == ("c", "d")
    assert found["a"].children == ("b", "c")
    assert found["a"].ancestors == ()


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=2)), max_size=8))
def test_lineages_end_whatever_the_archive_says(pairs: list[tuple[str, list[str]]]) -> None:
    for digest, lineage in lineages([_stored(digest, 0, tuple(seeds)) for digest, seeds in pairs]).items():
        assert digest not in lineage.ancestors
        assert len(set(lineage.ancestors)) == len(lineage.ancestors)


def _head(digest: str, arm: str, play: int, cycle: int = 0, value: float = 0.0) -> TrajectoryHeader:
    return TrajectoryHeader(
        f"{cycle}/{digest}/{arm}/{play}", digest, cycle, arm, 0, play, value, "terminated", 1, 1, 1, 0.1, ""
    )


def test_whole_pairs_with_the_widest_gap_of_different_environments_come_first() -> None:
    heads = [
        *(_head("a", arm, 0, value=value) for arm, value in (("plain", 0.0), ("hinted", 1.0))),
        *(_head("a", arm, 1, value=value) for arm, value in (("plain", 0.0), ("hinted", 0.9))),
        *(_head("b", arm, 0, value=0.5) for arm in ("plain", "hinted")),
        _head("c", "plain", 0),
    ]
    chosen = paired_plays(heads, 4)
    assert [(one["plain"].environment_digest, one["plain"].play) for one in chosen] == [
        ("a", 0),
        ("b", 0),
        ("c", 0),
        ("a", 1),
    ]
    assert "hinted" not in chosen[2]


def test_the_sampled_cycles_have_both_arms_where_any_has() -> None:
    heads = [_head("a", "plain", 0, cycle) for cycle in range(5)] + [_head("a", "hinted", 0, cycle) for cycle in (1, 3)]
    assert sampled_cycles(heads) == (1, 3)
    assert sampled_cycles(heads[:5]) == (0, 4)
    assert sampled_cycles(heads[:1]) == (0,)
    assert sampled_cycles([]) == ()
