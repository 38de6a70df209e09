"""The texts that the tokenizer's vocabulary is learned from.

Prose decides how many tokens a document's word takes, code how many a class takes; the proportions below give
about 1.8 and 80.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from spade_rl.nano.demos import Demonstrator
from spade_rl.nano.families import DESIGNED, SKILLS
from spade_rl.nano.words import Document

SOURCES_PER_FAMILY = 60
LONG_PROGRAM = 3  # a family with its own ``step`` counts this often


def vocabulary_texts(documents: Sequence[Document], demonstrator: Demonstrator, rng: random.Random) -> Iterator[str]:
    """Yield prose, sources, hints, observations, actions and the words of the prompts."""
    for document in documents:
        yield from (document.text, document.text)
    for family in DESIGNED:
        for _ in range(SOURCES_PER_FAMILY * (LONG_PROGRAM if family.tail else 1)):
            yield demonstrator.source(family, rng.randint(1, 48))
        for _ in range(SOURCES_PER_FAMILY):
            yield from family.hints
    for _ in range(2_000):
        for demo in demonstrator.plays():
            yield from (demo.messages[0]["content"], demo.reply)
    for _ in range(300):
        yield "Text: Seed good easy hard Avoid too easy too hard Hint for: Hint: end ask do"
        yield from (f"Design {skill}" for skill in SKILLS)
