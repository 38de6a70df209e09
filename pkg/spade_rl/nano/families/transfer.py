"""Two families that the designer is never shown: what is learned elsewhere must carry over.

``trace`` follows pointers backwards; ``sink`` counts down.
"""

from __future__ import annotations

from spade_rl.nano.families.base import Family
from spade_rl.nano.families.count import counting_slip
from spade_rl.nano.families.follow import pointer_slip

TRACE = Family(
    "trace",
    "transfer",
    (
        "Find the word whose arrow points to the word after @. At # 0 say end.",
        "Go against the arrow. End when # is 0.",
    ),
    """\
        r.shuffle(w)
        n = len(w)
        m = ' '.join(sorted(w[i] + ' > ' + w[i - 1] for i in range(n)))
        self.o = [f'inv {m} @ {w[i % n]} # {k - i}' for i in range(k + 1)]
        self.a = [w[(i + 1) % n] for i in range(k)] + ['end']
""",
    pointer_slip,
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
