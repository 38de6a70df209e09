"""How many workers of the sandbox the run wants, whether or not a sandbox is there.

The coordinator is the one place that knows: it asks for designs and plays, and hears of each that is done. So a sandbox
that was scaled to nothing is wanted again before the first call reaches for it. An episode wants one worker, an
admission two.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from spade_rl.coordinator.metrics import WANTED_WORKERS

WORKERS_PER_ADMISSION = 2


class Want:
    """One stage's part of the demand."""

    def __init__(self, demand: Demand, workers: int) -> None:
        self._demand = demand
        self._left = 0
        self._set(workers)

    def done(self, workers: int) -> None:
        """Say that so many are not wanted any more; more than there were counts as all of them."""
        self._set(max(0, self._left - workers))

    def close(self) -> None:
        """Want nothing any more."""
        self._set(0)

    def _set(self, left: int) -> None:
        self._demand._move(left - self._left)
        self._left = left


class Demand:
    """The sum over all that runs. Everything happens on one event loop."""

    def __init__(self) -> None:
        self._workers = 0
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def workers(self) -> int:
        """Workers that are wanted now."""
        return self._workers

    @contextmanager
    def of(self, workers: int) -> Iterator[Want]:
        """Around work that wants so many workers; what is left of it is not wanted afterwards."""
        want = Want(self, workers)
        try:
            yield want
        finally:
            want.close()

    async def watch(self) -> AsyncGenerator[int, None]:
        """Yield what is wanted, at once and after every change, until ``close``; a slow reader misses what lies between."""
        while not self._closed:
            changed, workers = self._changed, self._workers
            yield workers
            if workers == self._workers:
                await changed.wait()

    def close(self) -> None:
        """End all watching: nobody will want anything any more, or the service ends."""
        self._closed = True
        self._changed.set()

    def _move(self, difference: int) -> None:
        if difference:
            self._workers += difference
            WANTED_WORKERS.set(self._workers)
            self._changed.set()
            self._changed = asyncio.Event()
