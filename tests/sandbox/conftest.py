"""The isolation levels that the sandbox's tests run at, and a running pool at each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from spade_rl.config import Isolation, SandboxSection
from spade_rl.sandbox.opening import open_pool
from spade_rl.sandbox.pool import Pool

GVISOR = pytest.param(
    Isolation.GVISOR,
    marks=[pytest.mark.gvisor, pytest.mark.skipif(shutil.which("runsc") is None, reason="runsc is not installed")],
)


def _section(level: Isolation) -> SandboxSection:
    # Memory small enough to be exceeded quickly; deadlines long enough for a busy machine.
    return SandboxSection(
        isolation=level,
        call_seconds=1.5,
        worker_memory_mb=256,
        sandbox_memory_mb=384,
        max_sandboxes=4,
        max_workers=16,
        queue_seconds=60.0,
        # It has tests of its own.
        self_test=False,
    )


@pytest.fixture(scope="session", params=[Isolation.PROCESS, GVISOR])
def level(request: pytest.FixtureRequest) -> Isolation:
    return request.param


@pytest.fixture(scope="session")
def section(level: Isolation) -> SandboxSection:
    return _section(level)


@pytest.fixture(scope="session")
def gvisor_section() -> SandboxSection:
    if shutil.which("runsc") is None:
        pytest.skip("runsc is not installed")
    return _section(Isolation.GVISOR)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(section: SandboxSection) -> AsyncIterator[Pool]:
    async with open_pool(section) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def weak() -> AsyncIterator[Pool]:
    """A pool of plain processes, for what the level makes no difference to."""
    async with open_pool(_section(Isolation.PROCESS)) as opened:
        yield opened


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where services make their folders, apart from all others on this machine; its path is short, for sockets."""
    with tempfile.TemporaryDirectory(prefix="spade-") as name:
        Path(name).chmod(0o711)
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield Path(name)


@pytest.fixture
def processes_naming() -> Callable[[str], list[int]]:
    """The living processes whose command line holds a text."""

    def find(text: str) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if text.encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    return find


@pytest.fixture(scope="session")
def weak_section() -> SandboxSection:
    return _section(Isolation.PROCESS)
