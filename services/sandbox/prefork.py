"""How many workers wait in a sandbox for episodes that have not been asked for yet.

Pure. As many as episodes began in the last moment, so that those of the next find one; at least one as long as the
sandbox is warm, and never more than the configuration allows. A waiting worker is as fresh as one that is forked when
it is wanted: it has given up its rights and run nothing, not even the program's top level, whose time and faults so
count for the episode that runs it.
"""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 0.5
# After so long without an episode, only one goes on waiting.
QUIET_SECONDS = 10.0


class Demand:
    """Counts the episodes of one sandbox. Times are of one clock, in seconds."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: deque[float] = deque(maxlen=max(1, most))

    def began(self, now: float) -> None:
        """An episode has begun."""
        self._begun.append(now)

    def ahead(self, now: float) -> int:
        """Return how many workers should wait."""
        if not self._begun:
            return 0
        recent = sum(now - begun <= WINDOW_SECONDS for begun in self._begun)
        return min(max(1, recent), self._most)

    def surplus(self, now: float, waiting: int) -> int:
        """Return how many waiting workers are no longer worth their memory."""
        quiet = not self._begun or now - self._begun[-1] > QUIET_SECONDS
        return max(0, waiting - min(1, self._most)) if quiet else 0
