"""The one form in which tools are called: a JSON object in the agent's text.

    {"tool": "transfer", "arguments": {"source": "ann", "amount": 3}}

``arguments`` may be left out where there are none, and ``name`` may stand for ``tool``. Text around the object is
ignored (a code block, tags, a sentence), but only one call may be found: nothing is guessed.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

MAX_CHARACTERS = 32_768
EXAMPLE = '{"tool": NAME, "arguments": {...}}'
# Larger numbers are refused: tools need not be safe from them.
LARGEST, DIGITS = 10**18, 18
# Only what begins like a JSON object is taken for one: not the braces of a formula, or of \\boxed{}.
_OPENING = re.compile(r'\{(?=[ \t\n\r]*["}])')


class CallError(Exception):
    """Text that does not hold one call; the message is for the agent."""


class Call(NamedTuple):
    """A tool's name and its arguments by name."""

    tool: str
    arguments: dict[str, Any]

    def text(self) -> str:
        """Return the call as an agent writes it."""
        return json.dumps({"tool": self.tool, "arguments": self.arguments}, ensure_ascii=False)


def call(tool: str, /, **arguments: Any) -> Call:
    """Return a call of ``tool``: ``call("transfer", source="ann", amount=3)``."""
    return Call(tool, arguments)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{text[:30]} is too large a number")
    return value


def _int(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise ValueError(f"{text[:30]} is too large a number")
    return int(text)


_decode = json.JSONDecoder(parse_constant=_no_constant, parse_float=_float, parse_int=_int).raw_decode


def read_call(text: str) -> Call:
    """Return the one call that ``text`` holds. Raises CallError if there is none, or more than one."""
    if len(text) > MAX_CHARACTERS:
        raise CallError(f"the text is longer than {MAX_CHARACTERS} characters: send the call alone")
    found: list[Call] = []
    opening = _OPENING.search(text)
    while opening:
        try:
            value, end = _decode(text, opening.start())
        except (ValueError, RecursionError) as error:
            # Nothing inside of a broken object is taken for a call.
            raise CallError(f"this is not JSON: {_complaint(error, opening.start())}") from None
        each = _as_call(value)
        if each is not None and each not in found:
            found.append(each)
        opening = _OPENING.search(text, end)
    if not found:
        raise CallError(f"there is no call: answer with {EXAMPLE}")
    if len(found) > 1:
        raise CallError(f"there are {len(found)} calls: make one at a time")
    return found[0]


def _complaint(error: Exception, start: int) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos - start + 1} of the object"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _as_call(value: dict[str, Any]) -> Call | None:
    """Return an object as a call; None if it is something else. Raises CallError for a call of a wrong shape."""
    keys = [key for key in ("tool", "name") if key in value]
    if not keys:
        return None
    if len(keys) > 1 or set(value) - {keys[0], "arguments"}:
        raise CallError(f'a call has "tool" and "arguments", and nothing else: {EXAMPLE}')
    name, arguments = value[keys[0]], value.get("arguments", {})
    if not isinstance(name, str):
        raise CallError(f'"{keys[0]}" must be the name of a tool as text: {EXAMPLE}')
    if not isinstance(arguments, dict):
        raise CallError(f'"arguments" must be an object: {EXAMPLE}')
    return Call(name, arguments)
