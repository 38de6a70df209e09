"""Skill "search": find what is hidden.

``bisect`` narrows a range with few tries (a strategy, not a rule: the middle is best, other guesses may win, too);
``gap`` names the word of the document that is missing from a mixed list.
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


def _gap_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    left = counter(observation)
    got = observation.split("|")[0].split()[3:]
    return local_slip(left, got, answer, trap=0.5 if left == 0 else None)


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
        self.t = self.n.bit_length()
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

GAP = Family(
    "gap",
    "search",
    (
        "Name the word after the bar that is not in the first list. If none is new say end.",
        "Look for each word after the bar in the first list; say the one that is not there. End when all are there.",
    ),
    """\
        m = ' '.join(w)
        self.o, self.a = [], []
        for i in range(k):
            v = r.sample(w, len(w))
            self.o.append(f'got # {k - i} ' + ' '.join(v[1:]) + f' | {m}')
            self.a.append(v[0])
        self.o.append('got # 0 ' + ' '.join(r.sample(w, len(w))) + f' | {m}')
        self.a.append('end')
""",
    _gap_slip,
)
