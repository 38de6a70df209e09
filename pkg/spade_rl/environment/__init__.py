"""What environments are made from: the base class of those that are played through tools.

Importable under this name outside and inside the sandbox, where nothing else of the package is. Standard library
only, and little of it: every worker holds a copy of what is loaded.

    from spade_rl.environment import Instruction, ToolEnvironment, ToolError, call, tool
"""

from spade_rl.environment.calls import Call, CallError, call, read_call
from spade_rl.environment.definitions import Tool, tool
from spade_rl.environment.schema import SchemaError
from spade_rl.environment.tool_environment import Instruction, ToolEnvironment, ToolError

__all__ = [
    "Call",
    "CallError",
    "Instruction",
    "SchemaError",
    "Tool",
    "ToolEnvironment",
    "ToolError",
    "call",
    "read_call",
    "tool",
]
