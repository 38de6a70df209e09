from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.report.text import clipped, visible


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    shown = visible(text)
    assert all(
        character.isprintable() or character in "\n\t" or character.isspace() or ord(character) > 0x9F
        for character in shown
    )
    assert not any(character in shown for character in "\x1b\x07\r\x7f\x9b\u202e\u2066\ufeff")


def test_escapes_say_what_was_there() -> None:
    assert visible("a\x1b[31mb\u202ec\td\r\ne\r") == "a\\x1b[31mb\\u202ec\td\ne\\x0d"


def test_what_is_cut_off_is_counted() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdef", 2) == "ab\n… 4 more characters"
