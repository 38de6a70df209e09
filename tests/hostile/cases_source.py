"""Texts that are no programs, or cannot be looked at without care: the service itself parses them."""

from __future__ import annotations

from case import HONEST, Case, refused

_NESTED = "".join(" " * n + "if x:\n" for n in range(1, 99)) + " " * 99 + "pass\n"

CASES: tuple[Case, ...] = (
    refused("only space", " \n\t\n", "parse", "empty"),
    refused("prose", "Here is the environment you asked for:\n", "parse", "line 1"),
    refused("a fence around it", f"```python\n{HONEST}```\n", "parse", "line 1"),
    refused("cut off", HONEST[:-12], "parse", "line"),
    refused("Python 2", "print 'hello'\n", "parse", "line 1"),
    refused("a null byte", HONEST + "x = '\0'\n", "parse", "null byte"),
    refused("a byte order mark", "\ufeff" + HONEST, "parse", "line 1"),
    refused("mixed indentation", HONEST.replace("        self.n", "\tself.n"), "parse", "line"),
    refused("parentheses without end", "x = " + "(" * 50_000, "parse"),
    refused("thousands of parentheses", HONEST + "x = " + "(" * 5000 + "1" + ")" * 5000, "parse", "nested"),
    refused("two hundred brackets", HONEST + "x = " + "[" * 199 + "]" * 199, "parse", "nest"),
    refused("a row of signs", HONEST + "x = " + "-" * 100_000 + "1", "parse", "deep"),
    refused("a row of nots", HONEST + "x = " + "not " * 50_000 + "1", "parse", "deep"),
    refused("a sum without end", HONEST + "x = " + "+".join(["1"] * 50_000), "parse", "deep"),
    refused("powers of powers", HONEST + "x = " + "**".join(["1"] * 50_000), "parse", "deep"),
    refused("attributes of attributes", HONEST + "x = a" + ".a" * 50_000, "parse", "deep"),
    refused("calls of calls", HONEST + "x = f" + "()" * 50_000, "parse", "deep"),
    refused("functions of functions", HONEST + "x = " + "lambda: " * 20_000 + "1", "parse", "deep"),
    refused("conditions in conditions", HONEST + "if x:\n" + _NESTED, "parse compile"),
    refused("a ladder of conditions", HONEST + "if x: pass\n" + "elif x: pass\n" * 5000, "parse", "deep"),
    refused("more statements than anybody reads", HONEST + "x=1;" * 60_000, "parse", "too large"),
    refused("a decimal number of many digits", HONEST + "x = " + "9" * 5000, "parse", "line"),
    refused("a pattern of patterns", HONEST + "match x:\n case " + "[" * 150 + "]" * 150 + ": pass", "parse compile"),
    refused("a return outside of a function", HONEST + "return 1\n", "compile", "line"),
    refused("a break outside of a loop", HONEST + "break\n", "compile", "line"),
    refused("an argument twice", HONEST + "def f(a, a): pass\n", "compile", "duplicate"),
    refused("a future that is unknown", "from __future__ import gravity\n" + HONEST, "compile", "gravity"),
    refused(
        "twenty blocks in each other",
        HONEST + "def f():\n" + "".join(" " * n + "for a in b:\n" for n in range(1, 40)) + " " * 40 + "pass\n",
        "compile",
        "nested",
    ),
    refused("an await outside of a coroutine", HONEST + "x = [await a for a in b]\n", "compile", "line"),
    # --- imports ------------------------------------------------------------------------------------------------
    refused("a module that is not there", "import not_a_module\n" + HONEST, "imports", "not_a_module"),
    refused("a package that is not there", "import pandas as pd\n" + HONEST, "imports", "pandas"),
    *(
        refused(f"the module {name}", f"import {name}\n" + HONEST, "imports", name)
        for name in (
            "socket",
            "subprocess",
            "ctypes",
            "threading",
            "multiprocessing",
            "signal",
            "gc",
            "mmap",
            "asyncio",
            "importlib",
            "inspect",
            "pickle",
            "resource",
            "urllib.request",
            "http.client",
        )
    ),
    refused(
        "an import inside of a method",
        HONEST.replace('return "", float', 'import socket; return "", float'),
        "imports",
        "line",
    ),
    refused(
        "an import from a forbidden module",
        "from os.path import join\nfrom subprocess import run as walk\n" + HONEST,
        "imports",
        "subprocess",
    ),
    refused("a relative import", "from . import secrets\n" + HONEST, "imports", "relative"),
    refused("a forbidden module by another way", "socket = __import__('not_there')\n" + HONEST, "compile", "not_there"),
    # --- classes ------------------------------------------------------------------------------------------------
    refused("no class", "x = 1\n", "class", "no class"),
    refused("a class without step", HONEST.replace("def step", "def walk"), "class", "step"),
    refused("two environments", HONEST + HONEST.replace("class Env", "class Other"), "class", "exactly one"),
    refused(
        "a class inside of a function",
        "def make():\n" + "\n".join("    " + line for line in HONEST.splitlines()),
        "class",
        "no class",
    ),
    refused("a ring of base classes", HONEST + "class A(B): pass\nclass B(A): pass\n", "compile", "line"),
    # --- the top level ------------------------------------------------------------------------------------------
    refused("an error at the top", HONEST + "1 / 0\n", "compile", "ZeroDivisionError"),
    refused("an endless loop at the top", HONEST + "while True: pass\n", "compile", "endless loop"),
    refused("an exit at the top", HONEST + "raise SystemExit\n", "compile", "SystemExit"),
    refused(
        "the end of the process at the top", "import os\n" + HONEST + "os._exit(0)\n", "compile", "ended its process"
    ),
    refused("too much memory at the top", HONEST + "x = bytearray(1 << 36)\n", "compile", "MemoryError"),
    refused("a wait for input", HONEST + "input()\n", "compile", "EOFError"),
)
