"""What the shipped weights promise, on documents that they were never trained on, and how the measures count."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from spade_rl.nano.build import ASSETS
from spade_rl.nano.evaluate import Verdict, judge_designs, judge_hints, judge_levels, play_held_out
from spade_rl.nano.heldout import instances
from spade_rl.nano.model import load
from spade_rl.nano.sampling import Sampler
from spade_rl.nano.tokenizer import load_tokenizer
from spade_rl.nano.words import documents


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler(load(ASSETS), load_tokenizer(ASSETS))


def parses(sources: Sequence[str]) -> list[Verdict]:
    """Stand in for the first gate only; nothing that the model wrote is run here."""
    verdicts = []
    for source in sources:
        try:
            ast.parse(source)
            verdicts.append(Verdict(True))
        except (SyntaxError, ValueError):
            verdicts.append(Verdict(False, "parse"))
    return verdicts


def test_shipped_model_designs_from_the_document_and_obeys_the_skill(sampler: Sampler) -> None:
    report = judge_designs(sampler, documents("heldout"), 60, temperature=1.0, seed=1, seeded=0.5, admit=parses)
    assert report.valid is not None
    assert report.valid >= 0.85
    assert report.obeyed >= 0.85
    # A floor that tells copying from chance, not the goal: the goal of 0.9 is not reached (see the README).
    assert report.grounding >= 0.5
    assert report.swapped <= 0.2
    assert len(report.families) >= 8
    assert sum(report.gates.values()) == round((1 - report.valid) * report.designs)


def test_without_admission_no_validity_is_claimed(sampler: Sampler) -> None:
    report = judge_designs(sampler, documents("heldout"), 5, temperature=1.0, seed=2, seeded=0.0, admit=None)
    assert report.valid is None
    assert report.gates == {}


def test_shipped_model_writes_higher_levels_after_easy_seeds(sampler: Sampler) -> None:
    levels = judge_levels(sampler, documents("heldout"), 30, temperature=1.0, seed=1, seed_levels=(2, 32))
    for level in (2, 32):
        assert levels[level, "easy"] > levels[level, "hard"]
    assert levels[32, "good"] > levels[2, "good"]


def test_shipped_model_hints_for_the_right_family(sampler: Sampler) -> None:
    assert judge_hints(sampler, documents("heldout"), 30, temperature=0.3, seed=1) >= 0.8


def test_shipped_model_starts_weak_and_hints_help(sampler: Sampler) -> None:
    chosen = [instance for index, instance in enumerate(instances()) if index % 3 == 0]
    plain = play_held_out(sampler, temperature=1.0, seed=1, hinted=False, chosen=chosen)
    hinted = play_held_out(sampler, temperature=1.0, seed=1, hinted=True, chosen=chosen)
    assert 0.05 < plain.overall.mean < 0.4
    assert hinted.overall.mean > plain.overall.mean
    assert plain.levels[2].mean > plain.levels[32].mean
