"""Demonstrations go through the run's own prompts, copy from the document shown, and follow the seeds' level."""

from __future__ import annotations

import random
import re

import pytest

from spade_rl.nano.demos import COMPACT, Demonstrator, adapted_level
from spade_rl.nano.evaluate import family_in, grounding_share, string_words
from spade_rl.nano.families import FAMILIES, KEYWORDS, MAX_LEVEL, SKILLS, level_of
from spade_rl.nano.words import EXCERPT_WORDS, documents
from spade_rl.prompts import extract_source


@pytest.fixture
def demonstrator() -> Demonstrator:
    return Demonstrator(documents("train"), random.Random(11))


def shown(content: str) -> str:
    return content.split("Text: ", 1)[1].split("\n", 1)[0]


def test_designs_copy_a_run_of_the_document_shown_and_obey_the_skill(demonstrator: Demonstrator) -> None:
    for _ in range(200):
        demo = demonstrator.design()
        content = demo.messages[-1]["content"]
        passage = shown(content)
        assert demo.reply[slice(*demo.copied)].strip() in passage
        assert len(passage.split()) <= EXCERPT_WORDS
        assert grounding_share([demo.reply], [passage]) == 1.0
        family = family_in(demo.reply)
        assert family
        assert content.startswith(f"Design {FAMILIES[family].skill}\n")
        assert extract_source(COMPACT, demo.reply) == demo.reply


def test_every_designed_family_is_demonstrated_and_no_transfer_family(demonstrator: Demonstrator) -> None:
    found = {family_in(demonstrator.design().reply) for _ in range(400)}
    assert found == {family.name for families in SKILLS.values() for family in families}
    assert not any(
        "'big " in demo or "'dn " in demo for demo in (demonstrator.design().messages[0]["content"] for _ in range(200))
    )


def test_plays_cover_all_families_with_and_without_hints(demonstrator: Demonstrator) -> None:
    plays = [demo.messages[0]["content"] for _ in range(400) for demo in demonstrator.plays()]
    assert {text.rsplit("\n", 1)[-1].split(" ", 1)[0] for text in plays} == set(KEYWORDS)
    hinted = sum(text.startswith("Hint: ") for text in plays) / len(plays)
    assert 0.25 < hinted < 0.55


def test_drills_copy(demonstrator: Demonstrator) -> None:
    for _ in range(100):
        demo = demonstrator.drill()
        assert demo.reply[slice(*demo.copied)].strip() in shown(demo.messages[0]["content"])


def test_hints_are_of_the_programs_family(demonstrator: Demonstrator) -> None:
    for _ in range(60):
        demo = demonstrator.hint()
        family = family_in(demo.messages[0]["content"])
        assert family
        assert demo.reply.strip() in FAMILIES[family].hints


@pytest.mark.parametrize("level", [1, 4, 20, MAX_LEVEL])
def test_level_rises_after_easy_seeds_and_falls_after_hard_ones(level: int) -> None:
    rng = random.Random(2)
    mean = {rate: sum(adapted_level(level, rate, rng) for _ in range(300)) / 300 for rate in (0.2, 0.5, 0.8)}
    assert mean[0.2] <= mean[0.5] <= mean[0.8]
    assert mean[0.2] < mean[0.8] or level in (1, MAX_LEVEL)
    assert all(1 <= value <= MAX_LEVEL for value in mean.values())


def test_level_of_a_program_is_the_number_it_writes(demonstrator: Demonstrator) -> None:
    levels = [level_of(demonstrator.design().reply) for _ in range(50)]
    assert all(level and level >= 1 for level in levels)
    assert len(set(levels)) > 3
    assert level_of("class Env: pass") is None


def test_content_words_of_strings_and_their_share() -> None:
    source = "w = \" database file\".split()\nx = 'map {m} about'\n# comment words"
    assert re.findall("[a-z]+", " ".join(string_words(source))) == ["database", "file"]
    assert grounding_share([source, source], ["a database", "file of a database"]) == 0.75
