"""Workers that wait for an episode: fresh, bounded, and blamed for nothing that they have not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from spade_rl.config import SandboxSection
from spade_rl.sandbox.answers import Refusal
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.opening import open_pool
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.sandbox import Sandbox
from spade_rl.sandbox.worker import Load

COUNTS = """
count = 0
class Env:
    def reset(self, seed):
        global count
        count += 1
        return str(count), {}
    def step(self, action):
        return "", 0.0, False, False, {}
"""
CLASS = "\nclass Env:\n    def reset(self, seed): return '', {}\n    def step(self, action): return '', 0.0, True, False, {}\n"


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _only(pool: Pool) -> Sandbox:
    (sandbox,) = pool._running()
    return sandbox


async def _play(pool: Pool, source: str) -> str:
    async with open_episode(pool, source) as episode:
        return (await episode.reset(1)).observation


async def test_a_worker_waits_for_the_next_episode_and_is_fresh(weak_section: SandboxSection) -> None:
    async with open_pool(weak_section) as pool:
        assert await _play(pool, COUNTS) == "1"
        sandbox = _only(pool)
        for _ in range(3):
            await _until(lambda: len(sandbox._waiting) > 0)
            waiting = sandbox._waiting[0]
            async with open_episode(pool, COUNTS) as episode:
                assert episode._worker is waiting
                assert (await episode.reset(1)).observation == "1"


async def test_those_that_wait_count_among_the_workers_that_may_live(weak_section: SandboxSection) -> None:
    async with open_pool(weak_section.model_copy(update={"max_workers": 2, "prefork": 8})) as pool:
        for _ in range(4):
            await _play(pool, COUNTS)
        sandbox = _only(pool)
        assert sandbox.ahead <= 2
        async with open_episode(pool, COUNTS), open_episode(pool, COUNTS):
            await _until(lambda: sandbox.ahead == 0)
            await _until(lambda: sandbox.processes == 2)


async def test_none_waits_where_none_may(weak_section: SandboxSection) -> None:
    async with open_pool(weak_section.model_copy(update={"prefork": 0})) as pool:
        for _ in range(3):
            assert await _play(pool, COUNTS) == "1"
            assert _only(pool).ahead == 0


async def test_one_that_waited_and_died_harms_no_episode(weak_section: SandboxSection) -> None:
    async with open_pool(weak_section) as pool:
        await _play(pool, COUNTS)
        sandbox = _only(pool)
        await _until(lambda: len(sandbox._waiting) > 0)
        waiting = sandbox._waiting[0]
        assert waiting._transport is not None
        waiting._transport.abort()  # As its death shows itself.
        await _until(lambda: waiting not in sandbox._waiting)
        assert await _play(pool, COUNTS) == "1"


@pytest.mark.parametrize(
    ("top", "kind"),
    [
        ("while True: pass", FaultKind.DEADLINE),
        ("raise ValueError", FaultKind.EXCEPTION),
        ("import os\nos._exit(3)", FaultKind.EXIT),
    ],
)
async def test_a_top_level_is_blamed_in_the_episode_that_runs_it(
    weak_section: SandboxSection, top: str, kind: FaultKind
) -> None:
    section = weak_section.model_copy(update={"call_seconds": 0.5})
    async with open_pool(section) as pool:
        program = await pool.analysed(COUNTS)
        await _play(pool, COUNTS)
        bad = replace(program, source=top + CLASS, digest="bad", class_name="Env")
        for _ in range(2):
            async with pool.workers(bad, 1) as (worker,):
                transcript = await worker.run([Load()])
                answer = transcript.answers[0] if transcript.answers else None
                error = answer.as_error() if isinstance(answer, Refusal) else transcript.error
                assert isinstance(error, EpisodeError)
                assert (error.origin, error.kind) == (Origin.ENVIRONMENT, kind)
