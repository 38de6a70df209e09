"""Skill "count": keep a number right over many steps.

``climb`` counts up to a top; ``pack`` takes what is still needed, in the document's order.
"""

from __future__ import annotations

import random
import re

from spade_rl.nano.families.base import Family, Slip, local_slip


def counting_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    """Err by repeating, skipping, or turning back, by a tens digit, or by stopping early or late."""
    _, word, now, _, top = observation.split()
    here, left = int(now), abs(int(top) - int(now))
    wrong = [f"{word} {max(0, here + step)}" for step in (-2, -1, 0, 1, 2)]
    carry = here % 10 in (0, 9)
    return local_slip(left, [*wrong, "end"], answer, trap=0.5 if left == 0 else 0.3 if carry else None)


def _pack_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    needs = {word: int(number) for number, word in re.findall(r"(\d+) (\S+)", observation[4:])}
    left = sum(needs.values())
    return local_slip(left, [*needs, "end"], answer, trap=0.5 if left == 0 else None)


CLIMB = Family(
    "climb",
    "count",
    (
        "Say the word and the next number. When both numbers agree say end.",
        "Add one each time and repeat the word. End only at the top.",
    ),
    """\
        r.shuffle(w)
        n = len(w)
        x = r.randint(1, 9)
        self.o = [f'up {w[i % n]} {x + i} / {x + k}' for i in range(k + 1)]
        self.a = [f'{w[i % n]} {x + i + 1}' for i in range(k)] + ['end']
""",
    counting_slip,
)

PACK = Family(
    "pack",
    "count",
    (
        "Take the first word whose number is not 0. When all are 0 say end.",
        "Skip the words that have 0 and name the next one. End when nothing is needed.",
    ),
    """\
        r.shuffle(w)
        c = [0] * len(w)
        for i in range(k):
            c[r.randrange(len(w))] += 1
        self.o, self.a = [], []
        for i in range(len(w)):
            while c[i]:
                self.o.append('get ' + ' '.join(f'{y} {x}' for x, y in zip(w, c)))
                self.a.append(w[i])
                c[i] -= 1
        self.o.append('get ' + ' '.join('0 ' + x for x in w))
        self.a.append('end')
""",
    _pack_slip,
)
