"""Skill "order": the order in which the document names its words, and the order of numbers.

``after`` asks which word follows in the text; ``least`` asks for the word with the smallest number.
"""

from __future__ import annotations

import random

from spade_rl.nano.families.base import Family, Slip, counter, local_slip


def _after_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    left = counter(observation)
    row, at = observation.split(" @ ")
    words = row.split()[3:]
    near = [words[max(0, words.index(at) - 1)], at, words[-1]]
    return local_slip(left, [*near, "end"], answer, trap=0.5 if left == 0 else None)


def ranked_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    """Err by a word whose number is not the wanted one, or by stopping early or late."""
    left = counter(observation)
    return local_slip(left, [*observation.split()[4::2], "end"], answer, trap=0.5 if left == 0 else None)


AFTER = Family(
    "after",
    "order",
    (
        "Find the word after @ in the row and say the word that follows it. At # 0 say end.",
        "Say the next word of the row. End when # is 0.",
    ),
    """\
        m = ' '.join(w)
        q = [r.randrange(len(w) - 1) for i in range(k + 1)]
        self.o = [f'row # {k - i} {m} @ {w[q[i]]}' for i in range(k + 1)]
        self.a = [w[x + 1] for x in q[:-1]] + ['end']
""",
    _after_slip,
    runs=(5, 5, 6),
)

LEAST = Family(
    "least",
    "order",
    (
        "Say the word that stands after the smallest number. At # 0 say end.",
        "Compare the numbers and take the lowest one's word. End when # is 0.",
    ),
    """\
        self.o, self.a = [], []
        for i in range(k + 1):
            v = r.sample(range(10), len(w))
            self.o.append(f'few # {k - i} ' + ' '.join(f'{y} {x}' for x, y in zip(w, v)))
            self.a.append(w[v.index(min(v))] if i < k else 'end')
""",
    ranked_slip,
)
