"""The JSON schemas of tools: a small subset, checked when a tool is defined and when it is called.

A schema is a dict with a ``type`` and the keywords of that type; whatever lies outside of the subset is refused when it
is defined, never ignored. Objects are closed: what ``properties`` does not name may not be there, and the published
schema says so (``additionalProperties: false``). Within the subset a value is valid exactly if it is so by JSON
Schema, draft 2020-12.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

Schema = dict[str, Any]
_BOUNDS = ("minimum", "maximum")
# The keywords of each type, besides ``type`` and ``description``.
KEYWORDS: dict[str, tuple[str, ...]] = {
    "string": ("enum",),
    "integer": ("enum", *_BOUNDS),
    "number": ("enum", *_BOUNDS),
    "boolean": (),
    "array": ("items",),
    "object": ("properties", "required", "additionalProperties"),
}
_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
}
_SHOWN = 60


class SchemaError(ValueError):
    """A schema outside of the subset; the message is for the author of the tool."""


class Mismatch(Exception):
    """A value that its schema does not allow; the message is for whoever sent it."""


def check_schema(schema: object, where: str) -> Schema:
    """Return ``schema`` as it is published; raises SchemaError, whose message begins with ``where``."""
    if not isinstance(schema, dict):
        raise SchemaError(f'{where} must be a dict such as {{"type": "string"}}, not {type(schema).__name__}')
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in KEYWORDS:
        raise SchemaError(f"{where}: type must be one of {', '.join(KEYWORDS)}, not {kind!r}")
    for keyword in schema:
        if keyword not in ("type", "description", *KEYWORDS[kind]):
            allowed = ", ".join(("type", "description", *KEYWORDS[kind]))
            raise SchemaError(f"{where}: {keyword!r} is not among the keywords for {kind}: {allowed}")
    if not isinstance(schema.get("description", ""), str):
        raise SchemaError(f"{where}: description must be text")
    _check_bounds(schema, where)
    if "enum" in schema:
        _check_enum(schema, where)
    published = dict(schema)
    if "items" in schema:
        published["items"] = check_schema(schema["items"], f"{where}[]")
    if kind == "object":
        published |= _closed(schema, where)
    return published


def _check_bounds(schema: Schema, where: str) -> None:
    for keyword in _BOUNDS:
        bound = schema.get(keyword, 0)
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not isfinite(bound):
            raise SchemaError(f"{where}: {keyword} must be a number, not {bound!r}")
    if "minimum" in schema and "maximum" in schema and schema["minimum"] > schema["maximum"]:
        raise SchemaError(f"{where}: minimum is larger than maximum")


def _check_enum(schema: Schema, where: str) -> None:
    values = schema["enum"]
    if not isinstance(values, list) or not values:
        raise SchemaError(f"{where}: enum must be a list with at least one value")
    plain = {keyword: value for keyword, value in schema.items() if keyword != "enum"}
    for value in values:
        try:
            validated(plain, value, "a value")
        except Mismatch as mismatch:
            raise SchemaError(f"{where}: enum: {mismatch}") from None


def _closed(schema: Schema, where: str) -> Schema:
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(name, str) for name in properties):
        raise SchemaError(f"{where}: an object needs properties, a dict of schemas by name")
    if not isinstance(required, (list, tuple)) or not all(name in properties for name in required):
        raise SchemaError(f"{where}: required must be a list of names that properties has")
    if schema.get("additionalProperties", False) is not False:
        raise SchemaError(f"{where}: additionalProperties can only be False: name every property")
    return {
        "properties": {name: check_schema(each, f"{where}.{name}") for name, each in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }


def validated(schema: Schema, value: Any, where: str) -> Any:
    """Return ``value`` with whole floats as ints where the (checked) schema wants integers; raises Mismatch."""
    kind = schema["type"]
    match kind:
        case "string":
            fits = isinstance(value, str)
        case "boolean":
            fits = isinstance(value, bool)
        case "array":
            fits = isinstance(value, list)
        case "object":
            fits = isinstance(value, dict)
        case _:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            fits = fits and (kind == "number" or isinstance(value, int) or value.is_integer())
    if not fits:
        raise Mismatch(f"{where} must be {_NAMES[kind]}, not {_shown(value)}")
    if "enum" in schema and value not in schema["enum"]:
        raise Mismatch(f"{where} must be one of {', '.join(map(_shown, schema['enum']))}, not {_shown(value)}")
    if kind in ("integer", "number"):
        return _bounded(schema, value, where)
    if kind == "array" and "items" in schema:
        return [validated(schema["items"], item, f"{where}[{index}]") for index, item in enumerate(value)]
    return _members(schema, value, where) if kind == "object" else value


def _bounded(schema: Schema, value: Any, where: str) -> int | float:
    if "minimum" in schema and value < schema["minimum"]:
        raise Mismatch(f"{where} must be at least {schema['minimum']}, not {_shown(value)}")
    if "maximum" in schema and value > schema["maximum"]:
        raise Mismatch(f"{where} must be at most {schema['maximum']}, not {_shown(value)}")
    return int(value) if schema["type"] == "integer" else value


def _members(schema: Schema, value: Any, where: str) -> dict[str, Any]:
    properties = schema["properties"]
    missing = [name for name in schema["required"] if name not in value]
    if missing:
        raise Mismatch(f"{where} misses {', '.join(missing)}")
    extra = [name for name in value if name not in properties]
    if extra:
        takes = f"it takes {', '.join(properties)}" if properties else "it takes none"
        raise Mismatch(f"{where} has no {', '.join(name[:_SHOWN] for name in extra[:5])}; {takes}")
    return {name: validated(properties[name], item, name) for name, item in value.items()}


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f"{value!r}" if not isinstance(value, int) or value.bit_length() < 256 else "a huge number"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
