"""Skill "follow": do what the observation says, step by step.

``chase`` follows pointers between words of the document; ``todo`` works off jobs that are shown one at a time and
announces the last one.
"""

from __future__ import annotations

import random

from spade_rl.nano.families.base import Family, Slip, counter, local_slip


def _chase_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    """Err by another word of the map, or by stopping early or late."""
    words = [word for word in observation.split("@")[0].split()[3:] if word != ">"]
    left = counter(observation)
    return local_slip(left, [*words, "end"], answer, trap=0.5 if left == 0 else None)


def _todo_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    _, index, _, count, word = observation.split(" ", 4)
    last, near = answer.startswith("end"), int(index) == int(count) - 1
    return local_slip(
        int(count) - int(index), ["do " + word, "end " + word], answer, trap=0.5 if last else 0.25 if near else None
    )


CHASE = Family(
    "chase",
    "follow",
    (
        "Find the word after @ and follow its arrow. At # 0 say end.",
        "Go where the arrow of the word after @ points. End when # is 0.",
    ),
    """\
        r.shuffle(w)
        n = len(w)
        m = ' '.join(sorted(w[i - 1] + ' > ' + w[i] for i in range(n)))
        self.o = [f'map # {k - i} {m} @ {w[i % n]}' for i in range(k + 1)]
        self.a = [w[(i + 1) % n] for i in range(k)] + ['end']
""",
    _chase_slip,
)

TODO = Family(
    "todo",
    "follow",
    (
        "Do the word that is named. Say end only when both numbers agree.",
        "Repeat the word after do, and after end for the final job.",
    ),
    """\
        q = [r.choice(w) for i in range(k)]
        self.o = [f'job {i + 1} / {k} {q[i]}' for i in range(k)]
        self.a = ['do ' + x for x in q[:-1]] + ['end ' + q[-1]]
""",
    _todo_slip,
    runs=(4, 5, 6),
)
