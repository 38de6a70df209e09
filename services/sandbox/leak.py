"""Does a text give an answer away? Pure functions, used by the leak gate and for hints.

Words are compared without case. What counts as giving away differs: a hint must not name any value of the solution
that is particular to it; a first observation may show material that the answer is chosen from, but must not point
at the answer.
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


def leaks(hint: str, solutions: Sequence[Sequence[str]], *, observations: Sequence[str] = ()) -> str:
    """Return the part of a solution that a hint gives away, or "" if it gives none away.

    ``solutions`` are the winning action sequences of one or more instances; ``observations`` are texts that the
    agent is shown anyway. A hint leaks if it holds an instance's whole sequence of two or more actions, or an action
    of which some instance needs no other and which is not the same in every instance. Actions that are common to all
    instances (such as "stop") are the environment's vocabulary, and so is what an observation shows. Numbers of two or
    more digits are values, wherever in a solution they stand.
    """
    said = words(hint)
    shown = words(" ".join(observations))
    spoken = [[word for action in solution for word in words(action)] for solution in solutions]
    everywhere = set.intersection(*(set(each) for each in solutions)) if len(solutions) > 1 else set[str]()
    for solution, flat in zip(solutions, spoken, strict=True):
        if len(solution) > 1 and len(flat) > 1 and len(set(flat)) > 1 and _contains(said, flat):
            return ", ".join(solution)
        for number in solution:
            if number.isdecimal() and len(number) > 1 and number in said and number not in shown:
                return number
        if len(set(solution)) == 1 and solution[0] not in everywhere:
            action = words(solution[0])
            if _contains(said, action) and not _contains(shown, action):
                return solution[0]
    return ""


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
