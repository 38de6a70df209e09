from __future__ import annotations

import ast
import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_rl.sandbox.normalise import normalised_digest
from spade_rl.sandbox.program import ALLOWED_MODULES, INJECTABLE, MAX_SOURCE_BYTES, StaticRefusal, analyse

GOOD = """
import random
class Env:
    def reset(self, seed):
        self.answer = random.Random(seed).randint(1, 9)
        return f"guess {self.answer - 1} plus one", {}
    def step(self, action):
        return "", float(action == str(self.answer)), True, False, {}
    def solution(self):
        return [str(self.answer)]
"""


def refused(source: str) -> StaticRefusal:
    with pytest.raises(StaticRefusal) as caught:
        analyse(source)
    assert caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("source", "gate", "says"),
    [
        ("", "parse", "empty"),
        ("class Env", "parse", "line 1"),
        ("x = '\0'", "parse", "null byte"),
        ("x = '\ud800'", "parse", "UTF-8"),
        ("#" * (MAX_SOURCE_BYTES + 1), "parse", "at most"),
        ("x = " + "(" * 50_000, "parse", ""),
        ("x = " + "-" * 100_000 + "1", "parse", ""),
        ("x = " + "+".join(["1"] * 50_000), "parse", ""),
        ("x = a" + ".a" * 50_000, "parse", ""),
        (
            "x = " + "[" * 90 + "]" * 90 + "\n" + "if x:\n" + "".join(" " * n + "if x:\n" for n in range(1, 99)),
            "parse",
            "",
        ),
        ("x = " + "f(" * 199 + ")" * 199, "parse", ""),
        ("x = 1\n" + "lambda: " * 20_000 + "1", "parse", ""),
        ("import not_a_module\nclass Env: pass", "imports", "not_a_module"),
        ("def f():\n    import subprocess", "imports", "line 2"),
        ("from socket import socket", "imports", "not allowed"),
        ("import os.path, ctypes", "imports", "ctypes"),
        ("from . import secrets", "imports", "relative"),
        ("from .x import y", "imports", "relative"),
        ("return 1", "compile", "line 1"),
        ("def f(a, a): pass", "compile", "duplicate"),
        ("x = 1", "class", "no class"),
        ("class Env:\n    def reset(self, seed): pass", "class", "Env"),
        (GOOD + GOOD.replace("class Env", "class Other"), "class", "exactly one"),
        (GOOD.replace("def step", "async def step"), "class", "async"),
        (GOOD.replace("def reset(self, seed)", "def reset(self)"), "class", "seed"),
        (GOOD.replace("def step(self, action)", "def step(self)"), "class", "action"),
    ],
)
def test_refusals_name_the_gate_and_say_why(source: str, gate: str, says: str) -> None:
    refusal = refused(source)
    assert refusal.gate == gate
    assert says in refusal.message


def test_a_program_says_what_it_needs() -> None:
    program = analyse(GOOD)
    assert program.class_name == "Env"
    assert program.modules == ("random",)
    assert program.injected == ()


def test_names_that_are_used_without_an_import_are_injected() -> None:
    program = analyse(GOOD.replace("import random\n", "").replace("guess", "guess List"))
    assert dict(program.injected) == {"random": "random"}
    used = analyse(GOOD + "\nx: List[int] = [int(np.int64(1))]\n")
    assert dict(used.injected) == {"np": "numpy", "List": "typing:List"}


def test_only_what_comes_from_outside_is_injected() -> None:
    source = (
        GOOD.replace("import random\n", "")
        + """
    def mine(self, product, field):
        import random, math
        string = [copy for copy in (product, field)]
        return string, random
    def theirs(self):
        return math.pi, re.compile("x")
try:
    import json
except ImportError:
    json = None
"""
    )
    # ``random`` is imported in one method only, and another one needs it as well.
    assert set(dict(analyse(source).injected)) == {"random", "math", "re"}


def test_all_that_is_injected_is_there() -> None:
    for name, target in INJECTABLE.items():
        module, _, attribute = target.partition(":")
        assert module in ALLOWED_MODULES
        assert getattr(importlib.import_module(module), attribute or "__name__"), name


def test_a_helper_base_class_is_not_a_second_environment() -> None:
    source = GOOD.replace("class Env:", "class Base:") + "\nclass Mine(Base):\n    pass\n"
    assert analyse(source).class_name == "Mine"


@pytest.mark.parametrize(
    "signature",
    ["reset(self, *, seed=None, options=None)", "reset(self, seed=None)", "reset(self, *args)", "reset(self, s)"],
)
def test_the_ways_to_take_a_seed(signature: str) -> None:
    analyse(GOOD.replace("reset(self, seed)", signature))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=300))
def test_no_text_does_more_than_be_refused(source: str) -> None:
    refused(source)


identifiers = st.from_regex(r"[a-z][a-z_]{0,8}_q", fullmatch=True)


def digest(source: str) -> str:
    return normalised_digest(ast.parse(source))


@settings(max_examples=50, deadline=None)
@given(identifiers, identifiers, st.text(alphabet="abc #", max_size=20))
def test_names_comments_documentation_and_layout_do_not_count(name: str, attribute: str, remark: str) -> None:
    other = (
        GOOD.replace("Env", "E" + name)
        .replace("answer", attribute)
        .replace("return [", f"# {remark}\n        return   [")
        .replace("def step(self, action):", f"def step(self, action):\n        '{remark}'")
    )
    assert digest(other) == digest(GOOD)


@settings(max_examples=50, deadline=None)
@given(st.integers(10, 10**6))
def test_constants_count(number: int) -> None:
    assert digest(GOOD.replace("9", str(number))) != digest(GOOD)


def test_different_uses_of_names_count() -> None:
    one = "def f(a, b):\n    return a - b\n"
    assert digest(one) == digest(one.replace("a", "x"))
    assert digest(one) != digest(one.replace("a - b", "b - a"))
    assert digest("import math\nmath.sin(1)") != digest("import math\nmath.cos(1)")
