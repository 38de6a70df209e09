"""The memory of a whole sandbox: the limit of all its episodes together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from spade_rl.config import SandboxSection
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.opening import open_pool
from spade_rl.sandbox.pool import Pool

HUNGRY = """
class Env:
    def reset(self, seed):
        return "", {}
    def step(self, action):
        self.x = bytearray(b"x") * (40 << 20)
        return "", 0.0, False, False, {}
"""


@pytest.mark.gvisor
async def test_all_episodes_of_a_sandbox_that_uses_too_much_are_told_so(gvisor_section: SandboxSection) -> None:
    section = gvisor_section.model_copy(update={"sandbox_memory_mb": 128, "call_seconds": 20.0})
    async with open_pool(section) as pool:
        begun = asyncio.Barrier(5)

        async def one() -> None:
            async with open_episode(pool, HUNGRY) as episode:
                await episode.reset(1)
                await begun.wait()
                while True:  # Every worker stays below its own limit.
                    await episode.step(["go"])

        outcomes = await asyncio.gather(*(one() for _ in range(5)), return_exceptions=True)
        faults = [outcome for outcome in outcomes if isinstance(outcome, EpisodeError)]
        assert [(fault.origin, fault.kind) for fault in faults] == [(Origin.ENVIRONMENT, FaultKind.MEMORY)] * 5, (
            outcomes
        )
        assert all("together" in fault.message for fault in faults)
        async with open_episode(pool, HUNGRY) as episode:
            await episode.reset(1)


@pytest.mark.gvisor
async def test_who_waits_for_a_worker_is_told_why_the_sandbox_ended(gvisor_section: SandboxSection) -> None:
    async with open_pool(gvisor_section) as pool:
        program = await pool.analysed(HUNGRY)
        async with pool.workers(program, 1):
            (sandbox,) = pool._running()
            sandbox.end_ahead(16)
            waiting = [asyncio.ensure_future(sandbox.spawn()) for _ in range(4)]
            await asyncio.sleep(0)
            sandbox.limit_memory(1 << 40)
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            after = await asyncio.gather(sandbox.spawn(), return_exceptions=True)
        for fault in [*outcomes, *after]:
            assert isinstance(fault, EpisodeError)
            assert (fault.origin, fault.kind) == (Origin.ENVIRONMENT, FaultKind.MEMORY)


async def test_a_sandbox_that_nobody_uses_ends(weak_section: SandboxSection) -> None:
    async with open_pool(weak_section.model_copy(update={"idle_seconds": 0.3})) as pool:
        await _use(pool)
        await _until(lambda: not pool._places)


async def test_sandboxes_that_use_too_much_together_make_room(weak_section: SandboxSection) -> None:
    async with open_pool(weak_section.model_copy(update={"memory_mb": 128})) as pool:
        await _use(pool)
        await _use(pool, "# Another program.\n")
        old, new = pool._running()
        pool._evict({old: 100 << 20, new: 100 << 20})
        assert pool._running() == [new]
        pool._evict({new: 100 << 20})
        assert pool._running() == [new]


async def _use(pool: Pool, prefix: str = "") -> None:
    async with open_episode(pool, prefix + HUNGRY) as episode:
        await episode.reset(1)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
