"""What can be said of a source without running it: does it parse, what does it import, which class is the environment.

Foreign text is parsed with care: its size, nesting and encoding are bounded before anything walks the tree, and
nothing here recurses over it. A ``StaticRefusal`` names the gate that refuses and says how to mend the source.
"""

from __future__ import annotations

import ast
import re
import symtable
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spade_rl.kinds import EnvironmentKind
from spade_rl.sandbox.normalise import normalised_digest
from spade_rl.seeds import source_digest

MAX_SOURCE_BYTES = 262_144
MAX_DEPTH = 200
MAX_NODES = 200_000

# What an environment may import: computing and text, nothing that reaches for other machines or processes.
_ALLOWED = """
    __future__ abc array ast base64 binascii bisect calendar cmath collections colorsys contextlib copy csv
    dataclasses datetime decimal difflib enum fnmatch fractions functools graphlib hashlib heapq hmac html io
    itertools json keyword logging math numbers numpy operator os pathlib pprint queue random re secrets shlex
    sqlite3 statistics string struct sys tempfile textwrap time tokenize traceback types typing unicodedata
    uuid warnings weakref xml zlib zoneinfo
"""
ALLOWED_MODULES = frozenset(_ALLOWED.split())
# All of this package that the sandbox holds: the base class of tool-use environments.
OWN_MODULE = "spade_rl.environment"
TOOL_BASE = "ToolEnvironment"
# Names that published environments use without importing them.
_MODULE_NAMES = """
    bisect collections copy dataclasses datetime decimal enum fractions functools hashlib heapq itertools json math
    numpy operator random re statistics string textwrap time typing
"""
_ATTRIBUTE_NAMES = {
    "abc": "ABC abstractmethod",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "dataclasses": "asdict dataclass field",
    "decimal": "Decimal",
    "enum": "Enum IntEnum auto",
    "fractions": "Fraction",
    "functools": "lru_cache partial reduce",
    "itertools": "accumulate chain combinations permutations product",
    "typing": """
        Any Callable ClassVar DefaultDict Deque Dict Final FrozenSet Generator Iterable Iterator List Literal Mapping
        NamedTuple Optional Sequence Set Tuple Type TypedDict TypeVar Union
    """,
}
INJECTABLE = {
    **{name: name for name in _MODULE_NAMES.split()},
    **{name: f"{module}:{name}" for module, names in _ATTRIBUTE_NAMES.items() for name in names.split()},
    "np": "numpy",
}
METHODS = ("reset", "step")
# What a class that extends TOOL_BASE defines instead.
TOOL_METHOD = "build"
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class StaticRefusal(Exception):
    """A source that needs no running to be refused."""

    def __init__(self, gate: str, message: str) -> None:
        super().__init__(message)
        self.gate = gate
        self.message = message


@dataclass(frozen=True, slots=True)
class Program:
    """A source that passed the static gates."""

    source: str
    digest: str
    normalised_digest: str
    class_name: str
    # Allowed modules that it imports anywhere; they are loaded once, before workers are forked.
    modules: tuple[str, ...]
    # Names that it uses without importing them, and what they stand for ("module" or "module:attribute").
    injected: tuple[tuple[str, str], ...]
    kind: EnvironmentKind = EnvironmentKind.GAME


def analyse(source: str) -> Program:
    """Return the program that ``source`` is, or raise StaticRefusal (gates parse, imports, compile, class)."""
    tree = _parse(source)
    modules = _imports(tree)
    _compile(source)
    class_name, kind = _environment_class(tree)
    return Program(
        source=source,
        digest=source_digest(source),
        normalised_digest=normalised_digest(tree),
        class_name=class_name,
        kind=kind,
        modules=modules,
        injected=tuple(sorted(_injected(source).items())),
    )


def require_kind(program: Program, kind: EnvironmentKind) -> None:
    """Raise StaticRefusal if a program is of another kind than was asked for."""
    if program.kind is kind:
        return
    if kind is EnvironmentKind.TOOL_USE:
        message = f"{program.class_name} is no tool-use environment; extend {TOOL_BASE} from {OWN_MODULE}"
    else:
        message = f"{program.class_name} is a tool-use environment, but a game was asked for; do not extend {TOOL_BASE}"
    raise StaticRefusal("class", message)


def _parse(source: str) -> ast.Module:
    try:
        encoded = source.encode()
    except UnicodeEncodeError as error:
        raise StaticRefusal("parse", f"character {error.start} cannot be encoded as UTF-8; write plain text") from None
    if len(encoded) > MAX_SOURCE_BYTES:
        raise StaticRefusal("parse", f"the source has {len(encoded)} bytes; at most {MAX_SOURCE_BYTES} are allowed")
    if not source.strip():
        raise StaticRefusal("parse", "the source is empty; write one Python class")
    if "\0" in source:
        raise StaticRefusal("parse", "the source holds a null byte; write plain text")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        line = (error.text or "").strip()[:120]
        raise StaticRefusal(
            "parse", f"line {error.lineno}: {error.msg}{': ' + line if line else ''}; write valid Python 3.11"
        ) from None
    except (RecursionError, MemoryError):
        raise StaticRefusal("parse", f"expressions are nested too deeply; at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise StaticRefusal("parse", f"{error}; write valid Python 3.11") from None
    _check_size(tree)
    return tree


def _check_size(tree: ast.Module) -> None:
    level: list[ast.AST] = [tree]
    depth = nodes = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_DEPTH:
            raise StaticRefusal("parse", f"the code is nested too deeply; at most {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise StaticRefusal("parse", f"the code is too large; at most {MAX_NODES} syntax nodes")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise StaticRefusal(
                    "imports", f"line {node.lineno}: relative imports do not work; the source is one file"
                )
            yield node.module or "", node.lineno


def _imports(tree: ast.Module) -> tuple[str, ...]:
    names = []
    for name, line in _imported(tree):
        top = name.partition(".")[0]
        if top not in ALLOWED_MODULES and name != OWN_MODULE:
            there = "is not allowed in an environment" if top in sys.stdlib_module_names else "is not there"
            raise StaticRefusal(
                "imports",
                f"line {line}: the module {name[:80]!r} {there}; use the standard library's computing modules "
                f"(such as random, math, re, json, itertools, collections), numpy or {OWN_MODULE}",
            )
        if re.fullmatch(r"[\w.]+", name):
            names.append(name)
    return tuple(dict.fromkeys(names))


def _compile(source: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<environment>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise StaticRefusal("compile", f"line {error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise StaticRefusal("compile", f"the source cannot be compiled: {type(error).__name__}: {error}") from None


def _classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _dotted(node: ast.expr) -> str:
    """Return a name such as ``a.b`` as text; "" for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _bases(node: ast.ClassDef) -> list[str]:
    return [name for base in node.bases if (name := _dotted(base))]


def _tool_bases(tree: ast.Module) -> set[str]:
    """Return the names by which a source knows TOOL_BASE."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == OWN_MODULE:
            wanted = [alias for alias in node.names if alias.name in (TOOL_BASE, "*")]
            names |= {alias.asname or TOOL_BASE for alias in wanted}
        elif isinstance(node, ast.Import):
            own = [alias.asname or alias.name for alias in node.names if alias.name == OWN_MODULE]
            names |= {f"{name}.{TOOL_BASE}" for name in own}
    return names


def _extends(node: ast.ClassDef, wanted: set[str], classes: dict[str, ast.ClassDef]) -> bool:
    """Whether one of the names in ``wanted`` is among the bases of a class, or of its bases within the source."""
    seen: set[str] = set()
    waiting = [node.name]
    while waiting:
        name = waiting.pop()
        if name in wanted:
            return True
        if name in classes and name not in seen:
            seen.add(name)
            waiting += _bases(classes[name])
    return False


def _method(name: str, node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ast.AST | None:
    """Return the definition of a method in a class or in its bases within the source."""
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop(0)
        if current.name in seen:
            continue
        seen.add(current.name)
        for statement in current.body:
            if isinstance(statement, _FUNCTION) and statement.name == name:
                return statement
        waiting += [classes[base] for base in _bases(current) if base in classes]
    return None


def _environment_class(tree: ast.Module) -> tuple[str, EnvironmentKind]:
    classes = _classes(tree)
    tool_bases = _tool_bases(tree)
    by_tools = {node.name for node in classes.values() if _extends(node, tool_bases, classes)}
    complete = [
        node
        for node in classes.values()
        if all(_method(name, node, classes) for name in ((TOOL_METHOD,) if node.name in by_tools else METHODS))
    ]
    bases = {base for node in complete for base in _bases(node)}
    candidates = [node for node in complete if node.name not in bases]
    if not candidates:
        raise StaticRefusal("class", _no_class(list(classes.values()), by_tools))
    if len(candidates) > 1:
        names = ", ".join(node.name for node in candidates[:5])
        raise StaticRefusal("class", f"{names} are all environment classes; keep exactly one")
    node = candidates[0]
    if node.name in by_tools:
        return node.name, EnvironmentKind.TOOL_USE
    _check_methods(node, classes)
    return node.name, EnvironmentKind.GAME


def _no_class(classes: list[ast.ClassDef], by_tools: set[str]) -> str:
    """Say why none of the classes is an environment."""
    for node in classes:
        if node.name in by_tools:
            return (
                f"line {node.lineno}: {node.name} has no method {TOOL_METHOD}(self, rng); it must make the state and return "
                "the list of instructions"
            )
        if TOOL_BASE in _bases(node):
            return f"line {node.lineno}: {TOOL_BASE} is not imported; write: from {OWN_MODULE} import {TOOL_BASE}"
    what = "no class" if not classes else f"no class among {', '.join(node.name for node in classes[:5])}"
    return (
        f"{what} has the methods reset(self, seed) and step(self, action); write one class that has both, "
        "and solution(self)"
    )


def _check_methods(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> None:
    for name in (*METHODS, "solution"):
        method = _method(name, node, classes)
        if isinstance(method, ast.AsyncFunctionDef):
            raise StaticRefusal("class", f"line {method.lineno}: {node.name}.{name} is async; write a plain function")
    reset, step = (_method(name, node, classes) for name in METHODS)
    assert isinstance(reset, ast.FunctionDef)
    assert isinstance(step, ast.FunctionDef)
    if not _takes(reset.args, positional=2) and "seed" not in _names(reset.args):
        raise StaticRefusal("class", f"line {reset.lineno}: {node.name}.reset must take a seed: reset(self, seed)")
    if not _takes(step.args, positional=2):
        raise StaticRefusal("class", f"line {step.lineno}: {node.name}.step must take an action: step(self, action)")


def _names(arguments: ast.arguments) -> Iterable[str]:
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _takes(arguments: ast.arguments, *, positional: int) -> bool:
    return len(arguments.posonlyargs) + len(arguments.args) >= positional or arguments.vararg is not None


def _injected(source: str) -> dict[str, str]:
    """Return the injectable names that some scope of a compilable source takes from outside, and nothing makes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = symtable.symtable(source, "<environment>", "exec")
    made = {each.get_name() for each in module.get_symbols() if each.is_assigned() or each.is_imported()}
    used: set[str] = set()
    waiting = [module]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        used |= {
            each.get_name()
            for each in scope.get_symbols()
            if each.is_referenced() and (each.is_global() or scope is module)
        }
    return {name: target for name, target in INJECTABLE.items() if name in used and name not in made}
