"""What the designer is shown of a grounding document."""

from __future__ import annotations

import random


def excerpt(text: str, max_words: int, seed: int) -> str:
    """Return at most ``max_words`` consecutive words of ``text``, with single spaces between them.

    A document that is longer than that contributes another window each time it is drawn: the window
    starts at a sentence where one begins early enough, and depends only on ``seed``.
    """
    words = text.split()
    if len(words) <= max_words:
        return " ".join(words)
    last = len(words) - max_words
    starts = [0] + [i + 1 for i, word in enumerate(words[:last]) if word.endswith((".", "?", "!"))]
    start = random.Random(seed).choice(starts)
    return " ".join(words[start : start + max_words])
