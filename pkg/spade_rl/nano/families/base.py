"""What a family of environments is, and the frame that all their programs share.

A family is a kind of environment whose difficulty is the number ``k`` in its source. Its programs hold a run
of words of a grounding document; every instance is made of these words. ``write`` composes a program; ``Slip``
says where the teacher of the supervised data errs. Nothing here is used when a policy plays or designs: the
families only make training data and the held-out set.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_LEVEL = 64
STYLES = 6
CLASS_NAMES = ("Env", "Task", "Game")

_HEAD = """\
import random
class {name}:
    def reset(self, seed):
        r = random.Random(seed)
        k = {level}
        w = " {words}".split()
"""

# Two ways to say the same: compare first and fold everything into one return, or leave early.
_TAILS = (
    """\
        self.t = 0
        return self.o[0], {}
    def step(self, action):
        ok = action == self.a[self.t]
        self.t += 1
        end = not ok or self.t == len(self.a)
        return 'end' if end else self.o[self.t], float(ok and end), end, False, {}
    def solution(self):
        return self.a
""",
    """\
        self.t = 0
        return self.o[0], {}
    def step(self, action):
        if action != self.a[self.t]:
            return 'bad', 0.0, True, False, {}
        self.t += 1
        if self.t == len(self.a):
            return 'won', 1.0, True, False, {}
        return self.o[self.t], 0.0, False, False, {}
    def solution(self):
        return self.a
""",
)


@dataclass(frozen=True, slots=True)
class Slip:
    """Where a teacher errs at one observation: with probability ``rate``, by one of the actions ``wrong``."""

    rate: float
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of environment.

    ``skill`` is what the designer is asked for; ``runs`` are the lengths of the runs of words that its programs
    hold; ``hints`` explain the procedure; ``body`` fills ``self.o`` (observations) and ``self.a`` (the right
    actions) from ``r``, ``k`` and ``w``; ``slip`` is the teacher's weakness, given an observation and the right
    action; ``tail`` replaces the common ``step`` where a family needs its own;
    ``answer`` names the best action at an observation where a wrong one does not end the episode.
    """

    name: str
    skill: str
    hints: tuple[str, ...]
    body: str
    slip: Callable[[str, str, random.Random], Slip]
    runs: tuple[int, ...] = (3, 4, 4, 5)
    tail: str = ""
    answer: Callable[[str], str] | None = None


def write(family: Family, words: Sequence[str], level: int, style: int) -> str:
    """Return the source of an environment of ``family`` whose instances are made of ``words``."""
    if not words or not 1 <= level <= MAX_LEVEL:
        raise ValueError(
            f"a {family.name} environment needs words and a level in 1..{MAX_LEVEL}, got {len(words)} and {level}"
        )
    head = _HEAD.format(name=CLASS_NAMES[style % 3], level=level, words=" ".join(words))
    return head + family.body + (family.tail or _TAILS[style // 3 % 2])


def level_of(source: str) -> int | None:
    """Return the level that a source states, or None."""
    found = re.search(r"^        k = (\d{1,4})$", source, re.MULTILINE)
    return int(found[1]) if found else None


def counter(observation: str) -> int:
    """Return the number after ``#`` in an observation."""
    return int(observation.split("# ", 1)[1].split(" ", 1)[0])


def local_slip(depth: int, choices: Sequence[str], answer: str, *, trap: float | None = None) -> Slip:
    """Return the common weakness: errors grow with ``depth``, and at a trap their rate is ``trap``."""
    rate = trap if trap is not None else min(0.4, 0.025 + 0.011 * depth)
    return Slip(rate, tuple(choice for choice in dict.fromkeys(choices) if choice != answer))
