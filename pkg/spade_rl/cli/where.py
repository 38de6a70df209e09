"""Which coordinator the options before a command name."""

from __future__ import annotations

import typer

from spade_rl.cluster.target import Target
from spade_rl.errors import ConfigurationError


def target_of(context: typer.Context) -> Target | None:
    """Return what the options before the command name, None for this machine."""
    found: Target | None = context.obj
    return found


def needed(context: typer.Context) -> Target:
    """Return what the options before the command name; ConfigurationError if they name nothing."""
    target = target_of(context)
    if target is None:
        raise ConfigurationError(
            "say which coordinator is meant: `spade --context CONTEXT [--namespace NAMESPACE] [--release RELEASE] …`, or "
            "`spade --coordinator ADDRESS …` for one that is reached directly"
        )
    return target
