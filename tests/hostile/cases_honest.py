"""Odd, and good: what must be admitted, whatever it looks like."""

from __future__ import annotations

from case import HONEST, Case, honest

_DOCUMENTED = '''
"""The answer is hidden. A documented environment whose text says answer, solution and secret more than once."""
class SecretAnswerEnv:
    """Find the answer; the solution is one more."""
    ANSWER = "answer"

    def reset(self, seed: int) -> tuple[str, dict]:
        """Hide the answer."""
        self.answer = random.Random(seed).randint(10, 99)
        return f"The answer is one more than {self.answer - 1}. What is the answer?", {"answer_type": self.ANSWER}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Compare with the answer."""
        return "the answer was " + str(self.answer), float(action == str(self.answer)), True, False, {}

    def solution(self) -> list[str]:
        """Say the answer."""
        return [str(self.answer)]
'''
_NUMPY = """
import numpy as np
from typing import Any
class GridEnv:
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        rng = np.random.default_rng(seed)
        self.grid = rng.integers(0, 50, size=(3, 3))
        return f"Sum of\\n{self.grid}", {"shape": self.grid.shape, "max": self.grid.max(), "grid": self.grid}
    def step(self, action):
        ok = action.strip() == str(self.grid.sum())
        return np.str_("done"), np.float32(ok), np.bool_(True), np.bool_(False), {"ok": np.bool_(ok)}
    def solution(self):
        return [np.int64(self.grid.sum())]
"""
_DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass, field
@dataclass
class State:
    n: int = 0
    seen: list[str] = field(default_factory=list)
@dataclass
class Env:
    state: State = field(default_factory=State)
    def reset(self, seed: int):
        self.state = State(random.Random(seed).randint(10, 99))
        return f"one more than {self.state.n}", vars(self.state)
    def step(self, action):
        self.state.seen.append(action)
        return "", action == str(self.state.n + 1), True, False, {"seen": self.state.seen}
    def solution(self):
        return str(self.state.n + 1)
"""
_BASES = """
import abc, random
class Base(abc.ABC):
    def reset(self, seed):
        self.rng = random.Random(seed)
        self.make()
        return self.text(), {}
    def step(self, action):
        return "", 1.0 if action == self.answer else 0.0, True, False, {}
    def solution(self):
        return [self.answer]
    @abc.abstractmethod
    def make(self): ...
    @abc.abstractmethod
    def text(self): ...
class Mixin:
    def text(self):
        return f"reverse {self.word}"
class Env(Mixin, Base):
    WORDS = ("lamp", "stone", "river", "cloud", "bread", "chair")
    def make(self):
        self.word = self.rng.choice(self.WORDS) + self.rng.choice(self.WORDS)
        self.answer = self.word[::-1]
"""
_TABLES = """
import random, itertools, math, re, json, string, heapq, bisect, functools, operator, statistics, fractions, decimal
from collections import deque, defaultdict, Counter, OrderedDict, namedtuple
from enum import Enum
PRIMES = [p for p in range(2, 1000) if all(p % q for q in range(2, math.isqrt(p) + 1))]
TABLE = {letter: number for number, letter in enumerate(string.ascii_lowercase)}
Point = namedtuple("Point", "x y")
class Colour(Enum):
    RED = 1
    BLUE = 2
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
class Env:
    def reset(self, seed):
        r = random.Random(seed)
        self.k = r.choice(PRIMES)
        heap = [r.random() for _ in range(5)]
        heapq.heapify(heap)
        self.edges = list(itertools.combinations(range(4), 2))
        return json.dumps({"prime": self.k, "colour": r.choice(list(Colour)).name}), {"point": Point(1, 2), "queue": deque([1]), "half": fractions.Fraction(1, 2), "d": decimal.Decimal("1.5")}
    def step(self, action):
        ok = re.fullmatch(r"\\d{1,9}", action) is not None and int(action) == fib(20) % self.k + self.k
        return "yes" if ok else "no", int(ok), True, False, Counter("abc")
    def solution(self):
        return (str(fib(20) % self.k + self.k),)
"""
_INJECTED = """
@dataclass
class Item:
    name: str
    tags: List[str] = field(default_factory=list)
class Kind(Enum):
    A = auto()
    B = auto()
class Puzzle(ABC):
    def reset(self, seed: Optional[int] = None) -> Tuple[str, Dict[str, Any]]:
        rng = random.Random(seed)
        self.numbers = [rng.randint(1, 99) for _ in range(4)]
        self.words: DefaultDict[str, int] = defaultdict(int)
        for letter in string.ascii_lowercase:
            self.words[letter] += 1
        queue: Deque[int] = deque(self.numbers)
        heap = list(queue)
        heapq.heapify(heap)
        info = {"counts": Counter(self.numbers), "order": OrderedDict(a=1), "pairs": list(itertools.combinations(heap, 2)),
                "mean": statistics.mean(heap), "root": math.sqrt(4), "copy": copy.deepcopy(heap), "item": Item("x"), "kind": Kind.A}
        return f"Add {self.numbers}", info
    def step(self, action: str) -> Tuple[str, float, bool, bool, Dict[str, Any]]:
        match = re.fullmatch("[0-9]+", action)
        total = functools.reduce(operator.add, self.numbers) + sum(np.zeros(2, dtype=int))
        return json.dumps({"total": int(total)}), float(bool(match) and int(action) == total), True, False, {}
    def solution(self) -> List[str]:
        return [str(reduce(lambda a, b: a + b, chain(self.numbers)))]
"""
_LOCAL_IMPORT = (
    HONEST.replace("import random\n", "")
    .replace("        self.n =", "        import random\n        self.n =")
    .replace('return "", float', "return str(random.Random(self.n).random()) + str(math.pi), float")
)
_UNICODE = '''
import random
class Env:
    """Übersetze: 東京 ☃ \\U0001f600 — «guillemets», combining é, right-to-left שלום."""
    WÖRTER = {"кот": "cat", "собака": "dog", "猫": "neko", "犬": "inu", "😀": "grin", "naïve": "simple"}
    def reset(self, seed):
        r = random.Random(seed)
        self.frage = [r.choice(list(self.WÖRTER)) for _ in range(3)]
        return "übersetze " + " · ".join(self.frage) + "\\x00\\x1b[31m\\u202e", {"ключ": "значение"}
    def step(self, action):
        richtig = action == " ".join(self.WÖRTER[w] for w in self.frage)
        return "✓" if richtig else "✗", float(richtig), True, False, {}
    def solution(self):
        return [" ".join(self.WÖRTER[w] for w in self.frage)]
'''
_LONG_GAME = """
import random
class Env:
    def reset(self, seed):
        r = random.Random(seed)
        self.path = [r.choice(["left", "right", "up", "down"]) for _ in range(60)]
        self.t = 0
        return f"go opposite of {self.path[0]}", {}
    def step(self, action):
        turn = {"left": "right", "right": "left", "up": "down", "down": "up"}
        ok = action == turn[self.path[self.t]]
        self.t += 1
        if not ok: return "wrong", -0.5, True, False, {}
        if self.t == 60: return "home", 1.0, True, False, {}
        return f"go opposite of {self.path[self.t]}", 0.01, False, self.t > 99, {}
    def solution(self):
        turn = {"left": "right", "right": "left", "up": "down", "down": "up"}
        return [turn[p] for p in self.path]
"""
_SHOWS_OPTIONS = """
import random
class Env:
    def reset(self, seed):
        r = random.Random(seed)
        self.words = [r.choice("abcdefgh") + r.choice("aeiou") + r.choice("klmnprst") for _ in range(5)]
        return "which of " + ", ".join(self.words) + " is last in the alphabet?", {"done": False, "success": None}
    def step(self, action):
        return "", float(action == max(self.words)), True, False, {"success": action == max(self.words)}
    def solution(self):
        return [max(self.words)]
"""

CASES: tuple[Case, ...] = (
    honest("the plainest", HONEST),
    honest("a text that speaks of answers", _DOCUMENTED),
    honest("values from numpy", _NUMPY),
    honest("dataclasses", _DATACLASS.lstrip()),
    honest("base classes and a mixin", _BASES),
    honest("tables in the module, half of the library", _TABLES),
    honest("names that were never imported", _INJECTED),
    honest("a name imported in one method only", _LOCAL_IMPORT),
    honest("text from everywhere", _UNICODE),
    honest("sixty moves, penalties and intermediate rewards", _LONG_GAME),
    honest("an observation that shows what to choose from", _SHOWS_OPTIONS),
    honest("a seed by keyword only", HONEST.replace("reset(self, seed)", "reset(self, *, seed)")),
    honest("a seed and options", HONEST.replace("reset(self, seed)", "reset(self, *, seed=None, options=None)")),
    honest("a seed in keywords", HONEST.replace("reset(self, seed)", "reset(self, seed=None, **_)")),
    honest("a seed of another name", HONEST.replace("seed", "s")),
    honest("positional only", HONEST.replace("reset(self, seed)", "reset(self, seed, /)")),
    honest("windows line ends", HONEST.replace("\n", "\r\n")),
    honest("tabs and form feeds", "\f" + HONEST.replace("    ", "\t").replace("\nclass", "\n\f\nclass")),
    honest("a coding cookie", "# -*- coding: latin-1 -*-\n" + HONEST),
    honest("a coding cookie of the wrong size", "# vim: set fileencoding=utf-16 :\n" + HONEST),
    honest("a name of its own", HONEST + "assert __name__ == 'environment'\n"),
    honest("no line end", HONEST.rstrip()),
    honest("a quarter of a megabyte", HONEST + "#" + "x" * 250_000),
    honest("a line without end", HONEST + "TEXT = '" + "x" * 200_000 + "'\n"),
    honest("a table without end", HONEST + "TABLE = [" + ", ".join(str(n) for n in range(30_000)) + "]\n"),
    honest("a huge number", HONEST + "BIG = 0x" + "f" * 100_000 + "\n"),
    honest("numbers beyond floats", HONEST + "A, B, C = 1e400, -1e400, 1e400j\n"),
    honest("strange escapes", HONEST + "S = '\\q\\d\\N{SNOWMAN}\\ud800'\n"),
    honest("a warning", HONEST + "import warnings\nwarnings.warn('old')\nx = 1 is 1\n"),
    honest(
        "noise",
        HONEST.replace("import random", "import random\nprint('loading')").replace(
            "        return", "        print('x' * 100_000)\n        return"
        ),
    ),
    honest(
        "surrogates in the text",
        HONEST.replace("one more", "\\udc97 one more").replace('return "", float', 'return "\\ud83d", float'),
    ),
    honest(
        "recursion within reason",
        HONEST.replace("class Env:", "def depth(n): return n and depth(n - 1)\ndepth(800)\nclass Env:"),
    ),
    honest("slots", HONEST.replace("class Env:", "class Env:\n    __slots__ = ('n',)")),
    honest(
        "a constructor with defaults",
        HONEST.replace("class Env:", "class Env:\n    def __init__(self, low=1, *more, high=9, **rest): self.n = None"),
    ),
    honest("a metaclass", HONEST.replace("class Env:", "class Meta(type): pass\nclass Env(metaclass=Meta):")),
    honest(
        "properties and static methods",
        HONEST.replace(
            "class Env:",
            "class Env:\n    @property\n    def answer(self): return str(self.n + 1)\n    @staticmethod\n    def helper(): return 1\n    @classmethod\n    def make(cls): return cls()",
        ).replace("== str(self.n + 1)", "== self.answer"),
    ),
    honest(
        "generators and comprehensions within",
        HONEST.replace("str(self.n + 1)]", "next(str(x) for x in iter([self.n + 1]))]"),
    ),
    honest("the hash of a text", HONEST.replace("random.Random(seed)", "random.Random(hash(f'seed {seed}'))")),
    honest(
        "the order of a set",
        HONEST.replace("one more than", "{sorted({'a', 'b'})} one more than").replace(
            "random.Random(seed)", "random.Random(str(list({'a', 'b', 'c', 'd', str(seed)})))"
        ),
    ),
    honest(
        "numpy's old generator, seeded",
        HONEST.replace(
            "self.n = random.Random(seed).randint(10, 99)",
            "np.random.seed(seed); self.n = int(np.random.randint(10, 99))",
        ),
    ),
    honest(
        "the shared generator, seeded",
        HONEST.replace(
            "self.n = random.Random(seed).randint(10, 99)", "random.seed(seed); self.n = random.randint(10, 99)"
        ),
    ),
    honest("a solution that is a number", HONEST.replace("return [str(self.n + 1)]", "return self.n + 1")),
    honest("a solution that is a text", HONEST.replace("return [str(self.n + 1)]", "return str(self.n + 1)")),
    honest(
        "a win that is True, an end that is 1",
        HONEST.replace("float(action == str(self.n + 1)), True, False", "action == str(self.n + 1), 1, 0"),
    ),
    honest(
        "a file of its own",
        HONEST.replace(
            "        self.n =",
            "        open('notes', 'w').write(str(seed))\n        self.n = 0 * len(open('notes').read()) +",
        ),
    ),
    honest(
        "a database in memory",
        "import sqlite3\n"
        + HONEST.replace(
            '        return f"one',
            "        self.db = sqlite3.connect(':memory:')\n        self.db.execute('create table t (n int)')\n        self.db.execute('insert into t values (?)', (self.n,))\n        self.n = self.db.execute('select n from t').fetchone()[0]\n"
            + '        return f"one',
        ),
    ),
    honest(
        "an exception that it catches",
        HONEST.replace("action == str(self.n + 1)", "self.right(action)")
        + "    def right(self, action):\n        try:\n            return int(action) == self.n + 1\n        except ValueError:\n            return False\n",
    ),
    honest(
        "an empty info of another class", HONEST.replace('{self.n}", {}', '{self.n}", collections.OrderedDict(a=1)')
    ),
)
