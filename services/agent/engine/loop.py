"""The engine's thread: one loop that owns the model, the cache and the scheduler.

Work arrives through one inbox, results leave through callbacks that the caller makes safe for its own thread. Weights
are exchanged between sequences: while an exchange waits, no waiting sequence starts, and those in flight end on the
version they began with. A step that fails ends every sequence with EngineError; the loop goes on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from spade_rl.agent import metrics
from spade_rl.agent.engine.interface import Generation
from spade_rl.agent.engine.runner import ModelRunner
from spade_rl.agent.engine.sampling import sample
from spade_rl.agent.engine.scheduler import Scheduler, Sequenced, batches
from spade_rl.errors import EngineError
from spade_rl.telemetry import get_logger

# A forward pass of its own costs about as much as these many tokens of padding.
CALL_TOKENS = 192
# Tokens of one prefill pass, padding included, which bounds its memory.
PREFILL_TOKENS = 65536

_log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Job(Sequenced):
    """A sequence and who waits for it. ``done`` is called once, on the engine's thread."""

    index: int = 0
    done: Callable[[Generation | EngineError], None] = lambda _result: None


@dataclass(slots=True, eq=False)
class Exchange:
    """New weights and who waits for them. ``done`` is called once, on the engine's thread."""

    version: int
    make: Callable[[], ModelRunner]
    done: Callable[[EngineError | None], None]
    cancelled: bool = False


@dataclass(slots=True)
class Totals:
    """What the loop has done since it started; read by other threads."""

    generated_tokens: int = 0
    busy_seconds: float = 0.0
    in_flight: int = 0


@dataclass(slots=True)
class EngineLoop:
    """Runs until ``close``. ``runner`` and ``version`` are what the next sequence is sampled from."""

    runner: ModelRunner
    version: int
    scheduler: Scheduler[Job]
    threads: int | None = None
    totals: Totals = field(default_factory=Totals)
    _inbox: queue.SimpleQueue[Sequence[Job] | Exchange | None] = field(default_factory=queue.SimpleQueue)
    _exchanges: list[Exchange] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _closed: bool = False

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """End the thread after the step in progress; whoever still waits gets EngineError."""
        self._inbox.put(None)
        if self._thread is not None:
            self._thread.join(seconds)

    def submit(self, work: Sequence[Job] | Exchange) -> None:
        """Hand over work, from any thread. Raises EngineError if the loop has ended."""
        if self._closed:
            raise EngineError("the engine has stopped")
        self._inbox.put(work)
        if self._closed:
            # The loop may have ended between the two lines above and never look again.
            self._refuse_all()

    def _run(self) -> None:

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        try:
            while self._receive():
                start = time.monotonic()
                try:
                    self._step()
                except Exception as error:
                    self._fail(error)
                busy = time.monotonic() - start
                self.totals.busy_seconds += busy
                metrics.BUSY_SECONDS.inc(busy)
                self.totals.in_flight = self.scheduler.in_flight
                metrics.IN_FLIGHT.set(self.totals.in_flight)
        finally:
            self._closed = True
            self._refuse_all()

    def _receive(self) -> bool:
        """Take what arrived, waiting if there is nothing to do; return False at the end."""
        idle = not self.scheduler.in_flight and not self._exchanges
        while True:
            try:
                work = self._inbox.get(block=idle)
            except queue.Empty:
                return True
            if work is None:
                return False
            if isinstance(work, Exchange):
                self._exchanges.append(work)
            else:
                self.scheduler.submit(work)
            idle = False

    def _step(self) -> None:
        self.scheduler.drop_cancelled()
        self._exchanges = [exchange for exchange in self._exchanges if not exchange.cancelled]
        if self._exchanges and not self.scheduler.decoding:
            self._exchange(self._exchanges.pop(0))
        if not self._exchanges:
            self._prefill()
        if moves := self.scheduler.compact():
            self.runner.move(moves, max(sequence.length for sequence in self.scheduler.live()))
        self._decode()

    def _prefill(self) -> None:
        placed = self.scheduler.place()
        for group in batches([len(job.prompt) for _, job in placed], CALL_TOKENS, PREFILL_TOKENS):
            rows = [placed[i][0] for i in group]
            jobs = [placed[i][1] for i in group]
            metrics.ENGINE_STEPS.labels("prefill").inc()
            metrics.PROMPT_TOKENS.inc(sum(len(job.prompt) for job in jobs))
            self._draw(rows, jobs, self.runner.prefill(rows, [job.prompt for job in jobs]))

    def _decode(self) -> None:
        live = self.scheduler.live()
        if live:
            metrics.ENGINE_STEPS.labels("decode").inc()
            # The newest token is at the end and is not in the cache yet.
            logits = self.runner.decode([job.token_ids[-1] for job in live], [job.length - 1 for job in live])
            self._draw(range(len(live)), live, logits)

    def _draw(self, rows: Sequence[int], jobs: Sequence[Job], logits: torch.Tensor) -> None:
        tokens, log_probs = sample(
            logits,
            [job.temperature for job in jobs],
            [job.seed for job in jobs],
            [len(job.token_ids) for job in jobs],
        )
        self.totals.generated_tokens += len(tokens)
        metrics.GENERATED_TOKENS.inc(len(tokens))
        for job in self.scheduler.record(rows, tokens, log_probs):
            self._finish(job)

    def _finish(self, job: Job) -> None:
        if job.finish_reason is None:
            raise ValueError("the sequence has not ended")
        job.done(
            Generation(
                index=job.index,
                token_ids=tuple(job.token_ids),
                log_probs=tuple(job.log_probs),
                finish_reason=job.finish_reason,
                policy_version=self.version,
            )
        )

    def _exchange(self, exchange: Exchange) -> None:
        try:
            self.runner = exchange.make()
        except Exception as error:
            _log.error("new weights could not be taken", version=exchange.version, exc_info=True)
            exchange.done(EngineError(f"version {exchange.version} could not be loaded: {error}"))
            return
        self.version = exchange.version
        metrics.ENGINE_VERSION.set(self.version)
        exchange.done(None)

    def _fail(self, error: Exception) -> None:
        metrics.ENGINE_FAILURES.inc()
        _log.error("a step of the engine failed", in_flight=self.scheduler.in_flight, exc_info=True)
        self._refuse(self.scheduler.clear(), EngineError(f"the engine failed: {type(error).__name__}: {error}"))

    def _refuse(self, jobs: Sequence[Job], error: EngineError) -> None:
        for job in jobs:
            job.done(error)

    def _refuse_all(self) -> None:
        error = EngineError("the engine has stopped")
        exchanges, self._exchanges = self._exchanges, []
        while True:
            try:
                work = self._inbox.get_nowait()
            except queue.Empty:
                break
            if isinstance(work, Exchange):
                exchanges.append(work)
            elif work is not None:
                self.scheduler.submit(work)
        self._refuse(self.scheduler.clear(), error)
        for exchange in exchanges:
            exchange.done(error)
