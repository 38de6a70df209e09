"""The prompts of both roles, and how their replies are read.

One policy plays both roles and is told which by the prompt alone. Two styles exist: ``full`` explains
the task to a general chat model; ``compact`` is the terse form that a small model (the shipped nano
model) was trained on. A style only changes words: both are chat messages that go through the model's
own chat template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from spade_rl.kinds import EnvironmentKind


class Message(TypedDict):
    """One chat message, as chat templates take it."""

    role: str
    content: str


class PromptStyle(StrEnum):
    """How much a prompt explains."""

    FULL = "full"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class SeedExample:
    """An earlier environment that the designer is shown.

    ``win_rate`` is the agent's mean return over the environment's window; ``reason`` says why a negative
    example is one (``too easy``, ``too hard``, or the message of the gate that refused it).
    """

    source: str
    win_rate: float
    reason: str = ""


def difficulty_word(win_rate: float) -> str:
    """Name a win rate: above 0.6 an environment is easy, below 0.4 hard, between them good."""
    return "easy" if win_rate >= 0.6 else "good" if win_rate >= 0.4 else "hard"


# --- Environment Designer -------------------------------------------------------------------------

CONTRACT = """\
Write one self-contained Python class that is a training environment:

class NAME:
    def reset(self, seed):              # -> (observation: str, info: dict); all randomness from `seed`
    def step(self, action):             # action: str -> (observation: str, reward: float, terminated: bool, truncated: bool, info: dict)
    def solution(self):                 # -> list[str]: actions that win the instance made by the last reset

The reward lies in [-1, 1]; the reward of the terminating step is the result of the episode. Different seeds
must give different instances, the same seed always the same one. The answer must not stand in the first
observation, and neither an empty nor a constant nor a random action may win. Only the standard library's pure
modules and numpy may be imported; there is no file, network or clock."""

TOOL_CONTRACT = """\
Write one self-contained Python class that is a training environment played through tools. It extends ToolEnvironment,
which shows the tools and one instruction at a time, checks every call against its schema, and pays 1.0 when the agent
submits and every instruction holds on the final state. For example:

from spade_rl.environment import Instruction, ToolEnvironment, ToolError, call, tool


class Lockers(ToolEnvironment):
    def build(self, rng):  # makes one instance; all randomness from rng, a random.Random
        a, b, c = rng.sample(["ada", "bo", "cy", "dee", "eve"], 3)
        old, free, wanted, *others = rng.sample(range(10, 1000), 5)
        self.owner = {old: b, others[0]: a, others[1]: c}
        return [  # 3 to 5; each is shown when the one before it holds
            Instruction(f"Give locker {free} to {a}.", lambda: self.owner.get(free) == a, [call("assign", locker=free, name=a)]),
            Instruction(f"Free {b}'s locker.", lambda: old not in self.owner, [call("release", locker=old)]),
            Instruction(f"{b} takes locker {wanted}.", lambda: self.owner.get(wanted) == b, [call("assign", locker=wanted, name=b)]),
        ]

    @tool("Give a free locker to somebody.", locker={"type": "integer", "minimum": 1}, name={"type": "string"})
    def assign(self, locker, name):
        if locker in self.owner:
            raise ToolError("this locker is taken")  # told to the agent; any other exception is a fault of the class
        self.owner[locker] = name

    @tool("Free a locker.", locker={"type": "integer", "minimum": 1})
    def release(self, locker):
        if self.owner.pop(locker, None) is None:
            raise ToolError("this locker is free")

    @tool("List the lockers of somebody.", name={"type": "string"})
    def lockers_of(self, name):
        return [locker for locker, owner in self.owner.items() if owner == name]

    @tool("Count the lockers that are taken.")  # of no use here: a distractor
    def count(self):
        return len(self.owner)

Define 3 to 8 tools, one or two of them distractors, with a schema for every parameter (type, description, enum, minimum,
maximum, items, properties, required); parameters with a default are optional. Do not define reset, step, solution or a
tool named submit. What an instruction asks must be found out with the tools, and no call may do it by chance. `calls` win
in the state that the instructions before leave behind. Different seeds must give different instances. Only the standard
library's pure modules, numpy and spade_rl.environment may be imported; there is no file, network or clock."""
_CONTRACTS = {EnvironmentKind.GAME: CONTRACT, EnvironmentKind.TOOL_USE: TOOL_CONTRACT}


def designer_messages(
    style: PromptStyle,
    kind: EnvironmentKind = EnvironmentKind.GAME,
    *,
    skill: str,
    document: str,
    positives: Sequence[SeedExample] = (),
    negatives: Sequence[SeedExample] = (),
) -> list[Message]:
    """Ask for an environment that trains ``skill`` and is made of what ``document`` says."""
    if style is PromptStyle.COMPACT:
        parts = [f"Design {skill}\nText: {document}"]
        parts += [f"Seed {difficulty_word(s.win_rate)} {s.win_rate:.1f}:\n{s.source}" for s in positives]
        parts += [f"Avoid {s.reason}:\n{s.source}" for s in negatives]
        return [{"role": "user", "content": "\n".join(parts)}]
    parts = [
        f"Skill to train: {skill}.",
        f"Ground the environment in this document:\n<document>\n{document}\n</document>",
    ]
    parts += [
        f"An earlier environment that the agent won in {s.win_rate:.0%} of its plays ({difficulty_word(s.win_rate)}):"
        f"\n```python\n{s.source}\n```"
        for s in positives
    ]
    parts += [f"An environment to stay away from ({s.reason}):\n```python\n{s.source}\n```" for s in negatives]
    parts.append(
        "Write a new environment, different from the ones above, that the agent can win about half of the time. "
        "Answer with one ```python code block."
    )
    return [{"role": "system", "content": _CONTRACTS[kind]}, {"role": "user", "content": "\n\n".join(parts)}]


def repair_messages(prompt: Sequence[Message], reply: str, gate: str, complaint: str) -> list[Message]:
    """Continue a designer conversation with the verdict that refused its last reply."""
    return [
        *prompt,
        {"role": "assistant", "content": reply},
        {
            "role": "user",
            "content": f"Refused by the gate {gate}: {complaint}\nWrite the whole environment again, mended.",
        },
    ]


def hint_messages(style: PromptStyle, source: str) -> list[Message]:
    """Ask for privileged advice on an environment: the approach, never an answer."""
    if style is PromptStyle.COMPACT:
        return [{"role": "user", "content": f"Hint for:\n{source}"}]
    return [
        {
            "role": "user",
            "content": "Read this environment and write a hint for a player of it, in at most five sentences. Explain the approach "
            f"that always wins; never state an answer or a concrete action.\n```python\n{source}\n```",
        }
    ]


_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)


def extract_source(style: PromptStyle, reply: str) -> str | None:
    """Return the program in a designer's reply: the last code block, or in compact style the reply itself."""
    if style is PromptStyle.COMPACT:
        return reply if reply.strip() else None
    blocks: list[str] = _FENCE.findall(_THINK.sub("", reply))
    return blocks[-1] if blocks else None


# --- Reasoning Agent ------------------------------------------------------------------------------

AGENT_SYSTEM = (
    "You act in an environment, turn by turn. Each message shows what you observe. Think, then give your action "
    "for this turn in \\boxed{}."
)

TOOL_AGENT_SYSTEM = (
    "You act in an environment through tools, turn by turn. Each message shows what you observe; the first one lists the "
    "tools. Think, then end your reply with exactly one call of a tool, as JSON: "
    '{"tool": NAME, "arguments": {...}}. When all instructions are done, call submit.'
)
_AGENT_SYSTEMS = {EnvironmentKind.GAME: AGENT_SYSTEM, EnvironmentKind.TOOL_USE: TOOL_AGENT_SYSTEM}


def agent_opening(style: PromptStyle, hint: str | None, kind: EnvironmentKind = EnvironmentKind.GAME) -> list[Message]:
    """Return what stands before the first observation."""
    if style is PromptStyle.COMPACT:
        return []
    system = _AGENT_SYSTEMS[kind] + (f"\n\nAdvice for this environment: {hint}" if hint else "")
    return [{"role": "system", "content": system}]


def agent_observation(style: PromptStyle, observation: str, hint: str | None) -> Message:
    """Return one observation as a message; a compact agent sees the hint with, and before, every observation.

    So the observation stands next to the reply in both arms: a small model answers from what is nearest.
    """
    if style is PromptStyle.COMPACT and hint:
        observation = f"Hint: {hint}\n{observation}"
    return {"role": "user", "content": observation}


def extract_action(style: PromptStyle, reply: str, kind: EnvironmentKind = EnvironmentKind.GAME) -> str | None:
    """Return the action in an agent's reply, or None if it holds none.

    In full style this is the content of the last ``\\boxed{}``, braces balanced, or, where tools are called, all that
    follows the thoughts: the environment looks for the call in it, and says what is wrong with it. In compact style it is
    the whole reply without surrounding space.
    """
    if style is PromptStyle.COMPACT:
        return reply.strip()
    if kind is EnvironmentKind.TOOL_USE:
        said = reply.rpartition("</think>")[2].strip()
        return None if not said or "<think>" in said else said
    start = reply.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for end in range(start + len("\\boxed"), len(reply)):
        depth += {"{": 1, "}": -1}.get(reply[end], 0)
        if depth == 0:
            return reply[start + len("\\boxed{") : end].strip()
    return None
