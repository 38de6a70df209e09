"""Skill "order": the order in which the document names its words.

``first`` asks which of two words comes earlier; ``mend`` compares the row with a copy in which two words
have changed places and asks for the word that belongs at the first wrong place.
"""

from __future__ import annotations

import random

from spade_rl.nano.families.base import Family, Slip, counter, local_slip


def _first_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    left = counter(observation)
    if left == 0:
        return local_slip(0, observation.split("#")[0].split()[1:], answer, trap=0.5)
    asked = observation.split("?")[1].split("#")[0].split()
    return local_slip(left, [*asked, asked[-1], "end"], answer)


def _mend_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    row, now = (part.split() for part in observation[4:].split("#")[0].split("|"))
    left = counter(observation)
    return local_slip(
        left,
        [word for word, other in zip(row, now, strict=True) if word != other] or row,
        answer,
        trap=0.5 if left == 0 else None,
    )


FIRST = Family(
    "first",
    "order",
    (
        "Of the words after ? name the one that stands earlier in the row. At # 0 say end.",
        "Look in the row which of the two comes first. End when # is 0.",
    ),
    """\
        m = ' '.join(w)
        self.o, self.a = [], []
        for i in range(k):
            x, y = r.sample(range(len(w)), 2)
            self.o.append(f'row {m} ? {w[x]} {w[y]} # {k - i}')
            self.a.append(w[min(x, y)])
        self.o.append(f'row {m} # 0')
        self.a.append('end')
""",
    _first_slip,
    runs=(4, 5, 5, 6),
)

MEND = Family(
    "mend",
    "order",
    (
        "Compare both rows word by word and name the first word that should stand there. If equal say end.",
        "Name the word of the left row at the first place that differs. End when nothing differs.",
    ),
    """\
        m = ' '.join(w)
        self.o, self.a = [], []
        for i in range(k):
            v = w[:]
            x, y = sorted(r.sample(range(len(w)), 2))
            v[x], v[y] = v[y], v[x]
            self.o.append(f'fix {m} | ' + ' '.join(v) + f' # {k - i}')
            self.a.append(w[x])
        self.o.append(f'fix {m} | {m} # 0')
        self.a.append('end')
""",
    _mend_slip,
    runs=(4, 4, 5),
)
