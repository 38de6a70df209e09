"""Rewards are claims: a share of all episodes is played again in a second fresh process, and must come out the same.

Code in the same process as its reward can forge it, and code that reads the clock or unseeded randomness pays by chance.
The first is caught by the admission gates and by bounds; the second by this: same seed and same actions must bring equal
observations, rewards and flags. Infos are not compared: they are not shown to the agent.

Which episodes are played again depends on the environment and the seed alone, so that a run that is repeated replays
the same ones. The replay comes when the episode is over and before its last result is told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from spade_rl.sandbox.answers import Reset, Step
from spade_rl.seeds import SEED_BITS, derive_seed

# The actions of longer episodes are not kept.
RECORDED_CHARACTERS = 16 << 20
# What one action counts for beside its text.
ACTION_OVERHEAD = 64


def is_replayed(share: float, digest: str, seed: int) -> bool:
    """Return whether the episode of ``seed`` is among the ``share`` (0 to 1) of an environment's that are replayed."""
    return derive_seed("replay", digest, seed) < share * (1 << SEED_BITS)


class _Kept(NamedTuple):
    observation: bytes
    reward: float
    terminated: bool
    truncated: bool


class Recording:
    """What an episode showed, in little memory: its actions, and of every result what is needed to compare it."""

    def __init__(self) -> None:
        self._first = b""
        self._results: list[_Kept] = []
        self._size = 0
        self.actions: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether all actions are kept, so that the episode can be played again."""
        return self._size <= RECORDED_CHARACTERS

    def begin(self, reset: Reset) -> None:
        """Note the first observation."""
        self._first = _fingerprint(reset.observation)

    def add(self, actions: Sequence[str], steps: Sequence[Step]) -> None:
        """Note the results of the actions that were taken, which may be fewer than those that were asked for."""
        taken = actions[: len(steps)]
        self._size += sum(map(len, taken)) + ACTION_OVERHEAD * len(taken)
        if not self.is_whole:
            self.actions, self._results = [], []
            return
        self.actions += taken
        self._results += [_kept(step) for step in steps]

    def difference(self, reset: Reset, steps: Sequence[Step]) -> str:
        """Say where a replay first differs; "" if it is the same."""
        if _fingerprint(reset.observation) != self._first:
            return "reset showed another observation the second time"
        for number, (kept, step) in enumerate(zip(self._results, steps, strict=False), start=1):
            changed = _changed(kept, _kept(step))
            if changed:
                return f"step {number} {changed}"
        if len(steps) != len(self._results):
            return f"it was over after {len(self._results)} steps, and after {len(steps)} the second time"
        return ""


def _kept(step: Step) -> _Kept:
    return _Kept(_fingerprint(step.observation), step.reward, step.terminated, step.truncated)


def _fingerprint(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _changed(kept: _Kept, again: _Kept) -> str:
    if kept.observation != again.observation:
        return "showed another observation the second time"
    for name, first, second in (
        ("reward", kept.reward, again.reward),
        ("terminated", kept.terminated, again.terminated),
        ("truncated", kept.truncated, again.truncated),
    ):
        if first != second:
            return f"gave {name} {first}, and {second} the second time"
    return ""
