"""What dead workers leave running ends with them, and nothing else does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from spade_rl.config import Isolation
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.launch import HOST_FIRST_USER
from spade_rl.sandbox.pool import Pool

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAVES_DAEMONS = """
class Env:
    def reset(self, seed):
        return str(seed), {}
    def step(self, action):
        import os, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    while True:
                        try:
                            # A zygote that became the user of this process could be hit by it.
                            os.kill(1, 0 if action == "meek" else 9)
                        except OSError:
                            pass
                        time.sleep(0.0005)
                os._exit(0)
        return "left", 0.0, False, False, {}
"""


async def test_strays_end_and_others_live_on(pool: Pool) -> None:
    # Without gVisor, processes of the host are out of reach by their user alone: nothing is sent to any of them.
    action = "bold" if pool.isolation is Isolation.GVISOR else "meek"
    async with open_episode(pool, LEAVES_DAEMONS) as bystander:
        assert (await bystander.reset(7)).observation == "7"
        for _ in range(3):
            async with open_episode(pool, LEAVES_DAEMONS) as episode:
                await episode.reset(1)
                await episode.step([action])
        (sandbox,) = (each for each in pool._running() if each.program and each.program.source == LEAVES_DAEMONS)
        async with asyncio.timeout(30):
            while sandbox.processes > 1 + sandbox.ahead:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert sandbox.alive
        assert (await bystander.reset(8)).observation == "8"
        if pool.isolation is Isolation.PROCESS and os.geteuid() == 0:
            # Those that are left are the bystander and the workers that wait.
            assert sandbox._process is not None
            assert len(_of_workers(sandbox._process.pid)) <= 1 + sandbox.ahead


def _of_workers(zygote: int) -> list[int]:
    """The children of a zygote that run as users of workers."""
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    return [pid for pid in map(int, children) if Path(f"/proc/{pid}").exists() and _user(pid) >= HOST_FIRST_USER]


def _user(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return 0
