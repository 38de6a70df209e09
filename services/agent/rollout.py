"""Plays many episodes at once, each exactly once.

Places are shared by all calls and given out in the order of asking.
An episode that failed through no fault of its environment is played again from its start; one that fails still
becomes a void trajectory. One whose sandbox service went away (it was scaled down, or killed) is played again for as long
as ``reachable_seconds``, however often that happens. Nothing that happens in one episode ends another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

from spade_rl.agent import metrics
from spade_rl.agent.trajectory import RETRIED, Play, StopReason, Trajectory
from spade_rl.elastic import while_unavailable
from spade_rl.errors import UnavailableError
from spade_rl.telemetry import get_logger, identify

_log = get_logger(__name__)

PlayOnce = Callable[[Play], Awaitable[Trajectory]]


class Rollouts:
    """``concurrency``: episodes in flight, over all calls; ``retries``: further attempts at a failed one."""

    def __init__(self, *, concurrency: int, retries: int, reachable_seconds: float) -> None:
        self._concurrency = concurrency
        self._retries = retries
        self._reachable_seconds = reachable_seconds
        self._places = asyncio.Semaphore(concurrency)

    async def play(self, plays: Sequence[Play], play_once: PlayOnce) -> AsyncGenerator[Trajectory, None]:
        """Yield one trajectory for every play, as they end. Leaving early cancels the rest."""
        results: asyncio.Queue[Trajectory | BaseException] = asyncio.Queue()
        ahead = iter(plays)
        workers = [
            asyncio.create_task(self._work(ahead, play_once, results))
            for _ in range(min(self._concurrency, len(plays)))
        ]
        try:
            for _ in plays:
                result = await results.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(
        self, ahead: Iterator[Play], play_once: PlayOnce, results: asyncio.Queue[Trajectory | BaseException]
    ) -> None:
        try:
            for play in ahead:
                identify(environment=play.environment.digest[:16], trajectory=play.trajectory_id)
                async with self._places:
                    with metrics.IN_PROGRESS.track_inprogress():
                        results.put_nowait(await self._attempts(play, play_once))
        except BaseException as error:
            # Without this the reader would wait for a trajectory that never comes.
            results.put_nowait(error)
            raise

    async def _attempts(self, play: Play, play_once: PlayOnce) -> Trajectory:
        trajectory = await self._attempt(play, play_once)
        for _ in range(self._retries):
            if trajectory.stop_reason not in RETRIED:
                break
            metrics.RETRIES.inc()
            trajectory = await self._attempt(play, play_once)
        metrics.EPISODES.labels(trajectory.stop_reason.value).inc()
        metrics.EPISODE_SECONDS.observe(trajectory.seconds)
        return trajectory

    async def _attempt(self, play: Play, play_once: PlayOnce) -> Trajectory:
        try:
            trajectory = await self._while_unavailable(play, play_once)
        except Exception as error:
            _log.error("an episode failed unexpectedly", exc_info=True)
            return Trajectory(
                play=play, stop_reason=StopReason.ENGINE_ERROR, error=f"internal: {type(error).__name__}: {error}"
            )
        if trajectory.stop_reason in RETRIED:
            _log.warning("an episode failed", error=trajectory.error)
        return trajectory

    async def _while_unavailable(self, play: Play, play_once: PlayOnce) -> Trajectory:
        try:
            return await while_unavailable(
                lambda: play_once(play), seconds=self._reachable_seconds, again=lambda _: metrics.REPLAYS.inc()
            )
        except UnavailableError as error:
            return Trajectory(play=play, stop_reason=StopReason.SANDBOX_ERROR, error=f"{error.boundary}: {error}")
