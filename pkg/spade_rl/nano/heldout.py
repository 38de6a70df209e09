"""The held-out set: 1,008 fixed instances of every family at seven levels, and the summary of a policy's plays.

They are made of the held-out documents, and of runs of words that stand in no training document, so no training
sample, seed or prompt can contain one of these programs. There are only 84 sources (each costs a sandbox), twelve
seeds each. Two families of the twelve are never shown to a designer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from spade_rl.nano.families import FAMILIES, STYLES, TRANSFER, Family, write
from spade_rl.nano.words import documents, pick_run
from spade_rl.seeds import derive_seed

LEVELS = (2, 4, 8, 12, 16, 24, 32)
SEEDS_PER_SOURCE = 12
Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class HeldOutInstance:
    """One instance: ``reset(seed)`` of ``source``. ``transfer`` marks the families that no designer was shown."""

    id: str
    family: str
    level: int
    source: str
    seed: int
    transfer: bool


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of wins with its 95 % Wilson interval.

    The interval is about the policy's sampling on these fixed instances, taken as independent; it does not cover
    other documents or programs.
    """

    wins: int
    plays: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Accuracy on all instances, and by family, by level and by both."""

    overall: Accuracy
    families: dict[str, Accuracy]
    levels: dict[int, Accuracy]
    cells: dict[tuple[str, int], Accuracy]


@cache
def instances() -> tuple[HeldOutInstance, ...]:
    """Return the held-out set, always the same."""
    return tuple(
        HeldOutInstance(
            id=f"{family.name}-{level}-{index}",
            family=family.name,
            level=level,
            source=source,
            seed=derive_seed("nano-held-out", family.name, level, index),
            transfer=family in TRANSFER,
        )
        for family in FAMILIES.values()
        for level in LEVELS
        for source in (_source(family, level),)
        for index in range(SEEDS_PER_SOURCE)
    )


@cache
def held_out_runs() -> frozenset[str]:
    """Return the runs of words that the held-out programs hold; training passages must not hold them."""
    return frozenset(
        source.split('w = " ', 1)[1].split('"', 1)[0] for source in {instance.source for instance in instances()}
    )


@cache
def _training_text() -> str:
    return "\n".join(" ".join(document.text.split()) for document in documents("train"))


def _source(family: Family, level: int) -> str:
    """Compose the source of a cell from a run that no training document holds."""
    rng = random.Random(derive_seed("nano-held-out", family.name, level))
    while True:
        words = pick_run(rng.choice(documents("heldout")).text, rng.choice(family.runs), rng)
        if words and " ".join(words) not in _training_text():
            return write(family, words, level, rng.randrange(STYLES))


def accuracy(wins: int, plays: int) -> Accuracy:
    """Return the share of wins with its Wilson interval (Wilson 1927)."""
    if plays < 1 or not 0 <= wins <= plays:
        raise ValueError(f"{wins} wins of {plays} plays is no accuracy")
    mean = wins / plays
    spread = Z95 * math.sqrt(mean * (1 - mean) / plays + Z95**2 / (4 * plays**2))
    centre, scale = mean + Z95**2 / (2 * plays), 1 + Z95**2 / plays
    return Accuracy(wins, plays, mean, max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def summarise(won: Mapping[str, bool]) -> Summary:
    """Summarise which instances (by id) were won; instances that were not played are left out."""
    known = {instance.id: instance for instance in instances()}
    unknown = [name for name in won if name not in known]
    if unknown or not won:
        raise ValueError(
            f"these are no instances of the held-out set: {unknown[:3]}" if unknown else "no outcomes to summarise"
        )
    played = [known[name] for name in won]

    def share(keep: Callable[[HeldOutInstance], bool]) -> Accuracy:
        kept = [won[instance.id] for instance in played if keep(instance)]
        return accuracy(sum(kept), len(kept))

    families: Sequence[str] = list(dict.fromkeys(instance.family for instance in played))
    levels = sorted({instance.level for instance in played})
    cells = sorted({(instance.family, instance.level) for instance in played})
    return Summary(
        overall=share(lambda _: True),
        families={name: share(lambda i, name=name: i.family == name) for name in families},  # type: ignore[misc]
        levels={level: share(lambda i, level=level: i.level == level) for level in levels},  # type: ignore[misc]
        cells={cell: share(lambda i, cell=cell: (i.family, i.level) == cell) for cell in cells},  # type: ignore[misc]
    )
