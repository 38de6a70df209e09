"""What differs from one play to the next: time, chance, memory of earlier plays, answers that are given away."""

from __future__ import annotations

from case import HONEST, Case, contained, refused

_MANY = """
import random
class Env:
    def reset(self, seed):
        r = random.Random(seed)
        self.path = [r.choice("nesw") for _ in range(6)]
        self.at = 0
        return "walk: " + "".join(sorted(self.path)) + f" {r.randint(0, 9999)}", {}
    def step(self, action):
        ok = action == self.path[self.at]
        self.at += 1
        done = not ok or self.at == 6
        return f"step {self.at}", float(ok and done), done, False, {}
    def solution(self):
        return self.path
"""
_IMPORTS = "import os, random, time, uuid, secrets, tempfile, pathlib"


def _unsteady(name: str, expression: str, gates: str = "determinism", says: str = "two processes") -> Case:
    """An instance that is drawn from something else than its seed."""
    source = HONEST.replace("import random", _IMPORTS).replace("random.Random(seed)", f"random.Random({expression})")
    return refused(name, source, gates, says)


CASES: tuple[Case, ...] = (
    # --- the same seed, another instance ------------------------------------------------------------------------
    _unsteady("the clock", "time.time_ns()"),
    _unsteady("the clock that only goes on", "time.perf_counter_ns()"),
    _unsteady("the random device", "os.urandom(4)"),
    _unsteady("the generator that nobody seeded", "random.random()"),
    _unsteady("a unique name", "uuid.uuid4().int"),
    _unsteady("a secret", "secrets.randbits(64)"),
    # In a pod every worker is process 1.
    _unsteady("the number of the process", "os.getpid()", "determinism instances", ""),
    _unsteady("the name of a temporary file", "tempfile.mkdtemp()"),
    _unsteady(
        "a file that another process wrote", "os.path.exists('x') or bool(open('x', 'w'))", "determinism instances", ""
    ),
    _unsteady("the address of an object", "[id(object()), id(Env), id({}), os.getuid()].__repr__()"),
    refused("the shared generator", HONEST.replace("random.Random(seed)", "random"), "determinism", "two processes"),
    refused(
        "the shared generator, seeded too late",
        HONEST.replace(
            "self.n = random.Random(seed).randint(10, 99)", "self.n = random.randint(10, 99); random.seed(seed)"
        ),
        "determinism",
        "two processes",
    ),
    refused("one instance", HONEST.replace("Random(seed)", "Random(5)"), "instances", "different instances"),
    refused(
        "two instances", HONEST.replace("random.Random(seed).randint(10, 99)", "10 + seed % 2"), "instances trivial", ""
    ),
    # --- what was played before ---------------------------------------------------------------------------------
    refused(
        "a counter in the class",
        HONEST.replace("class Env:", "class Env:\n    plays = 0").replace(
            "        self.n =", "        Env.plays += 1\n        self.n = Env.plays +"
        ),
        "determinism",
    ),
    refused(
        "a counter in the module",
        HONEST.replace("class Env:", "plays = []\nclass Env:").replace(
            "        self.n =", "        plays.append(1)\n        self.n = len(plays) +"
        ),
        "determinism",
    ),
    refused(
        "a counter in a default argument",
        HONEST.replace("(self, seed)", "(self, seed, plays=[])").replace(
            "        self.n =", "        plays.append(1)\n        self.n = len(plays) +"
        ),
        "determinism",
    ),
    refused(
        "a counter in another module",
        HONEST.replace(
            "        self.n =",
            "        random.plays = getattr(random, 'plays', 0) + 1\n        self.n = random.plays +",
        ),
        "determinism",
    ),
    refused(
        "a counter in a file",
        HONEST.replace(
            "        self.n =", "        open('plays', 'a').write('x')\n        self.n = len(open('plays').read()) +"
        ),
        "determinism",
    ),
    refused(
        "won when it is played for the first time",
        HONEST.replace("class Env:", "class Env:\n    plays = 0")
        .replace("        self.n =", "        Env.plays += 1\n        self.first = Env.plays == 1\n        self.n =")
        .replace("float(action", "float(self.first or action"),
        "determinism",
        "keep nothing in the class",
    ),
    refused(
        "another text when it is played for the first time",
        HONEST.replace("class Env:", "class Env:\n    plays = 0").replace(
            '        return f"one', "        Env.plays += 1\n        return 'psst ' * (Env.plays == 1) + f\"one"
        ),
        "determinism",
    ),
    refused(
        "lost after some plays",
        HONEST.replace("class Env:", "class Env:\n    plays = 0")
        .replace("        self.n =", "        Env.plays += 1\n        self.n =")
        .replace("float(action", "float(Env.plays < 7 and action"),
        "solution replay determinism",
    ),
    refused(
        "broken after some calls",
        HONEST.replace("class Env:", "calls = []\nclass Env:").replace(
            '        return "", float',
            '        calls.append(1)\n        if len(calls) > 9: raise OSError("worn out")\n        return "", float',
        ),
        "solution replay trivial step",
    ),
    refused(
        "slower every time",
        HONEST.replace("class Env:", "calls = []\nclass Env:").replace(
            '        return "", float',
            '        calls.append(1)\n        if len(calls) > 6:\n            while True: pass\n        return "", float',
        ),
        "step solution replay trivial bounds",
    ),
    contained(
        "counters in everything that could be shared",
        """
        import builtins
        class Holder: pass
        counts = []
        for where in (sys, json, random, builtins, sys.modules['__main__'], type(self), random.Random):
            where.leftover = getattr(where, 'leftover', 0) + 1
            counts.append(where.leftover)
        random.Random.random = lambda self: 0.5
        json.loads = None
        sys.path.insert(0, '.')
        sys.meta_path.insert(0, Holder())
        os.environ['LEFT'] = os.environ.get('LEFT', '') + 'x'
        counts.append(len(os.environ['LEFT']))
        found = [each for each in counts if each != 1]
        """,
        episodes=3,
    ),
    # --- the same actions, another result -----------------------------------------------------------------------
    refused(
        "a step that throws dice",
        _MANY.replace('f"step {self.at}"', 'f"step {random.random()}"'),
        "replay determinism",
        "step must depend on the seed",
    ),
    refused(
        "a reward that throws dice",
        _MANY.replace("float(ok and done)", "float(ok and done) if done else random.random() / 9"),
        "replay determinism",
    ),
    refused(
        "half of the wins are taken away",
        HONEST.replace("float(action", "float(random.random() < 0.5 and action"),
        "solution replay",
    ),
    refused(
        "a step that looks at the clock",
        _MANY.replace('f"step {self.at}"', 'f"step {time.time_ns()}"'),
        "replay determinism",
    ),
    refused(
        "a chance in the truncation",
        _MANY.replace("done, False, {}", "done, random.random() < 0.9, {}"),
        "solution replay determinism",
    ),
    refused(
        "an info that throws dice",
        _MANY.replace("done, False, {}", "done, False, {'x': random.random()}"),
        "replay determinism",
    ),
    # --- won without work ---------------------------------------------------------------------------------------
    refused("always won", HONEST.replace("float(action == str(self.n + 1))", "1.0"), "trivial", "wins"),
    refused(
        "won by anything that is not empty",
        HONEST.replace("action == str(self.n + 1)", "len(action) > 0"),
        "trivial",
        "wins",
    ),
    refused(
        "won by doing nothing",
        HONEST.replace("action == str(self.n + 1)", "not action").replace("str(self.n + 1)", "''"),
        "trivial",
        "wins",
    ),
    refused(
        "one answer for everything",
        HONEST.replace("action == str(self.n + 1)", "action == 'yes'").replace("str(self.n + 1)", "'yes'"),
        "trivial",
        "'yes'",
    ),
    refused("won by going on", _MANY.replace("ok = action == self.path[self.at]", "ok = True"), "trivial", "wins"),
    refused(
        "won by one action again and again",
        _MANY.replace("ok = action == self.path[self.at]", "ok = action == 'n'").replace(
            "return self.path", "return ['n'] * 6"
        ),
        "trivial",
        "'n'",
    ),
    refused(
        "won by repeating what is shown",
        HONEST.replace("one more than {self.n}", "{self.n + 1}"),
        "leak",
        "first observation holds the answer",
    ),
    refused(
        "the answer behind a label",
        HONEST.replace("one more than {self.n}", "the secret is {self.n + 1} today"),
        "leak",
        "'is'",
    ),
    refused(
        "the whole path is shown",
        _MANY.replace('"".join(sorted(self.path))', '" ".join(self.path)'),
        "leak",
        "whole solution",
    ),
    refused(
        "success before the first action",
        HONEST.replace('{self.n}", {}', '{self.n}", {"success": True}'),
        "early_success",
        "success",
    ),
    refused(
        "won before the first action", HONEST.replace('{self.n}", {}', '{self.n}", {"won": 1}'), "early_success", "won"
    ),
)
