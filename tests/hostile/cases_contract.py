"""What an environment returns: shapes, types that lie, sizes, texts in odd encodings."""

from __future__ import annotations

from case import HONEST, Case, breaks, claims, program, refused

_REST = "0.0, False, False, {}"


def _returned(name: str, value: str, ends: str, *, says: str = "") -> Case:
    """A step that returns the five parts in ``value``."""
    return breaks(name, f"return {value}", ends, gate="step" if says else "", says=says)


CASES: tuple[Case, ...] = (
    # --- shapes -------------------------------------------------------------------------------------------------
    Case(
        "four parts",
        HONEST.replace("True, False, {}", "True, {}"),
        frozenset({"step"}),
        "must return (observation, reward, terminated, truncated, info)",
        frozenset({"contract"}),
    ),
    Case(
        "a list of five",
        HONEST.replace('return "", float', 'return ["", float').replace("False, {}", "False, {}]"),
        frozenset({"step"}),
        "not list",
        frozenset({"contract"}),
    ),
    Case(
        "nothing",
        program("").replace("return json.dumps(found)", "return None #"),
        frozenset({"step"}),
        "NoneType",
        frozenset({"contract"}),
    ),
    Case(
        "a generator step",
        HONEST.replace('        return "", float', '        yield "", float'),
        frozenset({"step"}),
        "generator",
        frozenset({"contract"}),
    ),
    Case(
        "a coroutine reset",
        HONEST.replace("def reset", "async def reset"),
        frozenset({"class"}),
        "async",
        frozenset({"program"}),
    ),
    Case(
        "an async step",
        HONEST.replace("def step", "async def step"),
        frozenset({"class"}),
        "async",
        frozenset({"program"}),
    ),
    Case("an async solution", HONEST.replace("def solution", "async def solution"), frozenset({"class"}), "async"),
    Case(
        "an async step behind a decorator",
        HONEST.replace(
            "class Env", "def later(f):\n    async def g(*a): return f(*a)\n    return g\nclass Env"
        ).replace("    def step", "    @later\n    def step"),
        frozenset({"step"}),
        "coroutine",
        frozenset({"contract"}),
    ),
    refused("a bare observation", HONEST.replace('", {}\n', '"\n'), "reset", "must return (observation, info)"),
    refused(
        "a reset without a seed",
        HONEST.replace("reset(self, seed)", "reset(self)").replace("(seed)", "(1)"),
        "class",
        "seed",
    ),
    refused("a step without an action", HONEST.replace("step(self, action)", "step(self)"), "class", "action"),
    refused(
        "a constructor that wants arguments",
        HONEST.replace("class Env:", "class Env:\n    def __init__(self, size): pass"),
        "reset",
        "size",
    ),
    refused(
        "a metaclass that makes no instances",
        HONEST.replace(
            "class Env:", "class Meta(type):\n    def __call__(cls): return None\nclass Env(metaclass=Meta):"
        ),
        "reset",
        "NoneType",
    ),
    refused(
        "a metaclass that loops",
        HONEST.replace(
            "class Env:",
            "class Meta(type):\n    def __call__(cls):\n        while True: pass\nclass Env(metaclass=Meta):",
        ),
        "reset",
        "endless loop",
    ),
    refused("a class that is replaced", HONEST + "\nEnv = 5\n", "compile", "is not a class"),
    refused("a class that is deleted", HONEST + "\ndel Env\n", "compile", "is not a class"),
    refused(
        "attributes that raise",
        HONEST.replace("class Env:", "class Env:\n    def __getattribute__(self, name): raise KeyError(name)"),
        "reset",
        "KeyError",
    ),
    refused(
        "a tuple that lies about its length",
        HONEST.replace("class Env:", "class T(tuple):\n    def __len__(self): return 2\nclass Env:").replace(
            'return f"one more than {self.n}", {}', "return T()"
        ),
        "reset",
    ),
    # --- observations -------------------------------------------------------------------------------------------
    _returned("an observation of bytes", f"b'x', {_REST}", "contract", says="must be text, not bytes"),
    _returned("an observation that is a number", f"7, {_REST}", "contract", says="not int"),
    _returned("an observation that is nothing", f"None, {_REST}", "contract", says="NoneType"),
    _returned("a long observation", f"'x' * 200_000, {_REST}", "observation", says="at most"),
    _returned("an observation that is long in bytes", f"'é' * 40_000, {_REST}", "observation", says="longer than"),
    _returned("an observation of wide characters", f"'\\U0001f600' * 60_000, {_REST}", "observation"),
    breaks(
        "a text that lies about its length",
        """
        class Text(str):
            def __len__(self): return 1
            def __str__(self): return 'short'
            def encode(self, *_): return b''
        return Text('x' * 1_000_000), 0.0, False, False, {}
        """,
        "observation",
        gate="step",
    ),
    breaks(
        "an object that says it is a text",
        """
        class Liar:
            __class__ = str
            def __len__(self): return 1
        return Liar(), 0.0, False, False, {}
        """,
        "exception contract",
        gate="step",
    ),
    breaks(
        "a tuple that says it is five",
        """
        class T(tuple):
            def __len__(self): return 5
        return T([1])
        """,
        "exception contract",
    ),
    # --- rewards and flags --------------------------------------------------------------------------------------
    _returned("a reward that is no number", "'x', float('nan'), True, False, {}", "reward", says="finite"),
    _returned("an infinite reward", "'x', float('-inf'), True, False, {}", "reward", says="finite"),
    _returned("a reward of many digits", "'x', 10 ** 400, True, False, {}", "reward", says="finite"),
    Case(
        "a high reward",
        HONEST.replace("float(action", "1.5 * (action"),
        frozenset({"rewards", "solution"}),
        "between -1 and 1",
    ),
    breaks("a reward above one", "return 'x', 1.5, True, False, {}", "reward", gate="trivial rewards step"),
    breaks("a penalty below minus one", "return 'x', -1.01, True, False, {}", "reward"),
    _returned("a reward of text", "'x', '1.0', True, False, {}", "contract", says="must be a number, not str"),
    _returned("a reward that is complex", "'x', 1j, True, False, {}", "contract", says="complex"),
    _returned("no reward", "'x', None, True, False, {}", "contract", says="NoneType"),
    _returned("an end that is nothing", "'x', 1.0, None, False, {}", "contract", says="True or False"),
    _returned("an end of text", "'x', 1.0, 'no', False, {}", "contract", says="True or False"),
    claims("an end that is a number", "return 'x', 0.0, 2, 0, {}"),
    breaks(
        "an end that cannot decide",
        """
        class Torn(int):
            def __bool__(self): raise ValueError('neither')
        return 'x', 0.0, Torn(), False, {}
        """,
        "exception",
    ),
    breaks(
        "a reward that says it is a number",
        """
        class Liar:
            __class__ = float
        return 'x', Liar(), False, False, {}
        """,
        "exception contract",
    ),
    breaks(
        "a reward that says it is from numpy",
        """
        class Liar:
            def item(self): return self
        return 'x', Liar(), False, False, {}
        """,
        "contract",
    ),
    breaks(
        "a float that is another one when asked",
        """
        class Two(float):
            def __float__(self): return 1e300
            def __le__(self, other): return True
            def __ge__(self, other): return True
        return 'x', Two(0.5), True, False, {}
        """,
        "reward",
    ),
    # --- info ---------------------------------------------------------------------------------------------------
    _returned("an info that is a list", "'x', 0.0, False, False, []", "contract", says="must be a dict, not list"),
    _returned("an info that is nothing", "'x', 0.0, False, False, None", "contract", says="dict"),
    _returned("a deep info", "'x', 0.0, False, False, {'deep': eval('[' * 60 + ']' * 60)}", "info", says="deep"),
    _returned("a wide info", "'x', 0.0, False, False, {str(n): n for n in range(20_000)}", "info", says="too large"),
    _returned("a long info", "'x', 0.0, False, False, {'x': 'y' * 100_000}", "info", says="bytes"),
    breaks(
        "an info that holds itself",
        "info = {}\ninfo['self'] = info\nreturn 'x', 0.0, False, False, info",
        "info",
        gate="step",
        says="deep",
    ),
    breaks(
        "an info whose keys are many objects",
        "return 'x', 0.0, False, False, {object(): 1, (1, 2): 2, None: 3, 1.5: [object] * 20_000}",
        "info",
    ),
    claims(
        "an info with what JSON does not know",
        "return 'x', 0.0, False, False, {'a': float('nan'), 'b': 1 << 90, 'c': {1, 2}, 'd': b'x', 'e': object(), '\\udc97': 1}",
    ),
    claims(
        "an info whose numbers lie",
        """
        class F(float):
            def __sub__(self, other): return 0.0
        class I(int):
            def __le__(self, other): return True
            __lt__ = __ge__ = __gt__ = __le__
            def __int__(self): return 1 << 100_000
        return 'x', 0.0, False, False, {'f': F('nan'), 'i': I(5)}
        """,
    ),
    breaks(
        "an info whose text is made with an error",
        """
        class Mute:
            def __repr__(self): raise ValueError('mute')
        return 'x', 0.0, False, False, {'a': Mute()}
        """,
        "exception",
    ),
    # --- solutions ----------------------------------------------------------------------------------------------
    refused("no solution", HONEST[: HONEST.index("    def solution")], "solution", "no solution"),
    refused("an empty solution", HONEST.replace("return [str(self.n + 1)]", "return []"), "solution", "empty"),
    refused(
        "a solution that is nothing",
        HONEST.replace("return [str(self.n + 1)]", "return None"),
        "solution",
        "list of actions",
    ),
    refused(
        "a solution without end",
        HONEST.replace("return [str(self.n + 1)]", "return [str(self.n + 1)] * 100_000"),
        "solution",
        "at most",
    ),
    refused(
        "a solution of lists",
        HONEST.replace("return [str(self.n + 1)]", "return [[self.n + 1]]"),
        "solution",
        "must be text",
    ),
    refused(
        "a solution that loses",
        HONEST.replace("return [str(self.n + 1)]", "return [str(self.n)]"),
        "solution",
        "do not win",
    ),
    refused("a solution that is truncated", HONEST.replace("True, False", "False, True"), "solution", "truncated"),
    refused("a solution that is not the end", HONEST.replace("True, False", "False, False"), "solution", "not over"),
    refused(
        "a solution that loops",
        HONEST.replace("return [str(self.n + 1)]", "\n        while True: pass"),
        "solution",
        "endless loop",
    ),
    refused(
        "a solution that gives up",
        HONEST.replace("return [str(self.n + 1)]", "raise NotImplementedError"),
        "solution",
        "NotImplementedError",
    ),
    refused(
        "a solution that is played only once",
        HONEST.replace("return [str(self.n + 1)]", "\n        self.n += 1\n        return [str(self.n)]"),
        "solution",
        "do not win",
    ),
    # --- actions ------------------------------------------------------------------------------------------------
    refused(
        "an action that must be a number",
        HONEST.replace("action == str(self.n + 1)", "int(action) == self.n + 1"),
        "step",
        "any text",
    ),
    refused(
        "an action that must be JSON",
        program("").replace("found = None", "found = json.loads(action)"),
        "step",
        "any text",
    ),
    refused(
        "an action that must be ASCII",
        HONEST.replace("action == str", "action.encode('ascii').decode() == str"),
        "step",
        "any text",
    ),
    refused(
        "a wrong action that is an error",
        HONEST.replace(
            '        return "", float',
            '        if action and action not in "0123456789?": assert int(action) == self.n + 1\n        return "", float',
        ),
        "step trivial",
        "any text",
    ),
)
