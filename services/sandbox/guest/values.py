"""What the environment returned or raised, as the protocol says it.

Every function takes a value that generated code made, of any type and with any method overridden, and returns plain
values or raises ``Fault``.
"""

from __future__ import annotations

import errno

from .channel import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILENAME = "<environment>"
MESSAGE_LIMIT = 2000
INFO_NODES = 10_000
INFO_DEPTH = 32
# What the kernel answers to code that exceeds a limit of its process, by the limit's name.
LIMIT_ERRORS = {errno.EMFILE: "files", errno.EAGAIN: "processes", errno.EFBIG: "disk", errno.ENOSPC: "disk"}
NO_THREAD = "can't start new thread"


class Fault(Exception):
    """The environment broke a rule; ``kind`` is from the documented list."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _where(error: BaseException) -> str:
    line, function, trace = 0, "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == FILENAME:
            line, function = trace.tb_lineno, code.co_name
        trace = trace.tb_next
    return f" (line {line}, in {function})" if line else ""


def as_fault(error: BaseException, call: str) -> tuple[str, str]:
    """Return kind and message of whatever a call raised."""
    if isinstance(error, Fault):
        return error.kind, str(error)[:MESSAGE_LIMIT]
    try:
        text = str(error)[:MESSAGE_LIMIT]
    except BaseException:
        text = "its message cannot be read"
    name = type(error).__name__
    kind = "memory" if isinstance(error, MemoryError) else "exception"
    if isinstance(error, OSError):
        kind = LIMIT_ERRORS.get(error.errno or 0, kind)
    elif isinstance(error, RuntimeError) and text == NO_THREAD:
        kind = "processes"
    if isinstance(error, ImportError) and call == "the program":
        kind = "import"
    return kind, f"{call} raised {name}{': ' + text if text else ''}{_where(error)}"


def text_of(value: Any, what: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters."""
    if not isinstance(value, str):
        raise Fault("contract", f"{what} must be text, not {type(value).__name__}")
    text = str.__str__(value)  # Of a subclass: exactly a str, whose length nobody can pretend.
    if len(text) > limit:
        raise Fault("observation", f"{what} has {len(text)} characters; at most {limit} bytes are allowed")
    return text


def number_of(value: Any, call: str) -> float:
    """Return a reward as a float, which may not be finite."""
    if not isinstance(value, (int, float)) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    raise Fault("contract", f"the reward of {call} must be a number, not {type(value).__name__}")


def flag_of(value: Any, what: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, (bool, int)) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, int)):
        return bool(value)
    raise Fault("contract", f"{what} must be True or False, not {type(value).__name__}")


def _plain(value: Any, depth: int, budget: list[int]) -> Any:
    """Return ``value`` as JSON knows it: numpy becomes Python, what has no form in JSON becomes text."""
    budget[0] -= 1
    if budget[0] < 0 or depth > INFO_DEPTH:
        raise Fault("info", f"info is too large: at most {INFO_NODES} values, nested at most {INFO_DEPTH} deep")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)[:100]
    if isinstance(value, float):
        return float(value) if value - value == 0 else repr(float(value))
    if isinstance(value, dict):
        return {str(key)[:200]: _plain(item, depth + 1, budget) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1, budget) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), depth + 1, budget)
    return repr(value)[:200]


def info_of(value: Any, call: str, limit: int) -> str:
    """Return an info as JSON."""
    if not isinstance(value, dict):
        raise Fault("contract", f"info of {call} must be a dict, not {type(value).__name__}")
    if not value:
        return "{}"
    text = to_json(_plain(value, 0, [INFO_NODES]), strict=True)
    if len(text) > limit:
        raise Fault("info", f"info of {call} has {len(text)} bytes as JSON; at most {limit} are allowed")
    return text


def shape_of(value: Any) -> str:
    """Say what a value is that should have been a tuple."""
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__
