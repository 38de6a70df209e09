"""What every contender runs: one environment like those that a model writes, and one that never answers.

Standard library only: peers import it in an environment of their own.
"""

from __future__ import annotations

from typing import Any

# It ends when told to, so that one instance serves batches of any length; a step costs what a step of a written
# environment costs.
WALK = """
import random
class Env:
    def reset(self, seed):
        r = random.Random(seed)
        self.w = "oak elm fir ash yew box".split()
        r.shuffle(self.w)
        n = len(self.w)
        self.m = ' '.join(sorted(self.w[i - 1] + ' > ' + self.w[i] for i in range(n)))
        self.at, self.left = r.randrange(n), 4
        return self.show(), {}
    def show(self):
        return f'map # {self.left} {self.m} @ {self.w[self.at]}'
    def step(self, action):
        n = len(self.w)
        ok = action == self.w[(self.at + 1) % n]
        if ok:
            self.at = (self.at + 1) % n
            self.left -= 1
        end = action == 'end'
        return 'end' if end else self.show(), float(end and self.left == 0), end, False, {}
    def solution(self):
        n = len(self.w)
        return [self.w[(self.at + 1 + i) % n] for i in range(self.left)] + ['end']
"""
LOOP = """
class Env:
    def reset(self, seed):
        return "say anything", {}
    def step(self, action):
        while True:
            pass
"""
WORDS = ("oak", "elm", "fir", "ash", "yew", "box")


def actions(count: int) -> list[str]:
    """Return ``count`` actions that do not end an episode."""
    return [WORDS[index % len(WORDS)] for index in range(count)]


def instance(source: str) -> Any:
    """Return an instance of a source of this module, run right here: these sources are trusted."""
    scope: dict[str, Any] = {"__name__": "environment"}
    exec(compile(source, "<environment>", "exec"), scope)
    return scope["Env"]()


def first_observation(seed: int) -> str:
    """Return what ``reset`` of ``WALK`` must show: who shows something else did not do the work."""
    observation: str = _ENVIRONMENT.reset(seed)[0]
    return observation


_ENVIRONMENT = instance(WALK)
