"""Reading a hint, and keeping answers out of it.

A hint explains an approach and never states an answer. The gate knows what the oracle won with on one instance and
what the program says; it errs towards dropping a hint, for a dropped hint costs a little signal and a leaked answer
pays the designer for nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from spade_rl.environment import CallError, read_call
from spade_rl.kinds import EnvironmentKind

MAX_HINT = 16384
# A step of several that is shorter ("3", "n") stands in any advice by chance.
MIN_VALUE = 2
# Words that may stand between two steps that a hint lists.
BETWEEN = 2
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


def _listed_in(needle: Sequence[str], text: Sequence[str]) -> bool:
    """Whether the words of ``needle`` stand in ``text`` in order, each soon after the one before."""
    for start, word in enumerate(text):
        if not needle or word != needle[0]:
            continue
        at = start
        for wanted in needle[1:]:
            ahead = text[at + 1 : at + 2 + BETWEEN]
            if wanted not in ahead:
                break
            at += 1 + ahead.index(wanted)
        else:
            return True
    return False


def vocabulary(source: str) -> frozenset[str]:
    """Return the words of the strings that a program spells out: those of its rules and of its material."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    literals = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return frozenset(token for literal in literals for token in _tokens(literal))


def stated_values(solution: Sequence[str], kind: EnvironmentKind) -> tuple[str, ...]:
    """Return what the actions of a solution state: of calls of tools the arguments' values, else the actions.

    A tool's name is no answer: advice may say which tool to use.
    """
    if kind is not EnvironmentKind.TOOL_USE:
        return tuple(solution)
    values: list[str] = []
    for action in solution:
        try:
            waiting: list[Any] = [read_call(action).arguments]
        except CallError:
            # An environment may have a solution of its own making, with anything in it.
            waiting = [action]
        while waiting:
            value = waiting.pop(0)
            if isinstance(value, (dict, list)):
                waiting = [*(value.values() if isinstance(value, dict) else value), *waiting]
            elif not isinstance(value, bool):
                values.append(str(value))
    return tuple(values)


def leaked(hint: str, solution: Sequence[str], *, source: str, observation: str) -> str:
    """Return the value of ``solution`` that ``hint`` gives away, or an empty string.

    ``solution`` are the winning actions on one instance, ``observation`` is what that instance shows first.

    One action, or the same one again and again: its value must not stand in the hint, unless it is a choice that the
    program spells out and the observation offers. Several: the hint must not list them in their order, nor hold
    one that the program does not spell out, which makes it a value of the instance and no word of the rules. Words
    and numbers are compared whole, whatever their case and whatever stands between them.
    """
    said, rules = _tokens(hint), vocabulary(source)
    steps = [step for step in solution if step.strip()]
    values = {step: _tokens(step) for step in steps}
    if len(values) == 1:
        [(only, tokens)] = values.items()
        offered = rules.issuperset(tokens) and _stands_in(tokens, _tokens(observation))
        return only if _stands_in(tokens, said) and not offered else ""
    if _listed_in([token for step in steps for token in values[step]], said):
        return ", ".join(steps)
    for value, tokens in values.items():
        if len(value.strip()) >= MIN_VALUE and not rules.issuperset(tokens) and _stands_in(tokens, said):
            return value
    return ""
