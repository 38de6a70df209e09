"""A prompt that is too long loses negatives, then positives, then the document's end; and never more than it must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.designer.fitting import Seed, fit_prompt
from spade_rl.errors import ConfigurationError
from spade_rl.kinds import EnvironmentKind
from spade_rl.prompts import PromptStyle, designer_messages

POSITIVES = [Seed("p1", "class P1: pass", 0.5), Seed("p2", "class P2: pass", 0.4)]
NEGATIVES = [Seed("n1", "class N1: pass", 0.95, "too easy\nand more")]
DOCUMENT = "Alpha beta gamma delta."


def encode(messages) -> list[int]:
    return [ord(c) for m in messages for c in m["content"]]


def fit(room: int, document: str = DOCUMENT, style: PromptStyle = PromptStyle.COMPACT):
    return fit_prompt(
        style,
        EnvironmentKind.GAME,
        skill="count",
        document=document,
        positives=POSITIVES,
        negatives=NEGATIVES,
        room=room,
        encode=encode,
    )


def size(document: str, positives: int, negatives: int) -> int:
    return len(
        encode(
            designer_messages(
                PromptStyle.COMPACT,
                skill="count",
                document=document,
                positives=[seed.example() for seed in POSITIVES[:positives]],
                negatives=[seed.example() for seed in NEGATIVES[:negatives]],
            )
        )
    )


def test_what_fits_is_kept_whole() -> None:
    found = fit(size(DOCUMENT, 2, 1))
    assert (found.positives, found.negatives, found.document) == (tuple(POSITIVES), tuple(NEGATIVES), DOCUMENT)
    assert list(found.token_ids) == encode(found.messages)


def test_the_order_in_which_parts_are_dropped() -> None:
    shapes = []
    for room in range(size(DOCUMENT, 2, 1), size("A", 0, 0) - 1, -1):
        found = fit(room)
        assert len(found.token_ids) <= room
        shapes.append((len(found.negatives), len(found.positives), found.document))
    stages = list(dict.fromkeys(shapes))
    assert stages[:4] == [(1, 2, DOCUMENT), (0, 2, DOCUMENT), (0, 1, DOCUMENT), (0, 0, DOCUMENT)]
    assert [stage[2] for stage in stages[4:]] == ["Alpha beta gamma", "Alpha beta", "Alpha", "Alph", "Alp", "Al", "A"]


@given(st.text(st.sampled_from("ab \n"), max_size=40), st.integers(0, 200))
def test_never_beyond_the_room(document: str, room: int) -> None:
    try:
        found = fit(room, document)
    except ConfigurationError:
        assert size(document[:1], 0, 0) > room
        return
    assert len(found.token_ids) <= room
    assert document.startswith(found.document)


def test_no_room_at_all_is_the_users_to_mend() -> None:
    with pytest.raises(ConfigurationError, match=r"raise agent\.engine\.context_tokens or lower designer\.max_tokens"):
        fit(5)
    with pytest.raises(ConfigurationError, match="there is room for 3"):
        fit(3, "")


def test_reasons_are_one_short_line() -> None:
    assert NEGATIVES[0].example().reason == "too easy"
    assert len(Seed("d", "s", 0.0, "x" * 999).example().reason) == 200
    assert Seed("d", "s", 0.0, "\n").example().reason == ""
