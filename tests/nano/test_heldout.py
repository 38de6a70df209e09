"""The held-out set is fixed, large enough, and out of reach of everything that is trained on."""

from __future__ import annotations

import hashlib
import random
import re

import pytest

from spade_rl.nano.demos import Demonstrator, load_trusted
from spade_rl.nano.families import FAMILIES, TRANSFER
from spade_rl.nano.heldout import LEVELS, accuracy, held_out_runs, instances, summarise
from spade_rl.nano.words import Document, documents


def run_of(source: str) -> str:
    found = re.search(r'w = " ([^"]+)"', source)
    assert found
    return found[1]


def test_set_is_large_covers_every_cell_and_needs_few_sandboxes() -> None:
    assert len(instances()) >= 1000
    assert {(i.family, i.level) for i in instances()} == {(name, level) for name in FAMILIES for level in LEVELS}
    assert len({i.source for i in instances()}) <= 100
    assert len({i.id for i in instances()}) == len({(i.source, i.seed) for i in instances()}) == len(instances())
    assert {i.family for i in instances() if i.transfer} == {family.name for family in TRANSFER}


def test_set_never_changes() -> None:
    text = "\n".join(f"{i.id} {i.seed} {i.source}" for i in instances())
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "5c70273dba9fb6b952ac5f8d0a696f96994259ac6aa6a1a612be11b12e549456"
    )


def test_every_instance_is_won_by_its_solution() -> None:
    for instance in instances():
        environment = load_trusted(instance.source)()
        environment.reset(instance.seed)
        rewards = [environment.step(action)[1] for action in list(environment.solution())]
        assert rewards[-1] == 1.0


def test_no_training_document_holds_a_held_out_run() -> None:
    training = "\n".join(" ".join(document.text.split()) for document in documents("train"))
    assert [run for run in {run_of(i.source) for i in instances()} if run in training] == []


def test_documents_of_both_splits_come_from_different_pages() -> None:
    pages = {split: {document.id.split("#")[0] for document in documents(split)} for split in ("train", "heldout")}
    assert len(documents("train")) >= 300
    assert len(documents("heldout")) >= 60
    assert not pages["train"] & pages["heldout"]


def test_no_demonstration_holds_a_held_out_run() -> None:
    assert held_out_runs() == {run_of(i.source) for i in instances()}
    demonstrator = Demonstrator(documents("train"), random.Random(5), held_out_runs())
    for demo in [demonstrator.design() for _ in range(300)] + [demonstrator.drill() for _ in range(100)]:
        assert not any(run in text for run in held_out_runs() for text in (demo.reply, demo.messages[0]["content"]))


def test_a_passage_with_a_run_to_avoid_is_drawn_again() -> None:
    text = "alpha bravo charlie delta echo foxtrot golf hotel " * 20
    documents_ = (Document("a", "A", text), Document("b", "B", "kilo lima mike november oscar papa quebec romeo " * 20))
    demonstrator = Demonstrator(documents_, random.Random(1), {"bravo charlie delta"})
    assert not any("bravo charlie delta" in demonstrator.passage() for _ in range(300))


def test_summary_counts_per_family_and_level() -> None:
    won = {instance.id: instance.family == "climb" and instance.level <= 4 for instance in instances()}
    summary = summarise(won)
    assert summary.overall.plays == len(instances())
    assert summary.families["climb"].mean == pytest.approx(2 / 7)
    assert summary.families["todo"].mean == 0.0
    assert summary.cells["climb", 4].mean == 1.0
    assert summary.levels[8].mean == 0.0


@pytest.mark.parametrize(
    ("wins", "plays", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)]
)
def test_interval_is_wilsons(wins: int, plays: int, low: float, high: float) -> None:
    found = accuracy(wins, plays)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_foreign_or_missing_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="no instances"):
        summarise({"climb-3-0": True})
    with pytest.raises(ValueError, match="no outcomes"):
        summarise({})
    with pytest.raises(ValueError, match="no accuracy"):
        accuracy(3, 2)
