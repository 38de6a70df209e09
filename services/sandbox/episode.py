"""One episode: a fresh worker, a reset, then steps until an end, a fault, or the time is over."""

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
from spade_rl.sandbox.worker import Answer, Load, Operation, ResetTo, Steps, Take, Worker

# Environments get seeds that every generator takes: numpy's old one knows no more than 32 bits.
SEEDS = 1 << 31


class Episode:
    """A running episode. Make it with ``open_episode``; every method raises EpisodeError, and then it is over."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.over = False

    async def reset(self, seed: int) -> Reset:
        """Make the instance that ``seed`` (taken modulo 2³¹) stands for, and return its first observation."""
        answer = await self._ask("reset", [Load(), ResetTo(seed % SEEDS)])
        assert isinstance(answer, Reset)
        return answer

    async def step(self, actions: Sequence[str]) -> tuple[Step, ...]:
        """Take actions one after the other until one ends the episode."""
        answer = await self._ask("step", [Take(tuple(actions))])
        assert isinstance(answer, Steps)
        for step in answer.steps:
            problem = reward_problem(step.reward)
            if problem:
                raise EpisodeError(Origin.ENVIRONMENT, FaultKind.REWARD, problem)
        self.over = answer.steps[-1].ended
        return answer.steps

    async def _ask(self, name: str, operations: Sequence[Operation]) -> Answer:
        began = time.monotonic()
        transcript = await self._worker.run(operations)
        metrics.CALL_SECONDS.labels(name).observe(time.monotonic() - began)
        for answer in transcript.answers:
            if isinstance(answer, Refusal):
                raise answer.as_error()
        if transcript.error is not None:
            raise transcript.error
        return transcript.answers[-1]


@asynccontextmanager
async def open_episode(pool: Pool, source: str) -> AsyncIterator[Episode]:
    """Give an episode of a source; its worker ends with the block.

    Raises EpisodeError; what is raised in the block passes, and an episode that was open for too long ends with one.
    """
    try:
        program = await pool.analysed(source)
    except StaticRefusal as refused:
        kind = FaultKind.IMPORT if refused.gate == "imports" else FaultKind.PROGRAM
        raise EpisodeError(Origin.ENVIRONMENT, kind, refused.message) from None
    async with pool.workers(program, 1) as (worker,):
        try:
            async with asyncio.timeout(pool.episode_seconds):
                yield Episode(worker)
        except TimeoutError:
            # Whoever plays was too slow, not the environment: every call of its own has a deadline.
            raise EpisodeError(
                Origin.SANDBOX, FaultKind.EPISODE_TIME, f"the episode was open for more than {pool.episode_seconds:g} s"
            ) from None
