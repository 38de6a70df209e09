"""The digest of a source without names, comments, documentation and layout.

Two sources with the same normalised digest are the same program up to what its author called things. Constants
count: another document or another difficulty is another environment. The tree is walked without recursion.
"""

from __future__ import annotations

import ast
import hashlib

# Names with a meaning of their own.
_CONTRACT = frozenset({"reset", "step", "solution", "self", "seed", "action"})


def normalised_digest(tree: ast.Module) -> str:
    """Return the SHA-256 of the normal form of a parsed source, in hexadecimal."""
    own = _own_names(tree)
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
            digest.update(f" {type(item).__name__}:{item!r}".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


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


def _field(node: ast.AST, field: str, name: object) -> object:
    value = getattr(node, field, None)
    if field in {"type_comment", "kind"}:
        return None
    if field == "body" and isinstance(value, list):
        return _without_documentation(value)
    renames = isinstance(value, str) and (
        (field in {"name", "arg", "id", "attr", "asname"} and not isinstance(node, ast.alias)) or field == "asname"
    )
    return name(value) if renames and callable(name) else value


def _without_documentation(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:]
    return body
