"""One sandbox: a zygote that holds one program, and the workers forked from it.

The sandbox listens on a Unix socket in a folder that only the zygote can enter. The first connection is the
zygote's; every other one is a worker's and begins with the token that was made for it. Workers are forked ahead of
need: who asks for one gets one that waits, if there is one. What the zygote is to do is gathered while the event loop
turns once, and sent as one request: workers to end, workers to fork, a few at a time, so that a request to end one
never waits for long. Everything here runs on the event loop; nothing blocks it for longer than a system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from spade_rl.errors import SandboxError
from spade_rl.sandbox import metrics
from spade_rl.sandbox.connections import Control, Peer
from spade_rl.sandbox.frames import ProtocolViolation, encode
from spade_rl.sandbox.launch import Home, SandboxProcess, launch, setup_of, socket_folder
from spade_rl.sandbox.limits import USERS, EpisodeError, FaultKind, Origin
from spade_rl.sandbox.prefork import Demand
from spade_rl.sandbox.program import Program
from spade_rl.sandbox.rootfs import SOCKET_FOLDER
from spade_rl.sandbox.watchdog import Gauge, open_gauge
from spade_rl.sandbox.worker import Worker

START_SECONDS = 30.0
SPAWN_SECONDS = 30.0
# How long a zygote in the service's pod may take to end its workers.
END_SECONDS = 2.0
# Forks that the zygote is asked for at once.
FORKS = 4
# After a fork that failed, nothing is forked ahead of need for a while.
PAUSE_SECONDS = 5.0


@dataclass(slots=True)
class _Live:
    """A worker that was asked for and has not been reported as gone."""

    user: int
    exit_status: asyncio.Future[int | None]
    worker: Worker | None = None


class Sandbox:
    """A running sandbox. ``start`` it, ``load`` one program, ``spawn`` workers, ``close`` it."""

    def __init__(
        self, home: Home, name: str, *, most_ahead: int = 0, room_ahead: Callable[[], int] = lambda: 0
    ) -> None:
        self.name = name
        self.program: Program | None = None
        self._home = home
        self._setup = setup_of(home, name)
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._process: SandboxProcess | None = None
        self._control: asyncio.Transport | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._loaded: asyncio.Future[str] | None = None
        # By token: those who will say hello; by user: those who live.
        self._expected: dict[str, _Live] = {}
        self._live: dict[int, _Live] = {}
        self._next_user = 0
        self._waiting: deque[Worker] = deque()
        self._wanted: deque[asyncio.Future[Worker]] = deque()
        self._demand = Demand(most_ahead)
        self._room_ahead = room_ahead
        self._no_forks_before = 0.0
        self._to_end: list[int] = []
        self._to_ask: list[int] = []
        self._asking = False
        self._memory: Gauge | None = None
        self._lost: EpisodeError | None = None
        self.closed = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        return self._lost is None

    @property
    def processes(self) -> int:
        """Workers that were asked for and have not been reported as gone."""
        return len(self._live)

    @property
    def ahead(self) -> int:
        """Workers that wait, or are being started, for episodes that nobody has asked for yet."""
        return max(0, len(self._waiting) + len(self._expected) - len(self._wanted))

    async def start(self) -> None:
        """Start the process and wait for its zygote. Raises SandboxError."""
        began = time.monotonic()
        try:
            await self._launch()
        except OSError as error:
            raise SandboxError(f"a sandbox could not start: {error}") from error
        assert self._process is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self._lose(f"it did not start within {START_SECONDS:.0f} s")
        if self._lost is not None:
            raise SandboxError(f"a sandbox could not start: {self._lost}")
        # Away from the loop: the process table is read once.
        memory = await self._loop.run_in_executor(
            None, partial(open_gauge, self._process.pid, pod=self._home.runtime.pod)
        )
        if self._lost is not None:
            if memory is not None:
                memory.close()
            raise SandboxError(f"a sandbox could not start: {self._lost}")
        self._memory = memory
        metrics.SANDBOX_START_SECONDS.observe(time.monotonic() - began)

    async def _launch(self) -> None:
        sockets = socket_folder(self._home, self.name)
        sockets.mkdir(parents=True, mode=0o700)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(sockets / "host.sock"))
        (sockets / "host.sock").chmod(0o600)
        self._server = await self._loop.create_unix_server(lambda: Peer(self._introduced), sock=listener, backlog=512)
        self._process = launch(self._home, self.name, self._exited)

    async def load(self, program: Program) -> None:
        """Give the zygote its program. Raises EpisodeError if it does not compile there, or the sandbox is lost."""
        if self.program is not None:
            raise RuntimeError("a sandbox holds one program for its whole life")
        self.program = program
        self._loaded = self._loop.create_future()
        self._tell(
            {
                "do": "load",
                "source": program.source,
                "class_name": program.class_name,
                "modules": list(program.modules),
                "injected": dict(program.injected),
            }
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                problem = await self._loaded
        except TimeoutError:
            self._lose(f"it did not load a program within {START_SECONDS:.0f} s")
            problem = ""
        if self._lost is not None:
            raise self._lost
        if problem:
            raise EpisodeError(Origin.ENVIRONMENT, FaultKind.PROGRAM, problem)

    async def spawn(self) -> Worker:
        """Return a fresh worker: one that waits, or else one that is forked now. Raises EpisodeError."""
        if self._lost is not None:
            raise self._lost
        began = time.monotonic()
        self._demand.began(began)
        if self._waiting:
            worker = self._waiting.popleft()
            self._ask_zygote()
        else:
            worker = await self._forked()
        metrics.WORKER_START_SECONDS.observe(time.monotonic() - began)
        return worker

    async def _forked(self) -> Worker:
        wanted: asyncio.Future[Worker] = self._loop.create_future()
        self._wanted.append(wanted)
        self._ask_zygote()
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                return await wanted
        except BaseException as error:
            if wanted in self._wanted:
                self._wanted.remove(wanted)
            if wanted.done() and not wanted.cancelled() and wanted.exception() is None:
                self.release(wanted.result())
            if isinstance(error, TimeoutError):
                raise EpisodeError(
                    Origin.SANDBOX, FaultKind.SANDBOX, f"a worker did not start within {SPAWN_SECONDS:.0f} s"
                ) from error
            raise

    def release(self, worker: Worker) -> None:
        """End a worker, whatever it is doing, with all its processes."""
        worker.close()
        if worker.user in self._live:
            self._to_end.append(worker.user)
            self._ask_zygote()

    def end_ahead(self, count: int) -> None:
        """End workers that wait for nobody."""
        for _ in range(min(count, len(self._waiting))):
            self.release(self._waiting.pop())

    def tidy(self) -> None:
        """End workers that have waited in vain."""
        self.end_ahead(self._demand.surplus(time.monotonic(), len(self._waiting)))

    def used_memory(self) -> int:
        """Return the memory that it uses, in bytes; 0 if that is unknown. For any thread; blocks for milliseconds."""
        memory = self._memory
        if memory is not None:
            with contextlib.suppress(OSError, ValueError):  # It has just ended.
                return memory.used_bytes()
        return 0

    def limit_memory(self, used: int) -> None:
        """Kill the sandbox if ``used`` is more than its limit."""
        limit = self._home.limits.sandbox_memory_mb << 20
        if used > limit and self._lost is None:
            self._lose_to_memory()

    def _lose_to_memory(self) -> None:
        metrics.KILLS.labels("sandbox_memory").inc()
        most = self._home.limits.sandbox_memory_mb
        message = f"all episodes of the environment together used more than {most} MB"
        self._lose_as(EpisodeError(Origin.ENVIRONMENT, FaultKind.MEMORY, message))

    async def close(self) -> None:
        """End the sandbox and everything in it; return when the process is gone."""
        self._lose("it was closed")
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    await self._process.ended.wait()

    # What connections and the process report.

    def _introduced(self, transport: asyncio.Transport, message: dict[str, Any]) -> None:
        if self._control is None:
            if not isinstance(message.get("ready"), str):
                raise ProtocolViolation("the zygote did not greet")
            self._control = transport
            transport.set_protocol(Control(self._told, self._lose))
            self._tell(
                {
                    "do": "configure",
                    "limits": self._home.limits.for_guest(),
                    "separate_users": self._setup.separate_users,
                    "die_with_parent": self._setup.die_with_parent,
                    "namespaces": self._setup.namespaces,
                    "strays": self._setup.strays,
                    "socket_folder": SOCKET_FOLDER,
                    "tmp": self._setup.tmp,
                    "path": list(self._setup.path),
                }
            )
            if not self._ready.done():
                self._ready.set_result(None)
            return
        live = self._expected.pop(str(message.get("hello")), None)
        if live is None:
            raise ProtocolViolation("nobody expects this worker")
        live.worker = Worker(
            user=live.user,
            limits=self._home.limits,
            exit_status=live.exit_status,
            why_lost=lambda: self._lost,
            on_lost=self._hung_up,
        )
        live.worker.attach(transport)
        transport.set_protocol(live.worker)
        while self._wanted:
            wanted = self._wanted.popleft()
            if not wanted.done():
                wanted.set_result(live.worker)
                break
        else:
            self._waiting.append(live.worker)
        self._ask_zygote()

    def _hung_up(self, worker: Worker) -> None:
        """A worker closed its connection: ask what became of it, unless the kernel has begun to end the sandbox."""
        if self._lost is None and self._process is not None and self._process.out_of_memory():
            self._lose_to_memory()
        if worker in self._waiting:
            self._waiting.remove(worker)
        if worker.user in self._live:
            self._to_ask.append(worker.user)
            self._ask_zygote()

    def _told(self, message: dict[str, Any]) -> None:
        if "ended" in message:
            for user, status in message["ended"]:
                live = self._live.pop(user, None)
                if live is not None and not live.exit_status.done():
                    live.exit_status.set_result(None if status is None else int(status))
        elif "lost" in message:
            self._not_started(self._live.pop(message["lost"], None), str(message["message"])[:500])
        elif "loaded" in message and self._loaded is not None and not self._loaded.done():
            self._loaded.set_result("" if message["loaded"] is True else str(message["message"])[:2000])

    def _not_started(self, live: _Live | None, why: str) -> None:
        error = EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, f"a worker could not start: {why}")
        self._no_forks_before = time.monotonic() + PAUSE_SECONDS
        if live is None:
            return
        if live.worker is not None:
            live.worker.lose(error)
            return
        self._expected = {token: each for token, each in self._expected.items() if each is not live}
        while self._wanted:
            wanted = self._wanted.popleft()
            if not wanted.done():
                wanted.set_exception(error)
                return

    def _ask_zygote(self) -> None:
        """Tell the zygote what to do when the loop comes round."""
        if not self._asking and self._lost is None:
            self._asking = True
            self._loop.call_soon(self._ask_zygote_now)

    def _ask_zygote_now(self) -> None:
        self._asking = False
        if self._lost is not None:
            return
        forks = [self._expect() for _ in range(self._forks_now())]
        if forks or self._to_end or self._to_ask:
            self._tell({"do": "work", "end": self._to_end, "ask": self._to_ask, "spawn": forks})
            self._to_end, self._to_ask = [], []

    def _forks_now(self) -> int:
        now, free = time.monotonic(), FORKS - len(self._expected)
        if free <= 0:
            return 0
        needed = len(self._wanted) - len(self._expected)
        if now >= self._no_forks_before:
            missing = self._demand.ahead(now) - self.ahead
            needed = max(0, needed) + max(0, min(missing, self._room_ahead()))
        return max(0, min(free, needed))

    def _expect(self) -> tuple[int, str]:
        user = self._setup.first_user + self._next_user % USERS
        self._next_user += 1
        while user in self._live:
            user = self._setup.first_user + self._next_user % USERS
            self._next_user += 1
        token = secrets.token_hex(16)
        self._expected[token] = self._live[user] = _Live(user, self._loop.create_future())
        return user, token

    def _tell(self, message: dict[str, Any]) -> None:
        if self._control is not None and not self._control.is_closing():
            self._control.write(encode(0, 0, message))

    def _exited(self) -> None:
        said = self._process.diagnostics() if self._process is not None else ""
        self._lose(f"its process ended: {said}")
        self.closed.set()

    def _lose(self, why: str) -> None:
        if self._lost is None and self._process is not None and self._process.out_of_memory():
            self._lose_to_memory()
        self._lose_as(EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, f"the sandbox was lost: {why}"))

    def _lose_as(self, error: EpisodeError) -> None:
        if self._lost is not None:
            return
        self._lost = error
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._process is not None:
            if self._home.runtime.pod and self._control is not None:
                # Its workers would become children of the pod's first process; it waits for them when it is hung up on.
                self._process.kill_after(END_SECONDS)
            else:
                self._process.kill()
        if self._server is not None:
            self._server.close()
        if self._control is not None:
            self._control.abort()
        if not self._ready.done():
            self._ready.set_result(None)
        if self._loaded is not None and not self._loaded.done():
            self._loaded.set_result("")
        self._waiting.clear()
        self._expected.clear()
        for wanted in self._wanted:
            if not wanted.done():
                wanted.set_exception(error)
        self._wanted.clear()
        for live in self._live.values():
            if not live.exit_status.done():
                live.exit_status.cancel()
        self._live.clear()
