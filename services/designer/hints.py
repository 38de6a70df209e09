"""Reading a hint, and keeping answers out of it.

A hint explains an approach and never states an answer. The gate knows what the oracle won with on one instance and
what the program says; it errs towards dropping a hint, for a dropped hint costs a little signal and a leaked answer
pays the designer for nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

MAX_HINT = 16384
# A step of several that is shorter ("3", "n") stands in any advice by chance.
MIN_VALUE = 2
_THINK = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_TOKEN = re.compile(r"\w+(?:\.\d+)?|[^\w\s]", re.UNICODE)


def extract_hint(reply: str) -> str:
    """Return the hint in a reply: all of it but what was thought aloud; empty if nothing is left."""
    return _THINK.sub("", reply).strip()[:MAX_HINT].strip()


def _tokens(text: str) -> list[str]:
    """Return the words and numbers of a text, folded; punctuation only where there is nothing else."""
    found = _TOKEN.findall(text.casefold())
    return [token for token in found if token[0].isalnum() or token[0] == "_"] or found


def _stands_in(needle: Sequence[str], text: Sequence[str]) -> bool:
    size = len(needle)
    return size > 0 and any(list(text[i : i + size]) == list(needle) for i in range(len(text) - size + 1))


def vocabulary(source: str) -> frozenset[str]:
    """Return the strings that a program spells out, folded: the words of its rules, such as ``end`` or ``left``."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    literals = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return frozenset(value.strip().casefold() for value in literals if isinstance(value, str))


def leaked(hint: str, solution: Sequence[str], *, source: str, observation: str) -> str:
    """Return the value of ``solution`` that ``hint`` gives away, or an empty string.

    ``solution`` are the winning actions on one instance, ``observation`` is what that instance shows first.

    One action, or the same one again and again: its value must not stand in the hint, unless it is a choice that the
    program spells out and the observation offers. Several: the hint must not list them in their order, nor hold
    one that the program does not spell out (which makes it a value of the instance, not a word of the rules). Words
    and numbers are compared whole, whatever their case and whatever stands between them.
    """
    said, rules = _tokens(hint), vocabulary(source)
    steps = [step for step in solution if step.strip()]
    values = list(dict.fromkeys(steps))
    if len(values) == 1:
        only = _tokens(values[0])
        offered = values[0].strip().casefold() in rules and _stands_in(only, _tokens(observation))
        return values[0] if _stands_in(only, said) and not offered else ""
    named = [token for step in steps for token in _tokens(step)]
    if _stands_in(named, [word for word in said if word in set(named)]):
        return ", ".join(steps)
    for value in values:
        own = value.strip().casefold()
        if len(own) >= MIN_VALUE and own not in rules and _stands_in(_tokens(value), said):
            return value
    return ""
