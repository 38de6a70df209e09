"""Making the designer's prompt fit its context.

What a prompt loses, it loses in a fixed order: negative examples, positive examples, the end of the document. Whoever
asks gets told what was dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spade_rl.errors import ConfigurationError
from spade_rl.kinds import EnvironmentKind
from spade_rl.prompts import Message, PromptStyle, SeedExample, designer_messages

Encode = Callable[[Sequence[Message]], list[int]]
REASON_LENGTH = 200
_PART_OF_A_WORD = re.compile(r"\S+\Z")


@dataclass(frozen=True, slots=True)
class Seed:
    """An earlier environment that memory offers; ``reason`` says why a negative one is to be avoided."""

    digest: str
    source: str
    win_rate: float
    reason: str = ""

    def example(self) -> SeedExample:
        """Return the seed as prompts take it: of a long reason, the beginning of its first line."""
        line = next(iter(self.reason.strip().splitlines()), "")
        return SeedExample(self.source, self.win_rate, line[:REASON_LENGTH])


@dataclass(frozen=True, slots=True)
class DesignPrompt:
    """A prompt that fits: its messages and tokens, and what it shows."""

    messages: tuple[Message, ...]
    token_ids: tuple[int, ...]
    document: str
    positives: tuple[Seed, ...]
    negatives: tuple[Seed, ...]


def fit_prompt(
    style: PromptStyle,
    kind: EnvironmentKind,
    *,
    skill: str,
    document: str,
    positives: Sequence[Seed],
    negatives: Sequence[Seed],
    room: int,
    encode: Encode,
) -> DesignPrompt:
    """Return the fullest prompt of at most ``room`` tokens.

    Raises ConfigurationError if not even a single word of the document fits.
    """

    def prompt(text: str, kept_positives: Sequence[Seed], kept_negatives: Sequence[Seed]) -> DesignPrompt:
        messages = designer_messages(
            style,
            kind,
            skill=skill,
            document=text,
            positives=[seed.example() for seed in kept_positives],
            negatives=[seed.example() for seed in kept_negatives],
        )
        return DesignPrompt(
            tuple(messages), tuple(encode(messages)), text, tuple(kept_positives), tuple(kept_negatives)
        )

    def fits(candidate: DesignPrompt) -> bool:
        return len(candidate.token_ids) <= room

    kept = list(positives), list(negatives)
    found = prompt(document, *kept)
    while not fits(found) and (kept[0] or kept[1]):
        (kept[1] or kept[0]).pop()
        found = prompt(document, *kept)
    if fits(found):
        return found
    # The longest beginning that fits, by halving; a word is never cut unless it is the only one.
    low, high = 1, max(1, len(document))
    shortest = prompt(document[:low], (), ())
    if not document or not fits(shortest):
        raise ConfigurationError(
            f"the designer's prompt for {skill!r} takes {len(shortest.token_ids)} tokens without seeds and document, but "
            f"there is room for {room}: raise agent.engine.context_tokens or lower designer.max_tokens"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(prompt(document[:middle], (), ())) else (low, middle)
    cut = document[:low]
    words = cut if document[low : low + 1].isspace() else _PART_OF_A_WORD.sub("", cut)
    whole = prompt(words.rstrip() or cut, (), ())
    return whole if fits(whole) else prompt(cut, (), ())
