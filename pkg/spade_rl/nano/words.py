"""Documents, and the runs of words that environments are made of."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

EXCERPT_WORDS = 48  # what the nano designer is shown of a document, at most

# Actions begin with these, so a run that holds one would be ambiguous.
RESERVED = frozenset({"end", "ask", "do"})
STOP_WORDS = frozenset(
    [
        "about",
        "above",
        "after",
        "again",
        "against",
        "also",
        "although",
        "always",
        "among",
        "another",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "cannot",
        "could",
        "does",
        "doing",
        "down",
        "during",
        "each",
        "either",
        "else",
        "even",
        "ever",
        "every",
        "from",
        "further",
        "have",
        "having",
        "here",
        "however",
        "into",
        "itself",
        "just",
        "less",
        "like",
        "made",
        "make",
        "many",
        "might",
        "more",
        "most",
        "much",
        "must",
        "neither",
        "never",
        "nor",
        "once",
        "only",
        "onto",
        "other",
        "others",
        "otherwise",
        "over",
        "rather",
        "same",
        "shall",
        "should",
        "since",
        "some",
        "such",
        "than",
        "that",
        "their",
        "them",
        "then",
        "there",
        "therefore",
        "these",
        "they",
        "this",
        "those",
        "through",
        "thus",
        "under",
        "unless",
        "until",
        "upon",
        "very",
        "well",
        "were",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "will",
        "with",
        "within",
        "without",
        "would",
        "your",
    ]
)
_PLAIN = re.compile(r"[A-Za-z][a-z]{0,10}|\d{1,3}")


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the sample corpus."""

    id: str
    title: str
    text: str


@cache
def documents(split: str) -> tuple[Document, ...]:
    """Return the sample corpus; ``split`` is ``train`` or ``heldout``."""
    packed = files("spade_rl").joinpath(f"data/corpus/{split}.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    return tuple(Document(row["id"], row["title"], row["text"]) for row in rows)


def is_content(word: str) -> bool:
    """Tell whether a word carries meaning: four letters or more, and no stop word."""
    return len(word) >= 4 and word.isalpha() and word.lower() not in STOP_WORDS


def content_words(text: str) -> list[str]:
    """Return a text's content words, in order, with repetitions."""
    return [word for word in re.findall(r"[A-Za-z]+", text) if is_content(word)]


def pick_run(text: str, length: int, rng: random.Random) -> list[str] | None:
    """Return ``length`` consecutive, distinct, plain words of ``text``, half of them content words; None if it has none."""
    tokens = text.split()
    starts = list(range(len(tokens) - length + 1))
    rng.shuffle(starts)
    for start in starts:
        run = tokens[start : start + length]
        if all(_PLAIN.fullmatch(word) for word in run) and _usable(run):
            return run
    return None


def _usable(run: Sequence[str]) -> bool:
    lower = {word.lower() for word in run}
    return len(lower) == len(run) and not lower & RESERVED and 2 * sum(map(is_content, run)) >= len(run)
