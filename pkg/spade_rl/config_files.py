"""Configurations as text: presets that come with the package, YAML and TOML files, dotted overrides.

Each lies over the one before; what is resolved is checked as a whole, and every failure is a ConfigurationError.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from spade_rl.config import MemorySection, RunConfig
from spade_rl.errors import ConfigurationError


def presets() -> dict[str, str]:
    """Return the YAML text of every preset by name."""
    folder = resources.files("spade_rl") / "presets"
    return {Path(entry.name).stem: entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".yaml")}


def _parsed(text: str, origin: str) -> dict[str, Any]:
    toml = origin.endswith(".toml")
    try:
        data = tomllib.loads(text) if toml else yaml.safe_load(text) or {}
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{origin} is not {'TOML' if toml else 'YAML'}: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{origin} must hold sections such as `run:` and `learner:`, not {type(data).__name__}"
        )
    return data


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``over`` laid over it, sections key by key."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def _override(text: str) -> dict[str, Any]:
    path, separator, value = text.partition("=")
    if not separator or not path.strip():
        raise ConfigurationError(f"an override looks like learner.learning_rate=1e-4, not {text!r}")
    nested: Any = _scalar(value, text)
    for key in reversed(path.strip().split(".")):
        nested = {key: nested}
    return nested


def _scalar(value: str, text: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"the value of the override {text!r} is not YAML: {error}") from error


def load_config(
    *,
    preset: str | None = None,
    file: Path | None = None,
    overrides: list[str] | tuple[str, ...] = (),
    base: str | None = None,
) -> RunConfig:
    """Resolve ``base``, a YAML text, then a preset, a file and dotted overrides, each over the one before.

    Raises ConfigurationError, whose message names every key that is wrong.
    """
    data: dict[str, Any] = {} if base is None else _parsed(base, "the given configuration")
    if preset is not None:
        known = presets()
        if preset not in known:
            raise ConfigurationError(f"there is no preset {preset!r}; there are {', '.join(sorted(known))}")
        data = merged(data, _parsed(known[preset], f"preset {preset}"))
    if file is not None:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"cannot read the configuration {file}: {error}") from error
        data = merged(data, _parsed(text, str(file)))
    for override in overrides:
        data = merged(data, _override(override))
    return validate_config(data)


def validate_config(data: dict[str, Any]) -> RunConfig:
    """Return the configuration that ``data`` describes, or raise ConfigurationError naming every wrong key."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc'])) or 'configuration'}: {e['msg']}" for e in error.errors()]
        raise ConfigurationError("the configuration is not valid:\n" + "\n".join(lines)) from error


def dump_config(config: RunConfig) -> str:
    """Return a configuration as YAML that ``load_config`` reads back to the same one."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def archive_url(section: MemorySection) -> str | None:
    """Return the archive's SQLAlchemy URL, None for SQLite in the run's folder. Raises ConfigurationError."""
    if section.url_file is None:
        return section.url
    try:
        return Path(section.url_file).read_text().strip()
    except OSError as error:
        raise ConfigurationError(f"cannot read memory.url_file: {error}") from error
