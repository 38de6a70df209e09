"""Which keys a submitted run may set by itself, and which the services were started with.

The services read their configuration when they start. What only the coordinator reads, or what travels in its
requests, may differ from run to run; everything else has to be what the services hold, or a run would not be what its
configuration says. Where the services are, how they prove who they are and where the archive lies are the release's
own: whatever a submitted configuration says of them is left aside.
"""

from __future__ import annotations

from typing import Any

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError

# Ends of paths: a section stands for all of its keys.
OF_A_RUN = (
    "run",
    "evaluation",
    "designer.skills",
    "designer.active_skills",
    "designer.environments",
    "designer.invalid_reward",
    "regret.plays",
    "regret.reward",
)
OF_THE_RELEASE = ("endpoints", "tls", "memory.url", "memory.url_file")
_SHOWN = 8


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _leaves(inner, f"{path}.{key}" if path else key)
    return found


def _within(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes)


def adopted(submitted: RunConfig, own: RunConfig) -> RunConfig:
    """Return the submitted configuration with what is the release's own.

    Raises ConfigurationError that names what differs from what the services were started with.
    """
    config = submitted.model_copy(
        update={
            "endpoints": own.endpoints,
            "tls": own.tls,
            "memory": submitted.memory.model_copy(update={"url": own.memory.url, "url_file": own.memory.url_file}),
        }
    )
    mine, theirs = (_leaves(one.model_dump(mode="json")) for one in (own, config))
    differing = [
        path for path in sorted(mine.keys() | theirs.keys())
        if not _within(path, OF_A_RUN) and mine.get(path) != theirs.get(path)
    ]  # fmt: skip
    if differing:
        lines = [f"  {path}: {theirs.get(path)!r}, started with {mine.get(path)!r}" for path in differing[:_SHOWN]]
        if len(differing) > _SHOWN:
            lines.append(f"  and {len(differing) - _SHOWN} more")
        raise ConfigurationError(
            "the services were started with other settings than this run asks for:\n"
            + "\n".join(lines)
            + "\nleave them out of the submitted configuration, or start the services with them (`helm upgrade`)"
        )
    return config


def public(config: RunConfig) -> RunConfig:
    """Return a configuration without what is the release's own: addresses, certificates, the archive's URL."""
    plain = RunConfig()
    memory = config.memory.model_copy(update={"url": None, "url_file": None})
    return config.model_copy(update={"endpoints": plain.endpoints, "tls": plain.tls, "memory": memory})
