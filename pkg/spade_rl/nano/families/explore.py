"""Skill "explore": go where nobody has been, and ask before answering.

``rooms`` shows how often each room was entered, one of them never; ``probe`` hides a number behind a word: it must be asked for
when it is unknown, and said when it is known.
"""

from __future__ import annotations

import random

from spade_rl.nano.families.base import Family, Slip, counter, local_slip


def _rooms_slip(observation: str, answer: str, _rng: random.Random) -> Slip:
    left = counter(observation)
    return local_slip(left, [*observation.split()[4::2], "end"], answer, trap=0.5 if left == 0 else None)


def _probe_slip(observation: str, answer: str, rng: random.Random) -> Slip:
    done = counter(observation)
    word, mark = observation.split()[3:5]
    if mark == "?":
        return local_slip(done, [str(rng.randint(1, 9))], answer, trap=min(0.5, 0.25 + 0.01 * done))
    return local_slip(done, ["ask " + word, str(rng.randint(1, 9))], answer)


ROOMS = Family(
    "rooms",
    "explore",
    (
        "Go to the word that stands after the number 0. At # 0 say end.",
        "Take the room nobody has seen, the one with 0. End when # is 0.",
    ),
    """\
        self.o, self.a = [], []
        for i in range(k + 1):
            x = r.choice(w)
            v = [0 if y == x else r.randint(1, 9) for y in w]
            self.o.append(f'saw # {k - i} ' + ' '.join(f'{n} {y}' for n, y in zip(v, w)))
            self.a.append(x if i < k else 'end')
""",
    _rooms_slip,
    runs=(4, 5, 5),
)

PROBE = Family(
    "probe",
    "explore",
    (
        "If a question mark follows the word, ask for the word. If a number follows, say the number.",
        "Ask first when the number is unknown, else say it.",
    ),
    """\
        self.o, self.a = [], []
        while len(self.a) <= k:
            x, y = r.choice(w), r.randint(1, 9)
            if r.choice(w) >= x:
                self.o.append(f'key # {len(self.a)} {x} ?')
                self.a.append('ask ' + x)
            self.o.append(f'key # {len(self.a)} {x} = {y}')
            self.a.append(str(y))
""",
    _probe_slip,
    runs=(4, 5, 6),
)
