"""The digest of a source without names, comments, documentation and layout, and how near two of them are.

A normalised digest has 64 hexadecimal characters in three parts:

- 32: the program up to names and layout. Two equal ones are the same program.
- 8: its constants. Another document, another difficulty or another text is another environment, so nothing counts as
  near unless all constants that tell something are the same.
- 24: a sketch of its structure, whatever it calls things and whatever its constants are: one-bit minwise hashing
  (Li and König, arXiv 0908.0797) in one permutation (Li, Owen and Zhang, NIPS 2012). A bit is the same in two sketches
  with probability (1 + J) / 2, where J is the Jaccard similarity of their sets of shingles.

So digests alone say whether a new source is an old one with lines added, dropped or turned round. Trees are walked
without recursion.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Collection, Iterator

# Names with a meaning of their own.
_CONTRACT = frozenset({"reset", "step", "solution", "self", "seed", "action"})
_EXACT, _CONSTANTS = 32, 8
_BITS = 96
# Syntax nodes and foreign names in one shingle.
_SHINGLE = 5
# Structures at least this similar (J) count as the same, if their constants are the same.
NEAR_SIMILARITY = 0.85
# Constants that every program is full of.
_PLAIN_CONSTANTS = frozenset({"0", "1", "0.0", "1.0", "True", "False", "None", "''", "Ellipsis"})


def normalised_digest(tree: ast.Module) -> str:
    """Return the digest of a parsed source, in hexadecimal."""
    own = _own_names(tree)
    return _exact(tree, own)[:_EXACT] + _constants(tree)[:_CONSTANTS] + _sketch(tree, own)


def similarity(one: str, other: str) -> float:
    """Estimate how similar the structures of two programs are, from their digests: a Jaccard index from 0 to 1."""
    start = _EXACT + _CONSTANTS
    differing = (int(one[start:], 16) ^ int(other[start:], 16)).bit_count()
    return max(0.0, 1.0 - 2.0 * differing / _BITS)


def nearest(digest: str, known: Collection[str]) -> tuple[str, float] | None:
    """Return the known digest that is near to ``digest``, and their similarity, if there is one."""
    constants = digest[_EXACT : _EXACT + _CONSTANTS]
    alike = [
        (similarity(digest, other), other)
        for other in known
        if len(other) == len(digest) and other[_EXACT : _EXACT + _CONSTANTS] == constants
    ]
    best, other = max(alike, default=(0.0, ""))
    return (other, best) if best >= NEAR_SIMILARITY else None


def _exact(tree: ast.Module, own: set[str]) -> str:
    renamed: dict[str, str] = {}

    def name(text: str) -> str:
        if text not in own:
            return text
        return renamed.setdefault(text, f"n{len(renamed)}")

    digest = hashlib.sha256()
    waiting: list[object] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.AST):
            digest.update(f"({type(item).__name__}".encode())
            waiting.append(")")
            waiting += [_field(item, field, name) for field in reversed(item._fields)]
        elif isinstance(item, list):
            digest.update(b"[")
            waiting.append("]")
            waiting += reversed(item)
        else:
            digest.update(f" {type(item).__name__}:{_spelled(item)}".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _spelled(value: object) -> str:
    # The decimal digits of a large number take quadratic time, and Python refuses to make them.
    return hex(value) if type(value) is int and value.bit_length() > 64 else repr(value)


def _constants(tree: ast.Module) -> str:
    """Return the digest of the constants of every method and every statement at the top, in whatever order they are."""
    units: list[ast.stmt] = []
    for statement in tree.body:
        units += statement.body if isinstance(statement, ast.ClassDef) else [statement]
    said = []
    for unit in units:
        documentation = {id(text) for node in ast.walk(unit) for text in _documentation(node)}
        spelled = [
            _spelled(node.value)
            for node in ast.walk(unit)
            if isinstance(node, ast.Constant) and id(node) not in documentation
        ]
        telling = [text for text in spelled if text not in _PLAIN_CONSTANTS]
        if telling and not _is_text(unit):
            said.append("\0".join(telling))
    return hashlib.sha256("\1".join(sorted(said)).encode("utf-8", "backslashreplace")).hexdigest()


def _sketch(tree: ast.Module, own: set[str]) -> str:
    words = list(_structure(tree, own))
    shingles = {" ".join(words[start : start + _SHINGLE]) for start in range(max(1, len(words) - _SHINGLE + 1))}
    least: list[int | None] = [None] * _BITS
    for shingle in shingles:
        number = int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "big")
        place, rest = number % _BITS, number // _BITS
        smallest = least[place]
        least[place] = rest if smallest is None else min(smallest, rest)
    bits = 0
    for place in range(_BITS):
        # An empty place borrows from the next one that is not.
        found = next(value for step in range(_BITS) if (value := least[(place + step) % _BITS]) is not None)
        bits = bits << 1 | found & 1
    return f"{bits:0{_BITS // 4}x}"


def _structure(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield what stands in a tree, in order: its nodes, and the names of what others made."""

    def name(text: str) -> str:
        return "own" if text in own else text

    waiting: list[object] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Constant):
            yield type(item.value).__name__
        elif isinstance(item, ast.expr_context):
            continue
        elif isinstance(item, ast.AST):
            yield type(item).__name__
            waiting += [_field(item, field, name) for field in reversed(item._fields)]
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, str):
            yield item.encode("utf-8", "backslashreplace").decode()


def _own_names(tree: ast.Module) -> set[str]:
    """Return the names that the source gives to things itself."""
    own: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                own.add(text)
            case ast.arg(arg=text):
                own.add(text)
            case ast.Name(id=text, ctx=ast.Store()) | ast.Attribute(attr=text, ctx=ast.Store()):
                own.add(text)
            case ast.alias(asname=str(text)):
                own.add(text)
            case ast.ExceptHandler(name=str(text)):
                own.add(text)
    return {text for text in own if text not in _CONTRACT and not text.startswith("__")}


def _field(node: ast.AST, field: str, name: Callable[[str], str]) -> object:
    value = getattr(node, field, None)
    if field in {"type_comment", "kind"}:
        return None
    if field == "body" and isinstance(value, list):
        return value[1:] if value and _is_text(value[0]) else value
    renames = isinstance(value, str) and (
        (field in {"name", "arg", "id", "attr", "asname"} and not isinstance(node, ast.alias)) or field == "asname"
    )
    return name(value) if renames and isinstance(value, str) else value


def _is_text(statement: ast.AST) -> bool:
    """Whether a statement is documentation: text of which nothing is made."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _documentation(node: ast.AST) -> list[ast.Constant]:
    if _is_text(node) and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return [node.value]
    return []
