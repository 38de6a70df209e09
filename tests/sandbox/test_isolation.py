"""What takes several episodes of one environment to see. Single attacks are in ``tests/hostile``."""

from __future__ import annotations

import asyncio

import pytest

from spade_rl.config import SandboxSection
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.opening import open_pool
from spade_rl.sandbox.pool import Pool

pytestmark = pytest.mark.asyncio(loop_scope="module")

HUNGRY = """
class Env:
    def reset(self, seed):
        return "ready", {}
    def step(self, action):
        self.x = bytearray(b"x") * (40 << 20)
        return "", 0.0, False, False, {}
"""
HONEST = """
class Env:
    def reset(self, seed):
        return "hello", {}
    def step(self, action):
        return "you said " + action, 1.0, True, False, {}
"""


async def test_the_memory_of_a_whole_sandbox_is_bounded(gvisor_section: SandboxSection) -> None:
    section = gvisor_section.model_copy(update={"sandbox_memory_mb": 128, "call_seconds": 20.0})
    async with open_pool(section) as pool:

        async def one() -> None:
            async with open_episode(pool, HUNGRY) as episode:
                await episode.reset(1)
                while True:  # Every worker stays below its own limit.
                    await episode.step(["go"])

        outcomes = await asyncio.gather(*(one() for _ in range(5)), return_exceptions=True)
        assert all(isinstance(outcome, EpisodeError) for outcome in outcomes), outcomes
        faults = [o for o in outcomes if isinstance(o, EpisodeError)]
        # An episode that was only starting when its sandbox was killed is not told why.
        assert {o.kind for o in faults} <= {FaultKind.MEMORY, FaultKind.SANDBOX}
        blamed = [o for o in faults if o.kind is FaultKind.MEMORY]
        assert blamed
        assert all(o.origin is Origin.ENVIRONMENT and "together" in o.message for o in blamed)
        async with open_episode(pool, HONEST) as episode:
            await episode.reset(1)
            (step,) = await episode.step(["x"])
            assert step.observation == "you said x"


async def test_no_state_goes_from_one_episode_to_the_next(pool: Pool) -> None:
    source = """
count = 0
class Env:
    total = 0
    def reset(self, seed):
        global count
        count += 1
        Env.total += 1
        import json
        json.leftover = getattr(json, "leftover", 0) + 1
        return f"{count} {Env.total} {json.leftover}", {}
    def step(self, action):
        return "", 0.0, True, False, {}
"""
    for _ in range(3):
        async with open_episode(pool, source) as episode:
            assert (await episode.reset(1)).observation == "1 1 1"


async def test_unseeded_randomness_differs_between_workers(pool: Pool) -> None:
    source = """
class Env:
    def reset(self, seed):
        return f"{random.random()} {np.random.random()}", {}
    def step(self, action):
        return "", 0.0, True, False, {}
"""
    seen = set()
    for _ in range(2):
        async with open_episode(pool, source) as episode:
            seen |= set((await episode.reset(1)).observation.split())
    assert len(seen) == 4
