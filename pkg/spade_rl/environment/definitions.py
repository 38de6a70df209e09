"""Tools as their authors define them: a method, a description, and a schema for every argument.

What cannot work is refused where it is defined, so that the author sees the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from spade_rl.environment.schema import Schema, SchemaError, check_schema

SUBMIT = "submit"
# What the base class defines.
RESERVED = frozenset({SUBMIT, "reset", "step", "solution", "build", "max_calls"})
_ATTRIBUTE = "__spade_tool__"
_VARIADIC, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x0C, 0x20, 0x80, 0x200
_F = TypeVar("_F", bound=Callable[..., Any])


class Tool(NamedTuple):
    """A tool as it is published; ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Schema

    def specification(self) -> dict[str, Any]:
        """Return the tool in the form that chat templates take."""
        return {"type": "function", "function": dict(zip(self._fields, self, strict=True))}


SUBMIT_TOOL = Tool(
    SUBMIT,
    "Hand in the work and end the episode. Do it once, after the last instruction is done.",
    {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
)


def tool(description: str, /, **properties: Schema) -> Callable[[_F], _F]:
    """Make a method a tool: ``@tool("Close an account.", account={"type": "string"})``.

    Every parameter of the method but ``self`` has its schema, and one without a default is required. Raises
    SchemaError if a schema lies outside of the subset or the method and the schemas differ.
    """

    def decorate(function: _F) -> _F:
        setattr(function, _ATTRIBUTE, _defined(function, description, properties))
        return function

    return decorate


def _defined(function: Callable[..., Any], description: object, properties: dict[str, Schema]) -> Tool:
    name = getattr(function, "__name__", "?")
    code = getattr(function, "__code__", None)
    if code is None:
        raise SchemaError(f"@tool stands above {name}, which is not a plain method")
    if not isinstance(description, str) or not description.strip():
        raise SchemaError(f"tool {name}: @tool's first argument is a description for the agent")
    if name in RESERVED or name.startswith("_"):
        raise SchemaError(f"a tool cannot be called {name}: choose a name without a meaning of its own")
    if code.co_flags & (_GENERATOR | _COROUTINE | _ASYNC_GENERATOR):
        raise SchemaError(f"tool {name} must be a plain method: neither async nor a generator")
    if code.co_flags & _VARIADIC or code.co_posonlyargcount > 1:
        raise SchemaError(f"tool {name} must name its parameters: no *args, **kwargs or positional-only ones")
    parameters = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    if code.co_argcount < 1 or set(parameters) != set(properties):
        raise SchemaError(
            f"tool {name} has the parameters ({', '.join(parameters)}), but @tool describes "
            f"({', '.join(properties)}): both must be the same, besides self"
        )
    defaults = len(getattr(function, "__defaults__", None) or ())
    optional = {*code.co_varnames[code.co_argcount - defaults : code.co_argcount]}
    optional |= set(getattr(function, "__kwdefaults__", None) or ())
    schema = {
        "type": "object",
        "properties": {each: properties[each] for each in parameters},
        "required": [each for each in parameters if each not in optional],
    }
    return Tool(name, description.strip(), check_schema(schema, f"tool {name}"))


def tools_of(owner: type) -> dict[str, Tool]:
    """Return the tools of a class by name, those of its bases first."""
    found: dict[str, Tool] = {}
    for base in reversed(owner.__mro__):
        for name, value in vars(base).items():
            defined = getattr(value, _ATTRIBUTE, None)
            if defined is None:
                found.pop(name, None)
            elif name != defined.name:
                raise SchemaError(f"tool {defined.name} is called {name} in {base.__name__}: keep one name")
            else:
                found[name] = defined
    return found
