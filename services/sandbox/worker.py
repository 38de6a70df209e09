"""The host's end of one worker: scripts of operations out, checked answers in, a deadline on every call.

A worker is good for one script after the other until something breaks; then every further use raises the same
``EpisodeError``. Its process is killed by the sandbox when ``close`` is called, whatever state it is in.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spade_rl.sandbox import metrics
from spade_rl.sandbox.answers import Refusal, Reset, Step, parse_reset, parse_solution, parse_steps, refusal
from spade_rl.sandbox.frames import Frame, FrameReader, ProtocolViolation, encode
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Limits, Origin

# Part of the deadline after which a worker reports the steps of a batch that it has done.
FLUSH_SHARE = 0.25
# How long an exit may be reported after the connection broke.
EXIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """Run the program's top level."""


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Make a fresh instance from a seed."""

    seed: int


@dataclass(frozen=True, slots=True)
class Solve:
    """Ask the oracle of the current instance."""


@dataclass(frozen=True, slots=True)
class Take:
    """Take actions one after the other until one ends the episode; None: those that the oracle named last."""

    actions: tuple[str, ...] | None


Operation = Load | ResetTo | Solve | Take


@dataclass(frozen=True, slots=True)
class Loaded:
    """The program's top level has run."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The oracle's actions."""

    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The results of the actions that were taken."""

    steps: tuple[Step, ...]


Answer = Loaded | Reset | Solution | Steps | Refusal


def _wire(operation: Operation) -> list[object]:
    match operation:
        case Load():
            return ["load"]
        case ResetTo(seed):
            return ["reset", seed]
        case Solve():
            return ["solution"]
        case Take(actions):
            return ["step", None if actions is None else list(actions)]


def describe(operation: Operation) -> str:
    """Name an operation as its author knows it."""
    match operation:
        case Load():
            return "the program's top level"
        case ResetTo(seed):
            return f"reset(seed={seed})"
        case Solve():
            return "solution()"
        case Take():
            return "step()"


@dataclass(slots=True)
class _Script:
    operations: Sequence[Operation]
    go_on: bool
    sequence: int
    nonce: int
    done: asyncio.Future[None]
    answers: list[Answer] = field(default_factory=list)
    # Seconds that passed until each answer, as the host saw them.
    seconds: list[float] = field(default_factory=list)
    steps: tuple[Step, ...] = ()
    since: float = 0.0
    received: int = 0


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a script brought: an answer and its seconds for every operation that was finished."""

    answers: tuple[Answer, ...]
    seconds: tuple[float, ...]
    # What ended the worker before the script was over.
    error: EpisodeError | None


class Worker(asyncio.Protocol):
    """One worker. ``user`` is its name towards the zygote; ``on_lost`` is called if it hangs up first."""

    def __init__(
        self,
        *,
        user: int,
        limits: Limits,
        exit_status: asyncio.Future[int | None],
        why_lost: Callable[[], EpisodeError | None],
        on_lost: Callable[[Worker], None],
    ) -> None:
        self.user = user
        self._limits = limits
        self._exit_status = exit_status
        self._why_lost = why_lost
        self._on_lost = on_lost
        self._reader = FrameReader(limits.frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._script: _Script | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sequence = 0
        self._error: EpisodeError | None = None
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Task[None] | None = None

    # What the connection calls.

    def attach(self, transport: asyncio.Transport) -> None:
        """Take over a connection whose hello has been read."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read frames; whatever is not an expected answer ends the worker."""
        if self._error is not None:
            return
        try:
            self._count(len(data))
            for frame in self._reader.feed(data):
                self._answered(frame)
        except ProtocolViolation as violation:
            self._kill(
                EpisodeError(Origin.ENVIRONMENT, FaultKind.PROTOCOL, f"the worker broke the protocol: {violation}")
            )
        except EpisodeError as error:
            self._kill(error)

    def connection_lost(self, _exception: Exception | None) -> None:
        """Find out why the worker is gone, for whoever waits."""
        if self._error is None and self._lost is None:
            self._disarm()
            self._lost = self._loop.create_task(self._explain_loss())
            self._on_lost(self)

    # What the service calls.

    @property
    def error(self) -> EpisodeError | None:
        """What ended it, if anything did."""
        return self._error

    async def run(self, operations: Sequence[Operation], *, go_on: bool = False) -> Transcript:
        """Run operations in order.

        The first fault of the environment ends the script unless ``go_on`` is set; it is an answer, not an exception.
        What ends the worker itself (a deadline, a crash) is the transcript's ``error``.
        """
        if self._script is not None:
            raise RuntimeError("a worker runs one script at a time")
        if self._error is not None or self._transport is None:
            return Transcript((), (), self._error or _gone())
        self._sequence += 1
        script = _Script(
            operations, go_on, self._sequence, secrets.randbits(64), self._loop.create_future(), since=time.monotonic()
        )
        self._script = script
        message = {
            "operations": [_wire(operation) for operation in operations],
            "go_on": go_on,
            "flush_seconds": self._limits.call_seconds * FLUSH_SHARE,
        }
        self._transport.write(encode(script.sequence, script.nonce, message))
        self._arm()
        try:
            await script.done
        finally:
            self._disarm()
            self._script = None
        return Transcript(tuple(script.answers), tuple(script.seconds), self._error)

    def close(self) -> None:
        """Hang up; the sandbox kills the process."""
        self._fail(_gone())

    def lose(self, error: EpisodeError) -> None:
        """It never started: whoever uses it is told so."""
        self._fail(error)

    # How it works.

    def _count(self, received: int) -> None:
        script = self._script
        if script is None:
            return
        script.received += received
        limit = self._limits.output_bytes
        if script.received > limit:
            raise EpisodeError(
                Origin.ENVIRONMENT,
                FaultKind.OUTPUT,
                f"the answers to one call have more than {limit} bytes together; show less, or take fewer actions at once",
            )

    def _answered(self, frame: Frame) -> None:
        script = self._script
        if script is None or frame.sequence != script.sequence or frame.nonce != script.nonce:
            raise ProtocolViolation("an answer came that nothing had asked for")
        if len(script.answers) >= len(script.operations):
            raise ProtocolViolation("more answers came than were asked for")
        operation = script.operations[len(script.answers)]
        answer = self._checked(operation, script, frame)
        now = time.monotonic()
        if answer is not None:
            script.answers.append(answer)
            script.seconds.append(now - script.since)
            if len(script.answers) == len(script.operations) or (isinstance(answer, Refusal) and not script.go_on):
                self._disarm()
                if not script.done.done():
                    script.done.set_result(None)
                return
        script.since = now
        self._arm()

    def _checked(self, operation: Operation, script: _Script, frame: Frame) -> Answer | None:
        """Return the answer, or None if it is a part and more will come."""
        message = frame.message
        refused = refusal(message)
        if refused is not None:
            script.steps = ()
            return refused
        match operation:
            case Load():
                return Loaded()
            case ResetTo():
                return parse_reset(message, self._limits)
            case Solve():
                return Solution(parse_solution(message, self._limits))
            case Take(actions):
                asked = self._limits.solution_steps if actions is None else len(actions)
                more = message.get("more") is True
                part = parse_steps(message, self._limits, most=asked - len(script.steps))
                if more and not part:
                    raise ProtocolViolation("a part of an answer is empty")
                script.steps += part
                if more:
                    return None
                steps, script.steps = script.steps, ()
                if actions is not None:
                    _check_complete(steps, len(actions))
                return Steps(steps)

    def _arm(self) -> None:
        self._disarm()
        script = self._script
        if script is None:
            return
        operation = script.operations[len(script.answers)]
        several = isinstance(operation, Take) and (operation.actions is None or len(operation.actions) > 1)
        seconds = self._limits.call_seconds * (1 + FLUSH_SHARE if several else 1)
        self._timer = self._loop.call_later(seconds, self._late, operation)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self, operation: Operation) -> None:
        seconds = self._limits.call_seconds
        self._kill(
            EpisodeError(
                Origin.ENVIRONMENT,
                FaultKind.DEADLINE,
                f"{describe(operation)} did not return within {seconds:g} s; is there an endless loop?",
            )
        )

    async def _explain_loss(self) -> None:
        await asyncio.wait([self._exit_status], timeout=EXIT_SECONDS)
        known = self._exit_status.done() and not self._exit_status.cancelled()
        status = self._exit_status.result() if known else None
        error = self._why_lost() or _ended(status)
        if error.kind is FaultKind.CPU:
            # The kernel killed it, by the service's limit.
            metrics.KILLS.labels(error.kind.value).inc()
        self._fail(error)

    def _kill(self, error: EpisodeError) -> None:
        if self._error is None:
            metrics.KILLS.labels(error.kind.value).inc()
        self._fail(error)

    def _fail(self, error: EpisodeError) -> None:
        if self._error is None:
            self._error = error
        self._disarm()
        if self._transport is not None:
            self._transport.abort()
        script = self._script
        if script is not None and not script.done.done():
            script.done.set_result(None)


def _check_complete(steps: tuple[Step, ...], asked: int) -> None:
    """Refuse results that go on after an end, or stop before one although actions are left."""
    if any(step.ended for step in steps[:-1]) or (len(steps) < asked and not (steps and steps[-1].ended)):
        raise ProtocolViolation(f"{len(steps)} results came for {asked} actions")


def _gone() -> EpisodeError:
    return EpisodeError(Origin.SANDBOX, FaultKind.SANDBOX, "the worker has ended")


def _ended(status: int | None) -> EpisodeError:
    if status is None:
        return EpisodeError(Origin.ENVIRONMENT, FaultKind.EXIT, "the environment's process closed its connection")
    if status == -signal.SIGXCPU:
        return EpisodeError(Origin.ENVIRONMENT, FaultKind.CPU, "the environment's process used too much CPU time")
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return EpisodeError(Origin.ENVIRONMENT, FaultKind.EXIT, f"the environment's process was ended by {name}")
    return EpisodeError(
        Origin.ENVIRONMENT, FaultKind.EXIT, f"the environment ended its process (status {status}); it must not"
    )
