"""Does a first observation give its answer away? Pure functions of the leak gate.

Words are compared without case. An observation may show the material that the answer is chosen from, and by chance
the answer may stand in a telling place; a leak is what points at the answer in one instance after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
# Share of the instances in which an observation must point at its answer to count as a leak.
LEAK_SHARE = 0.5


def words(text: str) -> list[str]:
    """Return the words and numbers of a text, in lower case."""
    return _WORD.findall(text.lower())


def _contains(haystack: Sequence[str], needle: Sequence[str]) -> bool:
    width = len(needle)
    return width > 0 and any(
        list(haystack[start : start + width]) == list(needle) for start in range(len(haystack) - width + 1)
    )


def points_at(observation: str, solution: Sequence[str]) -> bool:
    """Whether a first observation spells out a whole solution of several actions, in order."""
    flat = [word for action in solution for word in words(action)]
    return len(solution) > 1 and len(set(solution)) > 1 and _contains(words(observation), flat)


def _before(observation: str, answer: str) -> set[str]:
    """Return the words after which the answer stands in the observation."""
    said, wanted = words(observation), words(answer)
    width = len(wanted)
    if not width:
        return set()
    return {
        said[start - 1] if start else ""
        for start in range(len(said) - width + 1)
        if said[start : start + width] == wanted
    }


def labelled_answer(instances: Sequence[tuple[str, Sequence[str]]]) -> str | None:
    """Return the word after which the only action of every instance stands in its first observation, if one does.

    A rule as simple as "say what follows this word" would win every instance. Answers must differ between instances:
    a word that is always right is a matter for the gate against constant actions. "" is the beginning.
    """
    if len(instances) < 2 or any(len(solution) != 1 for _, solution in instances):
        return None
    if len({solution[0] for _, solution in instances}) < 2:
        return None
    labels = set.intersection(*(_before(observation, solution[0]) for observation, solution in instances))
    return min(labels) if labels else None
