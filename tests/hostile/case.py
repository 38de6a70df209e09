"""What a case of this suite is, and short ways to write one down.

A case is a program and what must come of it: the verdict of admission, what an episode ends with, or both. Cases know
nothing of how the sandbox works inside except where an attack has to; they reach it over gRPC alone.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

ADMITTED = "admitted"
# An episode may go on with whatever the program claims, within bounds, or break by the environment's fault.
CLAIM = "claim"
# An episode must go on.
PLAYS = "plays"


@dataclass(frozen=True, slots=True)
class Case:
    """One program. What is empty is not tried, and not asked for."""

    name: str
    source: str
    # Gates that may refuse it, or ADMITTED.
    gates: frozenset[str] = frozenset()
    # Stands in the message of that gate.
    says: str = ""
    # Kinds of fault that an episode may end with, all of the environment's origin; or CLAIM; or PLAYS.
    ends: frozenset[str] = frozenset()
    # The observation of the last step of every episode.
    finds: str | None = None
    # What is played: messages of actions, and how many episodes one after the other.
    batches: tuple[tuple[str, ...], ...] = (("go",),)
    episodes: int = 1
    # Another episode of the same source is open while this one is played, and must then find the same.
    watched: bool = False
    # Contained by gVisor only: not tried at a weaker level.
    strong: bool = False
    # True of the file system that a service makes for itself; not of an image's, which shows workers the runner's files.
    own: bool = False

    @property
    def plays(self) -> bool:
        """Whether an episode is tried."""
        return bool(self.ends) or self.finds is not None


HONEST = """
import random
class Env:
    def reset(self, seed):
        self.n = random.Random(seed).randint(10, 99)
        return f"one more than {self.n}", {}
    def step(self, action):
        return "", float(action == str(self.n + 1)), True, False, {}
    def solution(self):
        return [str(self.n + 1)]
"""

_ATTACK = """
import json, os, random, sys, time
def attack(self, action):
    found = None
{body}
    return found
class Env:
    def reset(self, seed):
        self.n = random.Random(seed).randint(10, 99)
        return f"one more than {{self.n}}", {{}}
    def step(self, action):
        found = attack(self, action)
        if isinstance(found, tuple):
            return found
        return json.dumps(found), float(action == str(self.n + 1)), action == str(self.n + 1), False, {{}}
    def solution(self):
        return [str(self.n + 1)]
"""


_IMPORT = re.compile(r"\bimport (\w+)")


def program(body: str) -> str:
    """Return an honest program that runs ``body`` in every step; the body may set ``found``, or return a whole step.

    What a source may not import is there all the same: ``import x`` in a body becomes a call that no gate can see.
    """
    body = _IMPORT.sub(r"\1 = __import__('\1')", textwrap.dedent(body).strip("\n"))
    return _ATTACK.format(body=textwrap.indent(body, "    "))


def breaks(name: str, body: str, ends: str, *, gate: str = "", says: str = "", strong: bool = False) -> Case:
    """A step that must end its episode in one of the kinds of fault in ``ends``."""
    gates = frozenset(gate.split())
    return Case(name, program(body), gates, says, frozenset(ends.split()), strong=strong)


def contained(
    name: str, body: str, finds: str = "[]", *, batches: tuple[tuple[str, ...], ...] = (("go",),), episodes: int = 1
) -> Case:
    """A step that tries what must not work, and says what did; ``finds`` as JSON."""
    return Case(name, program(body), finds=finds, batches=batches, episodes=episodes, strong=True)


def claims(name: str, body: str, *, gate: str = "", strong: bool = False) -> Case:
    """A step that falsifies results: what comes of it is bounded, whatever it is. Admission may have a say."""
    batches = (("go",), ("on",), ("on", "and", "on"))
    return Case(name, program(body), frozenset(gate.split()), ends=frozenset({CLAIM}), batches=batches, strong=strong)


def refused(name: str, source: str, gate: str, says: str = "") -> Case:
    """A program that must not be admitted."""
    return Case(name, source, frozenset(gate.split()), says)


def honest(name: str, source: str) -> Case:
    """An odd but good program: it is admitted."""
    return Case(name, source, frozenset({ADMITTED}))
