"""Plays an environment in paired arms and sums up what came of it.

Every arm is played exactly G times on the same seeds. An environment whose own code fails in play is quarantined: what is
left of its plays is dropped, and the evaluation says why.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from spade_rl.errors import SpadeError
from spade_rl.regret.pairing import PairedRegret, mean, paired_regret
from spade_rl.seeds import play_seeds

PLAIN, HINTED = "plain", "hinted"
MAX_REASON = 4096


@dataclass(frozen=True, slots=True)
class PlannedPlay:
    """One play to be had: its arm, number, seed and the identifier of its trajectory."""

    trajectory_id: str
    arm: str
    play: int
    seed: int


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Played(Generic[T]):
    """What came of one play. ``trajectory`` is carried along unread; ``error`` is set if the play is void."""

    arm: str
    play: int
    episode_return: float
    void: bool
    environment_failed: bool
    error: str
    trajectory: T


@dataclass(frozen=True, slots=True)
class Evaluation(Generic[T]):
    """An environment's plays, by number, plain before hinted, and what they say."""

    digest: str
    played: tuple[Played[T], ...]
    void: tuple[Played[T], ...]
    plain_return: float
    hinted_return: float
    regret: PairedRegret
    quarantine_reason: str


def plan(digest: str, *, run_id: str, run_seed: int, cycle: int, plays: int, hinted: bool) -> list[PlannedPlay]:
    """Return the plays of one environment in one cycle: ``plays`` in each arm, pairs next to each other."""
    arms = (PLAIN, HINTED) if hinted else (PLAIN,)
    return [
        PlannedPlay(trajectory_id=f"{run_id}/c{cycle}/{digest[:16]}/{arm}/{number}", arm=arm, play=number, seed=seed)
        for number, seed in enumerate(play_seeds(run_seed, digest, cycle, plays))
        for arm in arms
    ]


def summarise(digest: str, results: Sequence[Played[T]]) -> Evaluation[T]:
    """Return what an environment's plays say."""
    ordered = sorted(results, key=lambda result: (result.arm != PLAIN, result.play))
    counted = [result for result in ordered if not result.void]
    returns = {
        arm: {result.play: result.episode_return for result in counted if result.arm == arm} for arm in (PLAIN, HINTED)
    }
    failed = [result for result in ordered if result.environment_failed]
    return Evaluation(
        digest=digest,
        played=tuple(counted),
        void=tuple(result for result in ordered if result.void),
        plain_return=mean(list(returns[PLAIN].values())),
        hinted_return=mean(list(returns[HINTED].values())),
        regret=paired_regret(returns[PLAIN], returns[HINTED]),
        quarantine_reason=(failed[0].error or "the environment failed")[:MAX_REASON] if failed else "",
    )


Rollout = Callable[[Sequence[PlannedPlay]], AsyncGenerator[Played[T], None]]
"""Plays what is planned, in any order; leaving the generator early cancels the rest."""


async def evaluate(digest: str, planned: Sequence[PlannedPlay], rollout: Rollout[T]) -> Evaluation[T]:
    """Play one environment and return its evaluation. Raises SpadeError if a play is neither had nor void."""
    results: dict[tuple[str, int], Played[T]] = {}
    async with aclosing(rollout(planned)) as played:
        async for result in played:
            if (result.arm, result.play) in results:
                raise SpadeError(f"the agent played {result.arm} play {result.play} of {digest[:16]} twice")
            results[result.arm, result.play] = result
            if result.environment_failed:
                return summarise(digest, list(results.values()))
    missing = {(play.arm, play.play) for play in planned} ^ results.keys()
    if missing:
        raise SpadeError(f"the agent was asked for {len(planned)} plays of {digest[:16]} and {sorted(missing)} differ")
    return summarise(digest, list(results.values()))
