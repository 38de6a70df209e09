"""The connections of one sandbox until they are known, and its zygote's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from spade_rl.sandbox.frames import FrameReader, ProtocolViolation

HELLO_BYTES = 4096
CONTROL_BYTES = 65536


class Peer(asyncio.Protocol):
    """A connection whose owner is not known yet. ``introduced`` is given its greeting, and sets the next protocol.

    A connection that greets wrongly, or says more than its greeting, is dropped.
    """

    def __init__(self, introduced: Callable[[asyncio.Transport, dict[str, Any]], None]) -> None:
        self._introduced = introduced
        self._reader = FrameReader(HELLO_BYTES)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read the greeting."""
        assert self._transport is not None
        try:
            frames = self._reader.feed(data)
            if len(frames) == 1:
                self._introduced(self._transport, frames[0].message)
            elif frames:
                raise ProtocolViolation("more than one greeting")
        except ProtocolViolation:
            self._transport.abort()


class Control(asyncio.Protocol):
    """The zygote's connection. ``told`` is given what it says, ``lost`` why there will be nothing more."""

    def __init__(self, told: Callable[[dict[str, Any]], None], lost: Callable[[str], None]) -> None:
        self._told = told
        self._lost = lost
        self._reader = FrameReader(CONTROL_BYTES)

    def data_received(self, data: bytes) -> None:
        """Read frames."""
        try:
            for frame in self._reader.feed(data):
                self._told(frame.message)
        except (ProtocolViolation, KeyError, TypeError) as violation:
            self._lost(f"the zygote broke the protocol: {violation}")

    def connection_lost(self, _exception: Exception | None) -> None:
        """Say so."""
        self._lost("the zygote hung up")
