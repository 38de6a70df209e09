"""Two families that the designer is never shown: what is learned elsewhere must carry over.

``most`` asks for the largest number's word; ``sink`` counts down.
"""

from __future__ import annotations

from spade_rl.nano.families.base import Family
from spade_rl.nano.families.count import counting_slip
from spade_rl.nano.families.order import ranked_slip

MOST = Family(
    "most",
    "transfer",
    (
        "Say the word that stands after the largest number. At # 0 say end.",
        "Compare the numbers and take the highest one's word. End when # is 0.",
    ),
    """\
        self.o, self.a = [], []
        for i in range(k + 1):
            v = r.sample(range(10), len(w))
            self.o.append(f'big # {k - i} ' + ' '.join(f'{y} {x}' for x, y in zip(w, v)))
            self.a.append(w[v.index(max(v))] if i < k else 'end')
""",
    ranked_slip,
)

SINK = Family(
    "sink",
    "transfer",
    (
        "Say the word and the number below. When both numbers agree say end.",
        "Take off one each time and repeat the word. End only at the floor.",
    ),
    """\
        r.shuffle(w)
        n = len(w)
        x = r.randint(0, 9)
        self.o = [f'dn {w[i % n]} {x + k - i} / {x}' for i in range(k + 1)]
        self.a = [f'{w[i % n]} {x + k - i - 1}' for i in range(k)] + ['end']
""",
    counting_slip,
)
