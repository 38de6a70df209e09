"""One sandbox: a zygote that holds one program, and the workers forked from it.

The sandbox listens on a Unix socket in a folder that only the zygote can enter. The first connection is the
zygote's; every other one is a worker's and begins with the token that was made for it. Everything here runs on the
event loop; nothing blocks it for longer than a system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

from spade_rl.errors import SandboxError
from spade_rl.sandbox import metrics
from spade_rl.sandbox.frames import FrameReader, ProtocolViolation, encode
from spade_rl.sandbox.launch import Home, SandboxProcess, launch, setup_of, socket_folder
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.program import Program
from spade_rl.sandbox.watchdog import open_memory_file, used_bytes
from spade_rl.sandbox.worker import Worker

START_SECONDS = 30.0
SPAWN_SECONDS = 30.0
HELLO_BYTES = 4096
CONTROL_BYTES = 65536


@dataclass(slots=True)
class _Expected:
    """A worker that was asked for: it says hello with its token, and its exit is reported under its user."""

    user: int
    exit_status: asyncio.Future[int]
    hello: asyncio.Future[Worker]


class _Peer(asyncio.Protocol):
    """A connection whose owner is not known yet: it becomes the control connection or a worker's."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._reader = FrameReader(HELLO_BYTES)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            frames = self._reader.feed(data)
            if len(frames) == 1:
                self._sandbox._introduced(self._transport, frames[0].message)
            elif frames:
                raise ProtocolViolation("more than one greeting")
        except ProtocolViolation:
            self._transport.abort()


class _Control(asyncio.Protocol):
    """The zygote's connection."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._reader = FrameReader(CONTROL_BYTES)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._sandbox._told(frame.message)
        except (ProtocolViolation, KeyError, TypeError) as violation:
            self._sandbox._lose(f"the zygote broke the protocol: {violation}")

    def connection_lost(self, _exception: Exception | None) -> None:
        self._sandbox._lose("the zygote hung up")


class Sandbox:
    """A running sandbox. ``start`` it, ``load`` one program, ``spawn`` workers, ``close`` it."""

    def __init__(self, home: Home, name: str) -> None:
        self.name = name
        self.program: Program | None = None
        self.last_used = time.monotonic()
        self._home = home
        self._setup = setup_of(home, name)
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._process: SandboxProcess | None = None
        self._control: asyncio.Transport | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._loaded: asyncio.Future[str] | None = None
        self._expected: dict[str, _Expected] = {}
        self._live: dict[int, _Expected] = {}
        self._next_user = self._setup.first_user
        self._to_spawn: list[tuple[int, str]] = []
        self._memory_file: int | None = None
        self._lost: EpisodeError | None = None
        self.closed = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        return self._lost is None

    @property
    def workers(self) -> int:
        """Live workers."""
        return len(self._live)

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
        self._memory_file = await self._loop.run_in_executor(None, open_memory_file, self._process.pid)
        metrics.SANDBOX_START_SECONDS.observe(time.monotonic() - began)

    async def _launch(self) -> None:
        sockets = socket_folder(self._home, self.name)
        sockets.mkdir(parents=True, mode=0o700)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(sockets / "host.sock"))
        (sockets / "host.sock").chmod(0o600)
        self._server = await self._loop.create_unix_server(lambda: _Peer(self), sock=listener, backlog=512)
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
        """Fork a fresh worker. Raises EpisodeError."""
        if self._lost is not None:
            raise self._lost
        began = time.monotonic()
        user, token = self._next_user, secrets.token_hex(16)
        self._next_user += 1
        expected = _Expected(user, self._loop.create_future(), self._loop.create_future())
        self._expected[token] = self._live[user] = expected
        if not self._to_spawn:
            self._loop.call_soon(self._spawn_waiting)
        self._to_spawn.append((user, token))
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                worker = await expected.hello
        except BaseException as error:
            self._expected.pop(token, None)
            self.kill(user)
            if isinstance(error, TimeoutError):
                raise EpisodeError(
                    Origin.SANDBOX, FaultKind.SANDBOX, f"a worker did not start within {SPAWN_SECONDS:.0f} s"
                ) from error
            raise
        metrics.WORKER_START_SECONDS.observe(time.monotonic() - began)
        return worker

    def release(self, worker: Worker) -> None:
        """End a worker, whatever it is doing."""
        worker.close()
        user = worker.user
        if user in self._live:
            self.kill(user)

    def kill(self, user: int) -> None:
        """Kill all processes of a worker."""
        self._tell({"do": "kill", "workers": [user]})

    def check_memory(self) -> None:
        """Kill the sandbox if it uses more than its limit."""
        if self._memory_file is None or self._lost is not None:
            return
        used, limit = used_bytes(self._memory_file), self._home.limits.sandbox_memory_mb << 20
        if used > limit:
            metrics.KILLS.labels("sandbox_memory").inc()
            self._lose_as(
                EpisodeError(
                    Origin.ENVIRONMENT,
                    FaultKind.MEMORY,
                    f"all episodes of the environment together used more than {limit >> 20} MB",
                )
            )

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
            transport.set_protocol(_Control(self))
            limits = self._home.limits.for_guest(
                first_user=self._setup.first_user, die_with_parent=self._setup.die_with_parent
            )
            self._tell(
                {
                    "do": "configure",
                    "limits": limits,
                    "separate_users": self._setup.separate_users,
                    "tmp": self._setup.tmp,
                    "proc": self._setup.proc,
                    "path": list(self._setup.path),
                }
            )
            if not self._ready.done():
                self._ready.set_result(None)
            return
        expected = self._expected.pop(str(message.get("hello")), None)
        if expected is None or expected.hello.done():
            raise ProtocolViolation("nobody expects this worker")
        worker = Worker(
            user=expected.user,
            limits=self._home.limits,
            exit_status=expected.exit_status,
            why_lost=lambda: self._lost,
        )
        worker.attach(transport)
        transport.set_protocol(worker)
        expected.hello.set_result(worker)

    def _told(self, message: dict[str, Any]) -> None:
        if "exit" in message:
            gone = self._live.pop(message["exit"], None)
            if gone is not None and not gone.exit_status.done():
                gone.exit_status.set_result(int(message["status"]))
            self._not_coming(gone, "its process ended before it started")
        elif "lost" in message:
            self._not_coming(self._live.pop(message["lost"], None), str(message["message"])[:500])
        elif "loaded" in message and self._loaded is not None and not self._loaded.done():
            self._loaded.set_result("" if message["loaded"] is True else str(message["message"])[:2000])

    def _not_coming(self, expected: _Expected | None, why: str) -> None:
        if expected is not None and not expected.hello.done():
            expected.hello.set_exception(
                EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, f"a worker could not start: {why}")
            )

    def _spawn_waiting(self) -> None:
        waiting, self._to_spawn = self._to_spawn, []
        self._tell({"do": "spawn", "workers": waiting})

    def _tell(self, message: dict[str, Any]) -> None:
        if self._control is not None and not self._control.is_closing():
            self._control.write(encode(0, 0, message))

    def _exited(self) -> None:
        said = self._process.diagnostics() if self._process is not None else ""
        self._lose(f"its process ended: {said}")
        self.closed.set()

    def _lose(self, why: str) -> None:
        self._lose_as(EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, f"the sandbox was lost: {why}"))

    def _lose_as(self, error: EpisodeError) -> None:
        if self._lost is not None:
            return
        self._lost = error
        if self._memory_file is not None:
            os.close(self._memory_file)
            self._memory_file = None
        if self._process is not None:
            self._process.kill()
        if self._server is not None:
            self._server.close()
        if self._control is not None:
            self._control.abort()
        if not self._ready.done():
            self._ready.set_result(None)
        if self._loaded is not None and not self._loaded.done():
            self._loaded.set_result("")
        for expected in self._live.values():
            self._not_coming(expected, str(error))
            if not expected.exit_status.done():
                expected.exit_status.cancel()
        self._live.clear()
