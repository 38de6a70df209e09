"""Blots secrets out of what is about to be logged: pure functions.

Two things give a secret away: the name of the field that holds it, and its own shape (the password of a URL, a private
key, a bearer's or a hub's token). Numbers stay, whatever their field is called: `max_tokens` is no secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

BLOT = "[secret]"
_NAMES = re.compile(
    r"(?:^|[_.-])(?:password|passwd|secret|token|api_?key|access_?key|private_?key|credentials?|authorization)$", re.I
)
_SHAPES = (
    (re.compile(r"(\w+://[^\s:/@]*):[^\s/@]+@"), rf"\1:{BLOT}@"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), BLOT),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/-]{8,}=*"), rf"\1 {BLOT}"),
    (re.compile(r"\bhf_[A-Za-z0-9]{16,}"), BLOT),
    (re.compile(r"(?i)\b(password|passwd|secret|token|api_?key)=[^\s&;,'\"]+"), rf"\1={BLOT}"),
)


def redacted(value: Any, name: str = "") -> Any:
    """Return ``value``, which stands under ``name``, without its secrets; containers are copied as deep as need be."""
    if isinstance(value, str):
        if value and _NAMES.search(name):
            return BLOT
        for shape, replacement in _SHAPES:
            value = shape.sub(replacement, value)
        return value
    if isinstance(value, bytes):
        return BLOT if _NAMES.search(name) else value
    if isinstance(value, Mapping):
        return {key: redacted(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(redacted(inner, name) for inner in value) if type(value) in (list, tuple) else value
    return value


def redact_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Do so for a line of structlog."""
    return {key: redacted(value, key) for key, value in event.items()}
