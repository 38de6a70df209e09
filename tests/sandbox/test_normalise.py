from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.nano.families import FAMILIES, STYLES, write
from spade_rl.sandbox.normalise import NEAR_SIMILARITY, nearest, normalised_digest, similarity

SOURCE = write(FAMILIES["chase"], ["lamp", "stone", "river", "cloud"], 5, 0)
EDITS = {
    "a line that does nothing": ("        self.t = 0\n", "        self.t = 0\n        self.unused = []\n"),
    "sides turned round": ("action == self.a[self.t]", "self.a[self.t] == action"),
    "a detour": ("        self.t += 1\n", "        t = self.t\n        self.t = t + 1\n"),
    "another method": ("    def solution", "    def helper(self):\n        return self.a\n    def solution"),
    "another order of terms": ("not ok or self.t == len(self.a)", "self.t == len(self.a) or not ok"),
}


def digest(source: str) -> str:
    return normalised_digest(ast.parse(source))


@pytest.mark.parametrize("edit", EDITS)
def test_the_same_program_written_a_little_differently_is_near(edit: str) -> None:
    old, new = EDITS[edit]
    other = SOURCE.replace(old, new)
    assert digest(other) != digest(SOURCE)
    found = nearest(digest(other), ["0" * 64, digest(SOURCE)])
    assert found is not None
    assert found[0] == digest(SOURCE)
    assert found[1] >= NEAR_SIMILARITY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k = 5", "k = 6"),
        ("lamp", "chair"),
        ("lamp stone", "stone lamp"),
        ("k = 5", "k = 5 if seed else 7"),
        ("import random", "import random\nLIMIT = 9"),
    ],
)
def test_other_constants_are_another_environment(old: str, new: str) -> None:
    assert nearest(digest(SOURCE.replace(old, new)), [digest(SOURCE)]) is None


def test_no_two_environments_of_the_families_are_near_unless_they_are_the_same() -> None:
    """Levels and words make the difference between them, as they are meant to."""
    digests = {
        digest(write(family, words, level, style))
        for family in FAMILIES.values()
        for words in (["lamp", "stone", "river"], ["river", "lamp", "stone"], ["green", "table", "lamp", "glass"])
        for level in (3, 4, 5, 9)
        for style in range(STYLES)
    }
    assert len(digests) > 3 * 4 * len(FAMILIES)
    assert [each for each in digests if nearest(each, digests - {each})] == []


def test_other_structures_are_far() -> None:
    chase, todo = (digest(write(FAMILIES[name], ["a", "b", "c"], 5, 0)) for name in ("chase", "todo"))
    assert similarity(chase, chase) == 1.0
    assert similarity(chase, todo) < NEAR_SIMILARITY - 0.1


def test_documentation_and_plain_constants_do_not_tell() -> None:
    other = SOURCE.replace("class Env:", 'class Env:\n    """Walk."""').replace("self.t = 0", "self.t = 0; self.u = 1")
    assert nearest(digest(other), [digest(SOURCE)]) is not None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(alphabet="0123456789abcdef", max_size=70), max_size=4))
def test_digests_of_any_form_may_be_known(known: list[str]) -> None:
    assert nearest(digest(SOURCE), known) is None


@settings(max_examples=20, deadline=None)
@given(st.integers(4301, 60_000))
def test_numbers_of_any_length(length: int) -> None:
    huge = digest(f"x = 0x1{'0' * length}")
    assert huge != digest(f"x = 0x2{'0' * length}")
    assert len(huge) == 64
