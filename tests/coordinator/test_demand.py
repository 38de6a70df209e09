"""What the run wants of the sandbox is counted exactly, whatever ends a stage."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.coordinator.demand import Demand


@given(st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(0, 30), max_size=5), st.booleans()), max_size=6))
def test_the_sum_is_what_is_left_of_every_stage(stages):
    async def run():
        demand, open_wants, left = Demand(), [], 0
        for workers, done, ends in stages:
            stage = demand.of(workers)
            want = stage.__enter__()
            rest = workers
            for number in done:
                want.done(number)
                rest = max(0, rest - number)
            if ends:
                stage.__exit__(None, None, None)
            else:
                open_wants.append(stage)
                left += rest
            assert demand.workers == left
        for stage in open_wants:
            stage.__exit__(None, None, None)
        assert demand.workers == 0

    asyncio.run(run())


async def test_a_stage_that_fails_wants_nothing_any_more():
    demand = Demand()
    with suppress(ValueError), demand.of(7):
        assert demand.workers == 7
        raise ValueError
    assert demand.workers == 0


async def test_a_watcher_hears_at_once_and_of_every_last_value_until_the_end():
    demand = Demand()
    heard = []

    async def listen():
        async with aclosing(demand.watch()) as amounts:
            async for workers in amounts:
                heard.append(workers)

    listener = asyncio.create_task(listen())
    await asyncio.sleep(0)
    with demand.of(3) as want:
        await _until(lambda: heard == [0, 3])
        want.done(1)
        await _until(lambda: heard == [0, 3, 2])
    await _until(lambda: heard == [0, 3, 2, 0])
    demand.close()
    async with asyncio.timeout(5):
        await listener


async def _until(holds):
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - the watcher is only asked what it heard
            await asyncio.sleep(0)
