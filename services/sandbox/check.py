"""The admission gates for people who write environments by hand, in one call.

    report = check_file(Path("mine.py"), SandboxSection())
    assert report.admitted, report.failure

The same code admits what the designer writes, in the same isolation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from spade_rl.config import SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox.admission import Report, admit
from spade_rl.sandbox.opening import open_pool


async def check_source(source: str, section: SandboxSection, *, seed: int = 0) -> Report:
    """Return the report on a source.

    Raises ConfigurationError if the isolation asked for cannot be given, SandboxError if the sandbox fails.
    """
    async with open_pool(section) as pool:
        return await admit(pool, source, seed=seed)


def check_file(path: Path, section: SandboxSection, *, seed: int = 0) -> Report:
    """Return the report on a file; as ``check_source``, and ConfigurationError if the file cannot be read."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    return asyncio.run(check_source(source, section, seed=seed))
