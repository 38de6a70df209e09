"""What sandboxes need on this machine, from start to end: a folder, a root file system, a runtime, a pool.

Whatever ends the block that opened it, neither files nor processes are left behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from spade_rl.config import Isolation, SandboxSection
from spade_rl.sandbox.cgroup import find_cgroups
from spade_rl.sandbox.launch import Home, base_folder, end_users_of, make_folder, remove_stale
from spade_rl.sandbox.limits import limits_of
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.probes import promised
from spade_rl.sandbox.rootfs import ensure_rootfs, running_interpreter
from spade_rl.sandbox.runtime import find_runtime
from spade_rl.sandbox.selftest import LimitCheck, try_limits
from spade_rl.telemetry import get_logger

_log = get_logger(__name__)


@asynccontextmanager
async def open_home(section: SandboxSection) -> AsyncIterator[Home]:
    """Prepare what sandboxes are made of on this machine; leave nothing behind, neither files nor processes.

    Raises ConfigurationError, which says what to do, if the isolation asked for cannot be given.
    """
    base = base_folder()
    folder, lock = make_folder(base)
    try:
        home = await asyncio.get_running_loop().run_in_executor(None, _prepare, section, base, folder)
        if home.runtime.isolation is not Isolation.GVISOR:
            _log.warning("generated code runs without gVisor, as configured", isolation=home.runtime.isolation.value)
        try:
            yield home
        finally:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, end_users_of, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@asynccontextmanager
async def open_pool(section: SandboxSection) -> AsyncIterator[Pool]:
    """Start what runs environments on this machine; raises what ``open_home`` raises."""
    async with open_home(section) as home, Pool(home, section) as pool:
        yield pool


async def limits_here(section: SandboxSection) -> tuple[LimitCheck, ...]:
    """Return what a self-test finds on this machine, without serving.

    Raises ConfigurationError if the isolation asked for cannot be given, SandboxError if a probe could not run.
    """
    async with open_home(section) as home:
        return await try_limits(home, section, promised(home.runtime.isolation))


def _prepare(section: SandboxSection, base: Path, folder: Path) -> Home:
    removed = remove_stale(base)
    if removed:
        _log.warning("removed what dead sandbox services had left", services=removed)
    interpreter = running_interpreter()
    root = ensure_rootfs(interpreter)
    runtime = find_runtime(section, root, folder / "state")
    cgroups = None if runtime.pod else find_cgroups()
    _log.info("the memory of sandboxes is watched", cgroup=None if cgroups is None else f"version {cgroups.version}")
    return Home(folder, root, interpreter, runtime, limits_of(section), cgroups)
