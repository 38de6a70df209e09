"""How environments are played: the two kinds, named once for configuration, prompts and gates."""

from __future__ import annotations

from enum import StrEnum


class EnvironmentKind(StrEnum):
    """How an environment is played."""

    GAME = "game"
    """Text in, text out, over one or many turns."""
    TOOL_USE = "tool_use"
    """By calling tools with JSON schemas: the environment extends ``spade_rl.environment.ToolEnvironment``."""
