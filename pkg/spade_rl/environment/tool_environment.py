"""The contract of tool-use environments, as a base class.

An author defines 3 to 8 tools and ``build``, which makes the starting state of one instance and returns 3 to 5
instructions. The agent sees the tools and the first instruction; each further instruction is shown when the criterion of
the one before it holds. The agent submits, and is paid 1 if *every* criterion holds on the final state, else 0.

Whose fault: a call that does not fit its schema is the agent's; it is told what is wrong, and the episode goes on. So is
what a tool raises as ``ToolError``. Any other exception is the environment's, and voids the episode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar, NamedTuple

from spade_rl.environment.calls import EXAMPLE, Call, CallError, read_call
from spade_rl.environment.definitions import SUBMIT, SUBMIT_TOOL, Tool, tools_of
from spade_rl.environment.schema import Mismatch, validated

TOOLS = (3, 8)
INSTRUCTIONS = (3, 5)
Outcome = tuple[str, float, bool, bool, dict[str, Any]]


class ToolError(Exception):
    """What a tool raises to tell the agent that it cannot do what was asked: the episode goes on."""


class Instruction(NamedTuple):
    """One thing that the agent is asked to do.

    ``holds`` says whether it is done, from the state alone; ``calls`` are calls that do it, in the state that those of the
    instructions before it leave behind.
    """

    text: str
    holds: Callable[[], bool]
    calls: Sequence[Call]


class ToolEnvironment:
    """Extend it with methods marked ``@tool`` and with ``build``; ``reset``, ``step`` and ``solution`` are here.

    Where the calls that win cannot be named beforehand, define ``solution`` as well; the others are not to be replaced.
    """

    max_calls: ClassVar[int] = 25
    """Calls in one episode, wrong ones and submit included; then it is truncated."""
    __tools: ClassVar[dict[str, Tool]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = [name for name in ("reset", "step") if name in vars(cls)]
        if own:
            raise TypeError(f"{cls.__name__} must not define {own[0]}: that is here already; define build and tools")
        cls.__tools = tools_of(cls)
        least, most = TOOLS
        if cls.build is not ToolEnvironment.build and not least <= len(cls.__tools) <= most:
            raise TypeError(
                f"{cls.__name__} has {len(cls.__tools)} tools: mark {least} to {most} methods with @tool, one or two of "
                "them of no use for the instructions"
            )

    def build(self, rng: Random) -> Sequence[Instruction]:
        """Make the state of one instance, with ``rng`` as the only source of chance, and return its instructions."""
        raise NotImplementedError(f"{type(self).__name__} must define build(self, rng)")

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        """Make the instance of ``seed``; the info's ``tools`` are in the form that chat templates take."""
        self.__instructions = _checked(self.build(Random(seed)))
        self.__shown, self.__calls = 0, 0
        if self.__holding() == len(self.__instructions):
            raise ValueError("every instruction holds at the start: there is nothing to do")
        tools = [*self.__tools.values(), SUBMIT_TOOL]
        listed = "\n".join(json.dumps(each._asdict(), ensure_ascii=False) for each in tools)
        observation = f"Tools:\n{listed}\n\nCall one tool at a time: {EXAMPLE}\n\n{self.__news()}"
        return observation, {"tools": [each.specification() for each in tools]}

    def step(self, action: str) -> Outcome:
        """Make the call in ``action``."""
        self.__calls += 1
        try:
            wanted = self.__checked_call(read_call(action))
        except CallError as error:
            return self.__went_on(f"Error: {error}")
        if wanted.tool == SUBMIT:
            held, asked = self.__holding(), len(self.__instructions)
            return f"Submitted: {held} of {asked} instructions hold.", float(held == asked), True, False, {}
        try:
            answer = _text(getattr(self, wanted.tool)(**wanted.arguments), wanted.tool)
        except ToolError as error:
            answer = f"Error: {error}"
        news = self.__news()
        return self.__went_on(f"{answer}\n\n{news}" if news else answer)

    def solution(self) -> list[str]:
        """Return calls that win the instance made last; raises ValueError for one that does not fit its schema."""
        calls = [each for instruction in self.__instructions for each in instruction.calls]
        for number, each in enumerate(calls, 1):
            try:
                self.__checked_call(each)
            except CallError as error:
                raise ValueError(f"call {number} of the instructions' calls, {each.text()}: {error}") from None
        if len(calls) >= self.max_calls:
            raise ValueError(f"the instructions take {len(calls)} calls and submit: max_calls is {self.max_calls}")
        return [each.text() for each in (*calls, Call(SUBMIT, {}))]

    def __checked_call(self, wanted: Call) -> Call:
        known = SUBMIT_TOOL if wanted.tool == SUBMIT else self.__tools.get(wanted.tool)
        if known is None:
            raise CallError(f"there is no tool {wanted.tool[:60]!r}: there are {', '.join((*self.__tools, SUBMIT))}")
        try:
            return Call(wanted.tool, validated(known.parameters, wanted.arguments, wanted.tool))
        except Mismatch as mismatch:
            raise CallError(str(mismatch)) from None

    def __holding(self) -> int:
        return sum(_holds(each) for each in self.__instructions)

    def __news(self) -> str:
        """Show the next instruction, and further ones as long as the last one shown holds already."""
        shown, count = self.__shown, len(self.__instructions)
        while self.__shown < count and (not self.__shown or _holds(self.__instructions[self.__shown - 1])):
            self.__shown += 1
        return "\n".join(
            f"Instruction {number + 1} of {count}: {self.__instructions[number].text}"
            for number in range(shown, self.__shown)
        )

    def __went_on(self, observation: str) -> Outcome:
        if self.__calls < self.max_calls:
            return observation, 0.0, False, False, {}
        return f"{observation}\n\nNo calls are left.", 0.0, False, True, {}


def _checked(instructions: object) -> tuple[Instruction, ...]:
    least, most = INSTRUCTIONS
    if not isinstance(instructions, (list, tuple)) or not all(isinstance(each, Instruction) for each in instructions):
        raise TypeError("build(rng) must return a list of Instruction(text, holds, calls)")
    if not least <= len(instructions) <= most:
        raise ValueError(f"build(rng) returned {len(instructions)} instructions: {least} to {most} are needed")
    for number, each in enumerate(instructions, 1):
        if not isinstance(each.text, str) or not each.text.strip():
            raise TypeError(f"the text of instruction {number} must be text for the agent")
        if not callable(each.holds):
            raise TypeError(f"holds of instruction {number} must be a function without arguments, such as a lambda")
        if not isinstance(each.calls, (list, tuple)) or not all(isinstance(one, Call) for one in each.calls):
            raise TypeError(f"calls of instruction {number} must be a list of call(name, argument=value)")
    return tuple(instructions)


def _holds(instruction: Instruction) -> bool:
    value = instruction.holds()
    if value is None:
        raise TypeError(f"the criterion of {instruction.text[:80]!r} returned None: it must return True or False")
    return bool(value)


def _text(value: object, name: str) -> str:
    """Return what a tool returned as the agent reads it: text as it is, anything else as JSON."""
    if value is None:
        return "Done."
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError as error:
        raise TypeError(f"tool {name} must return text or what JSON knows: {error}") from None
