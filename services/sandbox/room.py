"""How many workers live at once, and who waits for room.

Those in use are bounded, and requests wait for room in order of arrival until their deadline. Workers that wait in their
sandboxes for an episode count among those that may live, and make room for one that is wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from spade_rl.sandbox import metrics
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.sandbox import Sandbox


class WorkerRoom:
    """Room for ``most`` workers. ``seconds``: what a deadline was made of, for messages; ``running``: all sandboxes."""

    def __init__(self, most: int, seconds: float, running: Callable[[], Sequence[Sandbox]]) -> None:
        self._most = most
        self._seconds = seconds
        self._running = running
        self._free = asyncio.Semaphore(most)
        self._queue = asyncio.Lock()
        self.taken = 0
        metrics.WORKER_LIMIT.set(most)

    @asynccontextmanager
    async def room(self, count: int, deadline: float) -> AsyncIterator[None]:
        """Keep room for ``count`` workers while the block runs. Raises EpisodeError if there is none in time."""
        acquired = 0
        try:
            try:
                with metrics.WAITING.track_inprogress():
                    async with asyncio.timeout(deadline - time.monotonic()):
                        # One at a time, in order: two that each hold half of what they need would wait forever.
                        async with self._queue:
                            while acquired < count:
                                await self._free.acquire()
                                acquired += 1
            except TimeoutError:
                raise no_room("workers", self._most, self._seconds) from None
            self._take(count)
            try:
                yield
            finally:
                self._take(-count)
        finally:
            for _ in range(acquired):
                self._free.release()

    def room_ahead(self) -> int:
        """Return how many more workers may be forked ahead of need."""
        return max(0, self._most - self.taken - self._ahead())

    def trim_ahead(self) -> None:
        """End workers that wait, where too many live together."""
        surplus = self.taken + self._ahead() - self._most
        for sandbox in self._running():
            if surplus <= 0:
                break
            before = sandbox.ahead
            sandbox.end_ahead(surplus)
            surplus -= before - sandbox.ahead
        metrics.WORKERS_AHEAD.set(self._ahead())

    def _take(self, count: int) -> None:
        self.taken += count
        metrics.WORKERS.set(self.taken)

    def _ahead(self) -> int:
        return sum(sandbox.ahead for sandbox in self._running())


def no_room(what: str, most: int, seconds: float) -> EpisodeError:
    """Return what a request gets that has waited for ``seconds`` while all ``most`` of ``what`` were in use."""
    return EpisodeError(
        Origin.SANDBOX,
        FaultKind.CAPACITY,
        f"all {most} {what} were in use for {seconds:g} s; ask for less at once, or raise sandbox.max_{what}",
    )
