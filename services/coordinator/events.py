"""The run's event log: one JSON object a line, numbered from 0 without gaps.

It is what progress bars, the report and ``WatchRun`` read. A resumed run cuts the log back to the length that its
checkpoint names, so that no cycle stands in it twice.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from spade_rl.errors import ConfigurationError, SpadeError

Event = dict[str, Any]
Listener = Callable[[Event], None]


def read_events(path: Path) -> list[Event]:
    """Return the events of a log; a last line that a crash cut off is not one."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"cannot read the event log {path}: {error}") from error
    events: list[Event] = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            break
    return events


class EventLog:
    """Appends events to a file and tells them to listeners."""

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        """Open the log; what stands in it stays until ``truncate``."""
        self._path = path
        self._listener = listener
        self._lines = [json.dumps(event) for event in read_events(path)] if path.exists() else []
        self._changed = asyncio.Event()
        self._closed = False
        self._cuts: list[int] = []
        self.stage, self.done, self.total = "", 0, 0

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` events only; watchers that are further go back with it."""
        self._lines = self._lines[:length]
        self._cuts.append(length)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text("".join(f"{line}\n" for line in self._lines))
        temporary.replace(self._path)

    def lines(self) -> list[str]:
        """Return the events so far, each as its line of JSON."""
        return list(self._lines)

    def last(self) -> Event:
        """Return the newest event; an empty one if there is none."""
        return dict(json.loads(self._lines[-1])) if self._lines else {}

    def __len__(self) -> int:
        return len(self._lines)

    def append(self, event: str, **fields: Any) -> None:
        """Write an event, whole or not at all as far as readers can see."""
        full: Event = {"number": len(self._lines), "time": time.time(), "event": event, **fields}
        line = json.dumps(full)
        try:
            with self._path.open("a") as out:
                out.write(f"{line}\n")
        except OSError as error:
            raise SpadeError(f"cannot write the event log {self._path}: {error}") from error
        self._lines.append(line)
        self._changed.set()
        if self._listener:
            self._listener(full)

    def progress(self, *, cycle: int, stage: str, done: int, total: int) -> None:
        """Tell the listener how far a stage is; nothing is written."""
        self.stage, self.done, self.total = stage, done, total
        if self._listener:
            fields = {"cycle": cycle, "stage": stage, "done": done, "total": total}
            self._listener({"time": time.time(), "event": "progress", **fields})

    def close(self) -> None:
        """Nothing more will be appended: watchers end."""
        self._closed = True
        self._changed.set()

    async def watch(self, first: int) -> AsyncIterator[tuple[int, str]]:
        """Yield the events from number ``first`` on, and those to come, until the log is closed.

        When the log is cut back, numbers go back too.
        """
        number, cuts = first, len(self._cuts)
        while True:
            while (number := min([number, *self._cuts[cuts:]])) < len(self._lines):
                cuts = len(self._cuts)
                yield number, self._lines[number]
                number += 1
            cuts = len(self._cuts)
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()
