"""One episode: a fresh worker, a reset, then steps until an end, a fault, or the time is over.

An episode that is to be replayed has a second worker from the start, which runs nothing until the first is gone: so the
replay waits for no room, and the two cannot talk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from spade_rl.sandbox import metrics
from spade_rl.sandbox.answers import Refusal, Reset, Step, reward_problem
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.program import StaticRefusal
from spade_rl.sandbox.quarantine import Quarantine
from spade_rl.sandbox.replay import Recording, is_replayed
from spade_rl.sandbox.worker import Answer, Load, Operation, ResetTo, Steps, Take, Worker
from spade_rl.seeds import source_digest
from spade_rl.telemetry import get_logger

_log = get_logger(__name__)

# Environments get seeds that every generator takes: numpy's old one knows no more than 32 bits.
SEEDS = 1 << 31
# What a replay may break without that saying anything about whether the environment repeats itself.
_NO_DIFFERENCE = frozenset({FaultKind.DEADLINE, FaultKind.MEMORY})


class Episode:
    """A running episode. Make it with ``open_episode``; every method raises EpisodeError, and then it is over."""

    def __init__(self, worker: Worker, second: Worker | None = None) -> None:
        self._worker = worker
        self._second = second
        self._recording = Recording()
        self._seed = 0
        self.over = False

    async def reset(self, seed: int) -> Reset:
        """Make the instance that ``seed`` (taken modulo 2³¹) stands for, and return its first observation."""
        self._seed = seed % SEEDS
        answer = (await _ask(self._worker, "reset", [Load(), ResetTo(self._seed)]))[-1]
        assert isinstance(answer, Reset)
        if self._second is not None:
            self._recording.begin(answer)
        return answer

    async def step(self, actions: Sequence[str]) -> tuple[Step, ...]:
        """Take actions one after the other until one ends the episode; a replay comes before its result."""
        answer = (await _ask(self._worker, "step", [Take(tuple(actions))]))[-1]
        assert isinstance(answer, Steps)
        for step in answer.steps:
            problem = reward_problem(step.reward)
            if problem:
                raise EpisodeError(Origin.ENVIRONMENT, FaultKind.REWARD, problem)
        self.over = answer.steps[-1].ended
        if self._second is not None:
            self._recording.add(actions, answer.steps)
            if self.over:
                await self._replay(self._second)
        return answer.steps

    async def _replay(self, second: Worker) -> None:
        self._worker.close()
        if not self._recording.is_whole:
            metrics.REPLAYS.labels("too_long").inc()
            return
        try:
            difference = await self._difference(second)
        except BaseException:
            metrics.REPLAYS.labels("broken").inc()
            raise
        metrics.REPLAYS.labels("different" if difference else "equal").inc()
        if difference:
            raise EpisodeError(
                Origin.ENVIRONMENT,
                FaultKind.REPLAY,
                f"played again with the same seed and actions, {difference}; all that differs between instances must "
                "come from the seed",
            )

    async def _difference(self, second: Worker) -> str:
        operations: list[Operation] = [Load(), ResetTo(self._seed), Take(tuple(self._recording.actions))]
        try:
            _, reset, answer = await _ask(second, "replay", operations)
        except EpisodeError as error:
            if error.origin is not Origin.ENVIRONMENT or error.kind in _NO_DIFFERENCE:
                raise
            return f"it failed: {error.kind}: {error.message}"
        assert isinstance(reset, Reset)
        assert isinstance(answer, Steps)
        return self._recording.difference(reset, answer.steps)


async def _ask(worker: Worker, name: str, operations: Sequence[Operation]) -> tuple[Answer, ...]:
    began = time.monotonic()
    transcript = await worker.run(operations)
    metrics.CALL_SECONDS.labels(name).observe(time.monotonic() - began)
    for answer in transcript.answers:
        if isinstance(answer, Refusal):
            raise answer.as_error()
    if transcript.error is not None:
        raise transcript.error
    return transcript.answers


@asynccontextmanager
async def open_episode(pool: Pool, source: str, *, replayed: bool = False) -> AsyncIterator[Episode]:
    """Give an episode of a source, which is played again when it is over if ``replayed``; its workers end with the block.

    Raises EpisodeError; what is raised in the block passes, and an episode that was open for too long ends with one.
    """
    try:
        program = await pool.analysed(source)
    except StaticRefusal as refused:
        kind = FaultKind.IMPORT if refused.gate == "imports" else FaultKind.PROGRAM
        raise EpisodeError(Origin.ENVIRONMENT, kind, refused.message) from None
    async with pool.workers(program, 2 if replayed else 1) as workers:
        try:
            async with asyncio.timeout(pool.episode_seconds):
                yield Episode(*workers)
        except TimeoutError:
            metrics.KILLS.labels(FaultKind.EPISODE_TIME.value).inc()
            # Whoever plays was too slow, not the environment: every call of its own has a deadline.
            raise EpisodeError(
                Origin.SANDBOX, FaultKind.EPISODE_TIME, f"the episode was open for more than {pool.episode_seconds:g} s"
            ) from None


class Episodes:
    """The episodes of one service: which of them are played again, and what their faults mean for their environments."""

    def __init__(self, pool: Pool, *, replay_share: float) -> None:
        self._pool = pool
        self._replay_share = replay_share
        self.quarantine = Quarantine()

    @asynccontextmanager
    async def begin(self, source: str, seed: int) -> AsyncIterator[Episode]:
        """Give an episode; its worker ends with the block. Raises what ``open_episode`` does, and for a quarantine."""
        digest = source_digest(source)
        try:
            self.quarantine.check(digest)
            replayed = is_replayed(self._replay_share, digest, seed % SEEDS)
            async with open_episode(self._pool, source, replayed=replayed) as episode:
                yield episode
                if episode.over:
                    # What another episode was caught at in the meantime voids this one too.
                    self.quarantine.check(digest)
        except EpisodeError as error:
            metrics.FAULTS.labels(error.origin.value, error.kind.value).inc()
            metrics.EPISODES.labels("fault").inc()
            self.judge(digest, error)
            raise
        metrics.EPISODES.labels("over" if episode.over else "left").inc()

    def judge(self, digest: str, error: EpisodeError) -> None:
        """Put an environment under quarantine if what ended its worker says that it has to be."""
        if self.quarantine.judge(digest, error):
            _log.warning(
                "an environment is put under quarantine", digest=digest, kind=error.kind.value, why=error.message
            )
            self._pool.forget(digest)
