"""One program and its current instance, behind checks of everything that it returns."""

from __future__ import annotations

import builtins
import sys

from .values import Fault, flag_of, info_of, number_of, shape_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


def _takes_seed_by_name(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    return "seed" in names or bool(code.co_flags & 0x08)


class Environment:
    """One program and its current instance, behind checks of everything that it returns."""

    def __init__(self, code: CodeType, class_name: str, injected: dict[str, Any], limits: dict[str, Any]) -> None:
        self._code = code
        self._class_name = class_name
        self._injected = injected
        self._observation_limit = int(limits["observation_bytes"])
        self._info_limit = int(limits["info_bytes"])
        self._solution_limit = int(limits["solution_steps"])
        self._make: Callable[[], Any] | None = None
        self._instance: Any = None
        self._solution: list[str] = []

    def load(self) -> dict[str, Any]:
        """Run the program's top level."""
        module = type(sys)("environment")
        module.__dict__.update(self._injected, __builtins__=builtins)
        sys.modules["environment"] = module
        exec(self._code, module.__dict__)
        self._make = module.__dict__.get(self._class_name)
        if not isinstance(self._make, type):
            raise Fault("contract", f"{self._class_name} is not a class once the program has run")
        return {}

    def reset(self, seed: int) -> dict[str, Any]:
        """Make a fresh instance and reset it."""
        call = f"reset(seed={seed})"
        if self._make is None:
            raise Fault("contract", "the program did not load")
        self._instance, self._solution = None, []
        self._instance = self._make()
        function = self._instance.reset
        value = function(seed=seed) if _takes_seed_by_name(function) else function(seed)
        if not isinstance(value, tuple) or len(value) != 2:
            raise Fault("contract", f"{call} must return (observation, info), not {shape_of(value)}")
        return {
            "observation": text_of(value[0], f"the observation of {call}", self._observation_limit),
            "info": info_of(value[1], call, self._info_limit),
        }

    def solution(self) -> dict[str, Any]:
        """Return the oracle's actions as text."""
        if not hasattr(self._instance, "solution"):
            raise Fault("contract", "there is no solution(): after reset it must return the list of winning actions")
        value = self._instance.solution()
        actions = [value] if isinstance(value, (str, int, float)) else value
        if not isinstance(actions, (list, tuple)):
            raise Fault("contract", f"solution() must return a list of actions as text, not {type(value).__name__}")
        if len(actions) > self._solution_limit:
            raise Fault("bounds", f"solution() has {len(actions)} actions; at most {self._solution_limit} are allowed")
        texts = []
        for action in actions:
            if not isinstance(action, str) and hasattr(action, "item"):
                action = action.item()
            if not isinstance(action, (str, int, float)):
                raise Fault("contract", f"an action of solution() must be text, not {type(action).__name__}")
            texts.append(text_of(str(action), "an action of solution()", self._observation_limit))
        if sum(map(len, texts)) > self._observation_limit:
            raise Fault("bounds", f"solution() has more than {self._observation_limit} characters")
        self._solution = texts
        return {"actions": texts}

    def step(self, action: str) -> tuple[str, float, bool, bool, str]:
        """Take one action."""
        value = self._instance.step(action)
        if not isinstance(value, tuple) or len(value) != 5:
            raise Fault(
                "contract",
                f"step() must return (observation, reward, terminated, truncated, info), not {shape_of(value)}",
            )
        observation, reward, terminated, truncated, info = value
        return (
            text_of(observation, "the observation of step()", self._observation_limit),
            number_of(reward, "step()"),
            flag_of(terminated, "terminated of step()"),
            flag_of(truncated, "truncated of step()"),
            info_of(info, "step()", self._info_limit),
        )

    def actions(self, operation: list[Any]) -> list[str]:
        """Return the actions that a step operation names: a list, or the solution found last."""
        return list(self._solution) if operation[1] is None else operation[1]
