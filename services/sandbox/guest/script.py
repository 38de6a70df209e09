"""Runs a host's script of operations on an environment, and answers each."""

from __future__ import annotations

import time

from .channel import Channel
from .environment import Environment
from .values import as_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FLUSH_BYTES = 1 << 20


def _steps(environment: Environment, actions: list[str], flush_seconds: float, say: Callable[[Any], None]) -> None:
    results: list[Any] = []
    size, since = 0, time.monotonic()
    for action in actions:
        result = environment.step(action)
        results.append(result)
        size += len(result[0]) + len(result[4])
        if result[2] or result[3]:
            break
        now = time.monotonic()
        if now - since > flush_seconds or size > FLUSH_BYTES:
            say({"results": results, "more": True})
            results, size, since = [], 0, now
    say({"results": results})


def run_script(environment: Environment, message: dict[str, Any], say: Callable[[Any], None]) -> None:
    """Run operations in order, one answer each; unless told to go on, the first fault ends the script."""
    for operation in message["operations"]:
        name = operation[0]
        call = {"load": "the program", "reset": f"reset(seed={operation[-1]})"}.get(name, f"{name}()")
        try:
            if name == "load":
                say(environment.load())
            elif name == "reset":
                say(environment.reset(operation[1]))
            elif name == "solution":
                say(environment.solution())
            else:
                _steps(environment, environment.actions(operation), message["flush_seconds"], say)
        except BaseException as error:
            kind, text = as_fault(error, call)
            say({"fault": kind, "message": text})
            if not message["go_on"]:
                return


def answer_scripts(channel: Channel, environment: Environment) -> None:
    """Run one script after the other; EOFError when the host has hung up."""
    while True:
        sequence, nonce, message = channel.receive()

        def say(answer: Any, sequence: int = sequence, nonce: int = nonce) -> None:
            channel.send(sequence, nonce, answer)

        run_script(environment, message, say)
