"""What a worker answers, checked field by field.

A worker runs foreign code, so its answers are claims in an unknown shape. Everything that leaves this module has the
type that it says, text that can be encoded, and sizes within the limits. A wrong shape raises ProtocolViolation.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from spade_rl.sandbox.frames import ProtocolViolation
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Limits, Origin

# What a worker may say of the code that it runs. The other kinds are for the host to find.
CLAIMABLE = frozenset(
    {
        FaultKind.IMPORT,
        FaultKind.EXCEPTION,
        FaultKind.CONTRACT,
        FaultKind.OBSERVATION,
        FaultKind.INFO,
        FaultKind.BOUNDS,
        FaultKind.MEMORY,
        FaultKind.PROCESSES,
        FaultKind.FILES,
        FaultKind.DISK,
    }
)


@dataclass(frozen=True, slots=True)
class Reset:
    """The first observation of an episode; ``info_json`` is an object as JSON."""

    observation: str
    info_json: str


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one action. ``reward`` may be any float: whether it is allowed is for the caller to say."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info_json: str

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated

    @property
    def won(self) -> bool:
        """Whether the episode ended with the full reward."""
        return self.terminated and self.reward >= 1.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The environment's fault in one operation, as the worker reports it."""

    kind: FaultKind
    message: str

    def as_error(self) -> EpisodeError:
        """Return it as what ends an episode."""
        return EpisodeError(Origin.ENVIRONMENT, self.kind, self.message)


def encodable(text: str) -> str:
    """Return text that UTF-8 can encode: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def reward_problem(reward: float) -> str:
    """Say what is wrong with a reward; "" if nothing is."""
    if not math.isfinite(reward):
        return f"the reward is {reward}: it must be a finite number"
    if not -1.0 <= reward <= 1.0:
        return f"the reward is {reward:g}: it must lie between -1 and 1"
    return ""


def refusal(message: dict[str, Any]) -> Refusal | None:
    """Return the fault in an answer, if it is one."""
    if "fault" not in message:
        return None
    kind, text = message["fault"], message.get("message")
    if not isinstance(kind, str) or kind not in CLAIMABLE or not isinstance(text, str) or len(text) > 4000:
        raise ProtocolViolation("an answer holds a fault of an unknown form")
    return Refusal(FaultKind(kind), encodable(text))


def _text(value: Any, limit: int, kind: FaultKind) -> str:
    if not isinstance(value, str):
        raise ProtocolViolation(f"an answer holds {type(value).__name__} where text belongs")
    text = encodable(value)
    if len(text) > limit or (not text.isascii() and len(text.encode()) > limit):
        raise EpisodeError(Origin.ENVIRONMENT, kind, f"the {kind} is longer than {limit} bytes")
    return text


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _info(value: Any, limits: Limits) -> str:
    text = _text(value, limits.info_bytes, FaultKind.INFO)
    if text == "{}":
        return text
    try:
        is_object = isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise ProtocolViolation("an info is not an object in JSON")
    return text


def parse_reset(message: dict[str, Any], limits: Limits) -> Reset:
    """Return the answer to a reset."""
    return Reset(
        _text(message.get("observation"), limits.observation_bytes, FaultKind.OBSERVATION),
        _info(message.get("info"), limits),
    )


def parse_steps(message: dict[str, Any], limits: Limits, *, most: int) -> tuple[Step, ...]:
    """Return the answer to at most ``most`` actions, or a part of it."""
    results = message.get("results")
    if not isinstance(results, list) or len(results) > most:
        raise ProtocolViolation("an answer to a step holds no list of results, or too many")
    return tuple(_step(result, limits) for result in results)


def _step(result: Any, limits: Limits) -> Step:
    if not isinstance(result, list) or len(result) != 5:
        raise ProtocolViolation("the result of a step does not have five parts")
    observation, reward, terminated, truncated, info = result
    if not isinstance(reward, float) or not isinstance(terminated, bool) or not isinstance(truncated, bool):
        raise ProtocolViolation("the result of a step has parts of the wrong type")
    return Step(
        _text(observation, limits.observation_bytes, FaultKind.OBSERVATION),
        reward,
        terminated,
        truncated,
        _info(info, limits),
    )


def parse_solution(message: dict[str, Any], limits: Limits) -> tuple[str, ...]:
    """Return the actions of an oracle."""
    actions = message.get("actions")
    if not isinstance(actions, list) or len(actions) > limits.solution_steps:
        raise ProtocolViolation("an answer holds no list of actions, or too many")
    return tuple(_text(action, limits.observation_bytes, FaultKind.BOUNDS) for action in actions)
