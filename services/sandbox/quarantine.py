"""Environments that are played no more: those that attacked the protocol, and those that do not repeat themselves.

The list is of one service and one life of it, and bounded; the archive keeps for good that an environment failed in play.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass

from spade_rl.sandbox import metrics
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin

# The oldest entry makes room.
MOST = 1024
KINDS = frozenset({FaultKind.PROTOCOL, FaultKind.REPLAY})


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One environment and why."""

    digest: str
    kind: FaultKind
    message: str


class Quarantine:
    """The list. ``judge`` every fault of an episode or admission, ``check`` before every episode."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: OrderedDict[str, Quarantined] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def judge(self, digest: str, error: EpisodeError) -> bool:
        """Return whether a fault puts its environment under quarantine, which it then is."""
        if error.origin is not Origin.ENVIRONMENT or error.kind not in KINDS:
            return False
        self._entries.setdefault(digest, Quarantined(digest, error.kind, error.message))
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        metrics.QUARANTINED.set(len(self._entries))
        return True

    def reason(self, digest: str) -> str:
        """Say why an environment is under quarantine; "" if it is not."""
        entry = self._entries.get(digest)
        return "" if entry is None else f"under quarantine for an earlier fault: {entry.kind}: {entry.message}"

    def check(self, digest: str) -> None:
        """Raise EpisodeError if an environment is under quarantine."""
        if reason := self.reason(digest):
            raise EpisodeError(Origin.ENVIRONMENT, FaultKind.QUARANTINE, reason)

    def latest(self, count: int) -> list[Quarantined]:
        """Return the latest entries, newest first."""
        return list(itertools.islice(reversed(self._entries.values()), count))
