"""Sources that were analysed lately, so that an environment that is played often is parsed once.

What is remembered is bounded by number and by size, refusals included.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from spade_rl.sandbox.program import Program, StaticRefusal, analyse
from spade_rl.seeds import source_digest

MOST_PROGRAMS = 4096
MOST_CHARACTERS = 64 << 20


class Programs:
    """Analyses sources in a thread of its own."""

    def __init__(self, *, most: int = MOST_PROGRAMS, characters: int = MOST_CHARACTERS) -> None:
        self._most, self._room = most, characters
        # By digest: the program, or the gate that refuses it and why. An exception would keep what its traceback saw.
        self._known: OrderedDict[str, Program | tuple[str, str]] = OrderedDict()
        self._parser = ThreadPoolExecutor(1, "sandbox-parser")

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """End the thread."""
        self._parser.shutdown(wait=False)

    async def analysed(self, source: str) -> Program:
        """Return the program that a source is, or raise StaticRefusal."""
        key = source_digest(source.encode("utf-8", "replace").decode())
        known = self._known.pop(key, None)
        if known is None:
            try:
                known = await asyncio.get_running_loop().run_in_executor(self._parser, analyse, source)
            except StaticRefusal as refused:
                known = refused.gate, refused.message
        else:
            self._room += _size(known)
        self._remember(key, known)
        if isinstance(known, tuple):
            raise StaticRefusal(*known)
        return known

    def _remember(self, key: str, known: Program | tuple[str, str]) -> None:
        # Another call for the same source may have ended first.
        replaced = self._known.pop(key, None)
        self._room += 0 if replaced is None else _size(replaced)
        self._known[key] = known
        self._room -= _size(known)
        while len(self._known) > self._most or self._room < 0:
            _, oldest = self._known.popitem(last=False)
            self._room += _size(oldest)


def _size(known: Program | tuple[str, str]) -> int:
    return len(known[1]) if isinstance(known, tuple) else len(known.source)
