"""Many episodes at once: each once, retried where that helps, none ending another."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing

from spade_rl import elastic
from spade_rl.agent.rollout import Rollouts
from spade_rl.agent.trajectory import RETRIED, Arm, Play, PlayedEnvironment, StopReason, Trajectory
from spade_rl.errors import UnavailableError


def plays(count: int) -> list[Play]:
    environment = PlayedEnvironment(digest="0" * 64, source="-", hint="")
    return [Play(str(i), environment, Arm.PLAIN, i, i, 0) for i in range(count)]


async def collect(rollouts: Rollouts, wanted: list[Play], play_once) -> list[Trajectory]:
    async with aclosing(rollouts.play(wanted, play_once)) as trajectories:
        done = [trajectory async for trajectory in trajectories]
    return sorted(done, key=lambda trajectory: trajectory.play.play)


async def test_at_most_so_many_episodes_are_in_flight_over_all_calls():
    rollouts = Rollouts(concurrency=3, retries=0, reachable_seconds=0.0)
    running, most = 0, 0

    async def play_once(play: Play) -> Trajectory:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Trajectory(play, StopReason.TERMINATED)

    done = await asyncio.gather(*(collect(rollouts, plays(20), play_once) for _ in range(3)))
    assert [len(trajectories) for trajectories in done] == [20, 20, 20]
    assert most == 3


async def test_only_failures_of_sandbox_and_engine_are_played_again():
    for reason in StopReason:
        tries: Counter[int] = Counter()

        async def play_once(play: Play, reason=reason, tries=tries) -> Trajectory:
            tries[play.play] += 1
            return Trajectory(play, reason, error="failed" if reason in RETRIED else "")

        done = await collect(Rollouts(concurrency=4, retries=2, reachable_seconds=0.0), plays(5), play_once)
        assert [trajectory.stop_reason for trajectory in done] == [reason] * 5
        assert set(tries.values()) == {3 if reason in RETRIED else 1}


async def test_an_attempt_that_succeeds_counts():
    tries: Counter[int] = Counter()

    async def play_once(play: Play) -> Trajectory:
        tries[play.play] += 1
        failed = tries[play.play] <= play.play
        return Trajectory(play, StopReason.SANDBOX_ERROR if failed else StopReason.TERMINATED, float(not failed))

    done = await collect(Rollouts(concurrency=2, retries=2, reachable_seconds=0.0), plays(4), play_once)
    assert [trajectory.episode_return for trajectory in done] == [1, 1, 1, 0]


async def test_a_bug_in_one_episode_is_void_and_ends_no_other():
    async def play_once(play: Play) -> Trajectory:
        if play.play == 2:
            raise KeyError("oops")
        return Trajectory(play, StopReason.TERMINATED, 1.0)

    done = await collect(Rollouts(concurrency=2, retries=1, reachable_seconds=0.0), plays(5), play_once)
    assert [trajectory.episode_return for trajectory in done] == [1, 1, 0, 1, 1]
    assert done[2].stop_reason is StopReason.ENGINE_ERROR
    assert "oops" in done[2].error


async def test_leaving_early_cancels_and_frees_the_places():
    rollouts = Rollouts(concurrency=2, retries=0, reachable_seconds=0.0)
    cancelled: list[int] = []
    never = asyncio.Event()

    async def play_once(play: Play) -> Trajectory:
        if play.play:
            try:
                await never.wait()
            except asyncio.CancelledError:
                cancelled.append(play.play)
                raise
        return Trajectory(play, StopReason.TERMINATED)

    async with aclosing(rollouts.play(plays(9), play_once)) as trajectories:
        assert (await anext(trajectories)).play.play == 0
        await asyncio.sleep(0)
    assert len(cancelled) <= 2
    never.set()
    assert len(await collect(rollouts, plays(9), play_once)) == 9


async def test_an_episode_whose_sandbox_goes_away_is_played_again_however_often(monkeypatch):
    monkeypatch.setattr(elastic, "PAUSE_SECONDS", 0.0)
    tries: Counter[int] = Counter()

    async def play_once(play: Play) -> Trajectory:
        tries[play.play] += 1
        if tries[play.play] <= 10:
            raise UnavailableError("scaled down")
        return Trajectory(play, StopReason.TERMINATED, 1.0)

    done = await collect(Rollouts(concurrency=2, retries=0, reachable_seconds=60.0), plays(3), play_once)
    assert [trajectory.stop_reason for trajectory in done] == [StopReason.TERMINATED] * 3
    assert set(tries.values()) == {11}


async def test_a_sandbox_that_stays_away_voids_the_episode_and_says_so():
    async def play_once(play: Play) -> Trajectory:
        raise UnavailableError("nobody serves")

    (done,) = await collect(Rollouts(concurrency=1, retries=0, reachable_seconds=0.0), plays(1), play_once)
    assert done.stop_reason is StopReason.SANDBOX_ERROR
    assert done.error == "shutdown: nobody serves"
