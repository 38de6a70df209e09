"""The gates on whole sources, run by workers."""

from __future__ import annotations

import pytest

from spade_rl.sandbox.admission import Report, admit
from spade_rl.sandbox.gates import GATES, Verdict
from spade_rl.sandbox.pool import Pool

pytestmark = pytest.mark.asyncio(loop_scope="module")


COMPACT = """
import random
class Env:
    def reset(self, seed):
        r = random.Random(seed)
        k = 5
        x = r.randint(1, 40)
        self.o = [f"up {x + i} / {x + k}" for i in range(k + 1)]
        self.a = [str(x + i + 1) for i in range(k)] + ["end"]
        self.t = 0
        return self.o[0], {}
    def step(self, action):
        ok = action == self.a[self.t]
        self.t += 1
        end = not ok or self.t == len(self.a)
        return "end" if end else self.o[self.t], float(ok and end), end, False, {}
    def solution(self):
        return self.a
"""

# The style of large models: Gymnasium's signature, documentation, numpy values, names without imports.
WORDY = '''
class SumOfTwoEnv:
    """Add two numbers."""

    def __init__(self, low: int = 10, high: int = 99) -> None:
        self.low, self.high = low, high
        self.history: List[Dict[str, Any]] = []

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict] = None) -> Tuple[str, dict]:
        rng = np.random.default_rng(seed)
        self.a, self.b = rng.integers(self.low, self.high, size=2)
        self.history.clear()
        return f"What is {self.a} + {self.b}? Answer in \\\\boxed{{}}.", {"size": np.int64(2), "rows": np.arange(3)}

    def step(self, action: str):
        match = re.fullmatch(r"-?\\d+", action.strip())
        correct = bool(match) and int(match.group()) == self.a + self.b
        self.history.append({"action": action})
        return ("Correct!" if correct else "Wrong."), np.float32(correct), np.bool_(True), False, {}

    def solution(self) -> List[str]:
        return [str(self.a + self.b)]
'''
NOISY = COMPACT.replace("import random\n", "import random\nprint('loading')\n").replace(
    "        ok = ", "        print('x' * 100000)\n        ok = "
)
SURROGATES = COMPACT.replace('f"up', 'f"bad \\udc97 up')
HELPERS = COMPACT.replace("class Env:", "class Base:") + "\nclass Mine(Base):\n    pass\n"
DATACLASS = COMPACT.replace(
    "class Env:", "from __future__ import annotations\n@dataclass\nclass Point:\n    x: int = 0\n\nclass Env:"
).replace("import random\nfrom __future__ import annotations", "from __future__ import annotations\nimport random")
ADMITTED = {
    "compact": COMPACT,
    "wordy": WORDY,
    "noisy": NOISY,
    "surrogates": SURROGATES,
    "helpers": HELPERS,
    "dataclass": "from __future__ import annotations\n" + DATACLASS.replace("from __future__ import annotations\n", ""),
}


def failed(report: Report) -> tuple[str, str]:
    assert report.failure is not None, "it was admitted"
    return report.failure.gate, report.failure.message


@pytest.mark.parametrize("name", ADMITTED)
async def test_good_environments_are_admitted(pool: Pool, name: str) -> None:
    report = await admit(pool, ADMITTED[name], seed=3)
    assert report.admitted, report.failure
    assert [verdict.gate for verdict in report.verdicts] == list(GATES)
    assert report.isolation is pool.isolation
    assert report.solution
    assert report.observation


BROKEN = {
    "top level": (COMPACT.replace("import random\n", "import random\n1 / 0\n"), "compile", "line 3"),
    "constructor": (COMPACT.replace("class Env:", "class Env:\n    def __init__(self, size): pass"), "reset", "size"),
    "no info": (COMPACT.replace("return self.o[0], {}", "return self.o[0], None"), "reset", "dict"),
    "no text": (COMPACT.replace("return self.o[0], {}", "return 7, {}"), "reset", "text"),
    "fragile": (COMPACT.replace("ok = action", "int(action)\n        ok = action"), "step", "any text"),
    "clock": (
        COMPACT.replace("import random", "import random, time").replace("Random(seed)", "Random(time.time_ns())"),
        "determinism",
        "two processes",
    ),
    "global random": (COMPACT.replace("r = random.Random(seed)", "r = random"), "determinism", "two processes"),
    "one instance": (COMPACT.replace("Random(seed)", "Random(5)"), "instances", "1 different"),
    "no solution": (COMPACT[: COMPACT.index("    def solution")], "solution", "no solution"),
    "empty solution": (COMPACT.replace("return self.a\n", "return []\n"), "solution", "empty"),
    "wrong solution": (COMPACT.replace("return self.a\n", "return self.a[::-1]\n"), "solution", "do not win"),
    "short solution": (COMPACT.replace("return self.a\n", "return self.a[:2]\n"), "solution", "not over"),
    "long solution": (COMPACT.replace("return self.a\n", "return self.a * 100\n"), "solution", "at most"),
    "raising solution": (COMPACT.replace("return self.a\n", "return self.b\n"), "solution", "'b'"),
    "moody": (
        COMPACT.replace("self.o[self.t], float", "self.o[self.t] + str(random.random()), float"),
        "replay",
        "two processes",
    ),
    "always won": (COMPACT.replace("float(ok and end), end", "1.0, True"), "trivial", "wins 6 of 6"),
    "constant answer": (COMPACT.replace('[str(x + i + 1) for i in range(k)] + ["end"]', '["end"]'), "trivial", "'end'"),
    "high reward": (
        COMPACT.replace("float(ok and end), end", "3.0 if ok and end else 0.0, end"),
        "rewards",
        "between -1 and 1",
    ),
    "low reward": (
        COMPACT.replace("float(ok and end), end", "float(ok and end) or -5.0, end"),
        "rewards",
        "between -1 and 1",
    ),
    "labelled answer": (
        COMPACT.replace("self.o = ", "self.o = [f'secret {x}']\n        self.a = [str(x)]\n        self.u = ").replace(
            "        self.a = [str(x + i + 1)", "        self.b = [str(x + i + 1)"
        ),
        "leak",
        "secret",
    ),
    "spelled out": (
        COMPACT.replace("return self.o[0], {}", "return self.o[0] + ': ' + ', '.join(self.a), {}"),
        "leak",
        "whole solution",
    ),
    "won at once": (
        COMPACT.replace("return self.o[0], {}", "return self.o[0], {'solved': True}"),
        "early_success",
        "solved",
    ),
    "slow": (
        COMPACT.replace("return self.a\n", "\n        time.sleep(0.8 * (len(self.a[0]) > 1))\n        return self.a\n"),
        "bounds",
        "solution() took",
    ),
    "endless reset": (COMPACT.replace("k = 5", "k = 5\n        while True: pass"), "reset", "endless loop"),
    "endless solution": (
        COMPACT.replace("return self.a\n", "\n        while True: pass\n"),
        "solution",
        "endless loop",
    ),
    "endless late": (
        COMPACT.replace("self.t += 1", "self.t += 1\n        while self.t == 4: pass"),
        "step",
        "endless loop",
    ),
    "quits": (
        COMPACT.replace("return self.a\n", "\n        import os\n        os._exit(0)\n"),
        "solution",
        "ended its process",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_each_gate_refuses_what_it_is_for(weak: Pool, name: str) -> None:
    source, gate, says = BROKEN[name]
    report = await admit(weak, source, seed=5)
    found, message = failed(report)
    assert (found, says in message) == (gate, True), (found, message)
    after = [verdict.verdict for verdict in report.verdicts][GATES.index(gate) + 1 :]
    assert set(after) <= {Verdict.SKIPPED}
    assert report.solution == ()


async def test_a_duplicate_is_refused_whatever_its_names(weak: Pool) -> None:
    first = await admit(weak, COMPACT, seed=1)
    renamed = COMPACT.replace("Env", "Other").replace("self.t", "self.turn") + "\n# a remark\n"
    second = await admit(weak, renamed, seed=1, known=[first.normalised_digest])
    assert failed(second)[0] == "duplicate"
    assert second.digest != first.digest
    wordier = COMPACT.replace("self.t = 0", "self.t = 0\n        self.unused = []")
    third = await admit(weak, wordier, seed=1, known=[first.normalised_digest])
    assert failed(third)[0] == "duplicate"
    assert "% the same" in failed(third)[1]
    harder = await admit(weak, COMPACT.replace("k = 5", "k = 6"), seed=1, known=[first.normalised_digest])
    assert harder.admitted


async def test_equal_seeds_bring_equal_reports(weak: Pool) -> None:
    first, second = [await admit(weak, COMPACT, seed=11) for _ in range(2)]
    assert (first.verdicts, first.solution, first.observation) == (second.verdicts, second.solution, second.observation)
    other = await admit(weak, COMPACT, seed=12)
    assert other.observation != first.observation
