"""Skill "search": find what is hidden.

``bisect`` narrows a range with few tries (a strategy, not a rule: the middle is best, other guesses may win, too);
``find`` looks up the word that a number stands for.
"""

from __future__ import annotations

import random

from spade_rl.nano.families.base import Family, Slip, counter, local_slip


def _bisect_slip(observation: str, _answer: str, rng: random.Random) -> Slip:
    *_, low, _, high = observation.split()
    start, stop = int(low), int(high)
    edge = rng.choice([start, stop, rng.randint(start, stop), rng.randint(start, stop)])
    return Slip(0.85, (str(edge),))


def _middle(observation: str) -> str:
    *_, low, _, high = observation.split()
    return str((int(low) + int(high)) // 2)


def _find_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    left = counter(observation)
    words = observation.split("@")[0].split()[4::2]
    return local_slip(left, [*words, "end"], answer, trap=0.5 if left == 0 else None)


BISECT = Family(
    "bisect",
    "search",
    (
        "Say the number in the middle between both bounds.",
        "Halve the range each time: guess its middle.",
    ),
    """\
        self.w = r.choice(w)
        self.n = 8 * k
        self.x = r.randint(1, self.n)
        self.b = 1, self.n
        self.t = self.n.bit_length() + 1
        return self.see(), {}
    def see(self):
        return f'hit # {self.t} {self.w} {self.b[0]} - {self.b[1]}'
""",
    _bisect_slip,
    answer=_middle,
    tail="""\
    def step(self, action):
        g = int(action) if action.isdecimal() else 0
        x, y = self.b
        self.b = (max(x, g + 1), y) if g < self.x else (x, min(y, g - 1))
        self.t -= 1
        ok = g == self.x
        return self.see(), float(ok), ok or not self.t, False, {}
    def solution(self):
        x, y, s = 1, self.n, [0]
        while s[-1] != self.x:
            s.append((x + y) // 2)
            x, y = (s[-1] + 1, y) if s[-1] < self.x else (x, s[-1] - 1)
        return [str(g) for g in s[1:]]
""",
)

FIND = Family(
    "find",
    "search",
    (
        "Find the number after @ in the list and say the word that stands after it. At # 0 say end.",
        "Look up the last number and name its word. End when # is 0.",
    ),
    """\
        self.o, self.a = [], []
        for i in range(k + 1):
            v = r.sample(range(10), len(w))
            x = r.randrange(len(w))
            self.o.append(f'at # {k - i} ' + ' '.join(f'{y} {z}' for y, z in zip(v, w)) + f' @ {v[x]}')
            self.a.append(w[x] if i < k else 'end')
""",
    _find_slip,
)
