"""Who has which sandbox, and who waits.

A sandbox belongs to one program for its whole life; blank ones are started ahead of need. Sandboxes are bounded: when
all places are taken, the one that has been idle for longest makes room, and when none is idle, requests wait in order of
arrival until their deadline (CapacityError). How many workers live is the matter of ``room``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import SandboxError
from spade_rl.sandbox import metrics
from spade_rl.sandbox.launch import Home
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Limits, Origin
from spade_rl.sandbox.program import Program
from spade_rl.sandbox.programs import Programs
from spade_rl.sandbox.room import WorkerRoom, no_room
from spade_rl.sandbox.sandbox import Sandbox
from spade_rl.sandbox.watchdog import POLL_SECONDS
from spade_rl.sandbox.worker import Worker
from spade_rl.telemetry import get_logger

PREWARMED = 2

_log = get_logger(__name__)


@dataclass(slots=True)
class _Place:
    """A place for a sandbox: what stands there, and how many episodes use it."""

    ready: asyncio.Task[Sandbox]
    users: int = 0
    last_used: float = field(default_factory=time.monotonic)


class Pool:
    """Sandboxes and workers of one service. Enter it to start, leave it to end everything."""

    def __init__(self, home: Home, section: SandboxSection, *, prefix: str = "s") -> None:
        self._home = home
        self._section = section
        self._names = (f"{prefix}{number}" for number in itertools.count())
        self._places: dict[str, _Place] = {}
        self._blank: deque[asyncio.Task[Sandbox]] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._workers = WorkerRoom(section.max_workers, section.queue_seconds, self._running)
        cores = len(os.sched_getaffinity(0))
        self._starts = asyncio.Semaphore(max(2, cores))
        self._programs = Programs()
        self._looker = ThreadPoolExecutor(1, "sandbox-memory")
        self._watchdog: asyncio.Task[None] | None = None
        self._open = False

    async def __aenter__(self) -> Pool:
        self._open = True
        self._watchdog = asyncio.create_task(self._watch())
        for level in Isolation:
            metrics.ISOLATION.labels(level.value).set(level is self.isolation)
        metrics.MEMORY_HELD_BY.labels("watchdog").set(self.isolation is Isolation.GVISOR)
        metrics.MEMORY_HELD_BY.labels("cgroup").set(self._home.cgroups is not None)
        # The first sandbox proves that sandboxes start at all.
        blank = self._start_blank()
        try:
            await asyncio.shield(blank)
        except BaseException:
            await self.__aexit__()
            raise
        self._refill()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False
        if self._watchdog is not None:
            self._watchdog.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        starting = [*self._blank, *(place.ready for place in self._places.values())]
        self._blank.clear()
        self._places.clear()
        for task in starting:
            self._retire(task)
        while self._closing:
            await asyncio.wait(self._closing)
        self._programs.close()
        self._looker.shutdown(wait=False)

    @property
    def isolation(self) -> Isolation:
        """The level in use."""
        return self._home.runtime.isolation

    @property
    def runtime(self) -> str:
        """The program that isolates."""
        return self._home.runtime.name

    @property
    def limits(self) -> Limits:
        """The limits in use."""
        return self._home.limits

    @property
    def admission_seconds(self) -> float:
        """Deadline of the work on one admission."""
        return self._section.admission_seconds

    @property
    def episode_seconds(self) -> float:
        """How long an episode may be open."""
        return self._section.episode_seconds

    @property
    def live_sandboxes(self) -> int:
        """Sandboxes that run or start."""
        return len(self._places) + len(self._blank) + len(self._closing)

    @property
    def live_workers(self) -> int:
        """Workers in use."""
        return self._workers.taken

    @property
    def waiting(self) -> int:
        """Requests that wait for room."""
        return len(self._waiting)

    async def analysed(self, source: str) -> Program:
        """Return the program that a source is, or raise StaticRefusal."""
        return await self._programs.analysed(source)

    @asynccontextmanager
    async def workers(self, program: Program, count: int) -> AsyncIterator[list[Worker]]:
        """Give ``count`` fresh workers of a program; they end with the block. Raises EpisodeError."""
        deadline = time.monotonic() + self._section.queue_seconds
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._workers.room(count, deadline))
            sandbox = await stack.enter_async_context(self._lease(program, deadline))
            results = await asyncio.gather(*(sandbox.spawn() for _ in range(count)), return_exceptions=True)
            self._workers.trim_ahead()
            workers = [result for result in results if isinstance(result, Worker)]
            try:
                for result in results:
                    if isinstance(result, BaseException):
                        raise result
                yield workers
            finally:
                for worker in workers:
                    sandbox.release(worker)

    def forget(self, digest: str) -> None:
        """End a program's sandbox, unless it is in use: it will not be wanted again."""
        place = self._places.get(digest)
        if place is not None and place.users == 0:
            del self._places[digest]
            self._retire(place.ready)
            self._made_room()

    def _running(self) -> list[Sandbox]:
        return [
            place.ready.result() for place in self._places.values() if place.ready.done() and self._is_usable(place)
        ]

    @asynccontextmanager
    async def _lease(self, program: Program, deadline: float) -> AsyncIterator[Sandbox]:
        """Use a program's sandbox; it stays warm afterwards."""
        place = await self._place(program, deadline)
        place.users += 1
        try:
            try:
                sandbox = await asyncio.shield(place.ready)
            except SandboxError as error:
                raise EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, str(error)) from error
            yield sandbox
        finally:
            place.users -= 1
            place.last_used = time.monotonic()
            if not self._is_usable(place) and self._places.get(program.digest) is place:
                del self._places[program.digest]
                self._retire(place.ready)
            self._made_room()

    async def _place(self, program: Program, deadline: float) -> _Place:
        while True:
            if not self._open:
                raise EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, "the sandbox service is stopping")
            place = self._places.get(program.digest)
            if place is not None and self._is_usable(place):
                return place
            if place is not None:
                del self._places[program.digest]
                self._retire(place.ready)
            if self._blank or self._find_room():
                blank = self._blank.popleft() if self._blank else self._start_blank(keep=False)
                place = _Place(asyncio.create_task(self._assign(blank, program)))
                place.ready.add_done_callback(_retrieve)
                self._places[program.digest] = place
                self._refill()
                return place
            await self._wait_for_room(deadline)

    def _is_usable(self, place: _Place) -> bool:
        ready = place.ready
        if not ready.done():
            return True
        return not ready.cancelled() and ready.exception() is None and ready.result().alive

    def _find_room(self) -> bool:
        """Return whether one more sandbox may start, ending the one that is idle for longest if need be."""
        if self.live_sandboxes < self._section.max_sandboxes:
            return True
        idle = [(place.last_used, digest) for digest, place in self._places.items() if place.users == 0]
        if idle:
            _, digest = min(idle)
            metrics.EVICTIONS.labels("count").inc()
            self._retire(self._places.pop(digest).ready)
        return False

    async def _wait_for_room(self, deadline: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        metrics.WAITING.inc()
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await future
        except TimeoutError:
            raise no_room("sandboxes", self._section.max_sandboxes, self._section.queue_seconds) from None
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
            metrics.WAITING.dec()

    def _made_room(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    def _start_blank(self, *, keep: bool = True) -> asyncio.Task[Sandbox]:
        task = asyncio.create_task(self._started())
        task.add_done_callback(_retrieve)
        if keep:
            self._blank.append(task)
        return task

    async def _started(self) -> Sandbox:
        sandbox = Sandbox(
            self._home, next(self._names), most_ahead=self._section.prefork, room_ahead=self._workers.room_ahead
        )
        try:
            async with self._starts:
                await sandbox.start()
        except BaseException:
            await asyncio.shield(sandbox.close())
            raise
        return sandbox

    async def _assign(self, blank: asyncio.Task[Sandbox], program: Program) -> Sandbox:
        try:
            sandbox = await blank
        except SandboxError as error:
            _log.warning("a sandbox did not start; trying once more", error=str(error))
            sandbox = await self._started()
        if not sandbox.alive:
            await sandbox.close()
            sandbox = await self._started()
        try:
            await sandbox.load(program)
        except BaseException:
            await asyncio.shield(sandbox.close())
            raise
        return sandbox

    def _refill(self) -> None:
        """Start blank sandboxes ahead of need while there is room that nobody uses."""
        while len(self._blank) < PREWARMED and self.live_sandboxes < self._section.max_sandboxes and self._open:
            self._start_blank()
        metrics.SANDBOXES.labels("blank").set(len(self._blank))
        metrics.SANDBOXES.labels("program").set(len(self._places))

    def _retire(self, ready: asyncio.Task[Sandbox]) -> None:
        task = asyncio.create_task(self._end(ready))
        self._closing.add(task)
        task.add_done_callback(self._ended)

    async def _end(self, ready: asyncio.Task[Sandbox]) -> None:
        if not ready.done():
            ready.cancel()
        await asyncio.wait([ready])
        if not ready.cancelled() and ready.exception() is None:
            await ready.result().close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a sandbox did not end cleanly", error=str(task.exception()))
        self._made_room()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            running = self._running()
            # Away from the loop: in a pod this reads files of every worker.
            used = await loop.run_in_executor(self._looker, _memory_of, running)
            for sandbox, amount in zip(running, used, strict=True):
                sandbox.limit_memory(amount)
                sandbox.tidy()
            self._evict(dict(zip(running, used, strict=True)))
            metrics.WORKER_PROCESSES.set(sum(sandbox.processes for sandbox in running))
            metrics.MEMORY.set(sum(used))
            # Looking takes no more than a fifth of the time, however many there are.
            await asyncio.sleep(max(POLL_SECONDS, 4 * (loop.time() - began)))

    def _evict(self, used: dict[Sandbox, int]) -> None:
        """End idle sandboxes that nobody has wanted for long, and those unused longest while all use too much."""
        now, total = time.monotonic(), sum(used.values())
        most = None if self._section.memory_mb is None else self._section.memory_mb << 20
        idle = [item for item in self._places.items() if item[1].users == 0 and item[1].ready.done()]
        for digest, place in sorted(idle, key=lambda item: item[1].last_used):
            if now - place.last_used > self._section.idle_seconds:
                reason = "age"
            elif most is not None and total > most:
                reason = "memory"
                total -= used.get(place.ready.result(), 0) if self._is_usable(place) else 0
            else:
                break
            metrics.EVICTIONS.labels(reason).inc()
            del self._places[digest]
            self._retire(place.ready)


def _memory_of(sandboxes: Sequence[Sandbox]) -> list[int]:
    return [sandbox.used_memory() for sandbox in sandboxes]


def _retrieve(task: asyncio.Task[Sandbox]) -> None:
    """Look at a task's exception, which whoever waits gets too, so that nothing is logged as never retrieved."""
    if not task.cancelled():
        task.exception()
