"""Which earlier environments the designer is shown.

Pure and deterministic: equal candidates and an equal seed give equal examples. Positive examples are environments at
the frontier; they are drawn with weights that grow with what the designer earned for them, their regret and how
learnable they are, and with how unlike the others they read. Negative examples say why they are to be avoided.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from spade_rl.memory.records import Environment, RefusedSource, Statistics, StoredEnvironment

TOO_EASY, TOO_HARD = 0.9, 0.1
# Keeps every candidate possible, however little speaks for it.
_FLOOR = 0.1
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Example:
    """An earlier environment to show; ``reason`` says why a negative one is to be avoided."""

    environment: Environment
    statistics: Statistics | None
    reason: str = ""


@lru_cache(maxsize=2048)
def _words(source: str) -> frozenset[str]:
    return frozenset(_WORD.findall(source))


def rarity(sources: Sequence[str]) -> list[float]:
    """Return for each source the mean share of the others that lack a word of it, in [0, 1]."""
    word_sets = [_words(source) for source in sources]
    counts = Counter(word for words in word_sets for word in words)
    others = max(1, len(sources) - 1)
    return [
        sum(1 - (counts[word] - 1) / others for word in sorted(words)) / len(words) if words else 0.0
        for words in word_sets
    ]


def distance(one: str, other: str) -> float:
    """Return the Jaccard distance of two sources' sets of words, in [0, 1]."""
    a, b = _words(one), _words(other)
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


def worth(statistics: Statistics) -> float:
    """Return what speaks for an environment as a positive example: reward, regret and learnability, at least 0.

    Learnability is ``4 w (1 - w)``, which is 1 where the agent wins half of its plays.
    """
    win_rate = min(1.0, max(0.0, statistics.win_rate))
    return max(0.0, statistics.designer_reward) + max(0.0, statistics.regret) + 4 * win_rate * (1 - win_rate)


def is_positive(stored: StoredEnvironment, learnable: tuple[float, float]) -> bool:
    """Whether an environment was played, never failed, and is won as often as a frontier environment."""
    known = stored.statistics
    return bool(
        known and known.plain_plays and not known.quarantined and learnable[0] <= known.win_rate <= learnable[1]
    )


def positives(
    stored: Sequence[StoredEnvironment], count: int, *, seed: int, learnable: tuple[float, float]
) -> list[Example]:
    """Draw up to ``count`` different positive examples; each also keeps away from those drawn before it."""
    pool = sorted((s for s in stored if is_positive(s, learnable)), key=lambda s: (s.cycle, s.environment.digest))
    novelty = rarity([s.environment.source for s in pool])
    weights = [
        (_FLOOR + worth(s.statistics)) * (_FLOOR + new)
        for s, new in zip(pool, novelty, strict=True)
        if s.statistics is not None
    ]
    rng = random.Random(seed)
    chosen: list[Example] = []
    while pool and len(chosen) < count:
        index = rng.choices(range(len(pool)), weights)[0]
        drawn = pool.pop(index)
        weights.pop(index)
        chosen.append(Example(drawn.environment, drawn.statistics))
        source = drawn.environment.source
        weights = [
            weight * (_FLOOR + distance(s.environment.source, source)) for s, weight in zip(pool, weights, strict=True)
        ]
    return chosen


def negative_reason(stored: StoredEnvironment) -> str:
    """Return why a played environment is to be avoided; empty if it is not."""
    known = stored.statistics
    if known is None:
        return ""
    if known.quarantined:
        return known.quarantine_reason or "its own code failed in play"
    if not known.plain_plays:
        return ""
    return "too easy" if known.win_rate > TOO_EASY else "too hard" if known.win_rate < TOO_HARD else ""


def negatives(
    stored: Sequence[StoredEnvironment], refused: Sequence[RefusedSource], count: int, *, seed: int
) -> list[Example]:
    """Draw up to ``count`` different negative examples.

    The kinds (too easy, too hard, failed in play, refused) get an equal chance, however many each has, so that a
    designer that writes much that is refused still hears of what is too easy.
    """
    kinds: dict[str, list[Example]] = {}
    for s in sorted(stored, key=lambda s: (s.cycle, s.environment.digest)):
        reason = negative_reason(s)
        if reason and s.statistics:
            kind = "failed" if s.statistics.quarantined else reason
            kinds.setdefault(kind, []).append(Example(s.environment, s.statistics, reason))
    for r in sorted(refused, key=lambda r: (r.cycle, r.attempt_id)):
        kinds.setdefault("refused", []).append(Example(r.environment, None, r.reason))
    rng = random.Random(seed)
    chosen: list[Example] = []
    while kinds and len(chosen) < count:
        kind = rng.choice(sorted(kinds))
        example = kinds[kind].pop(rng.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]
        if all(example.environment.digest != other.environment.digest for other in chosen):
            chosen.append(example)
    return chosen
