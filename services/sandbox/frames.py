"""Frames between the host and what runs inside a sandbox, read with suspicion.

A frame is a header (payload length, sequence number, nonce) and a JSON object. The reader never holds more than one
frame of the allowed length and the bytes that arrived with it; whatever does not fit the format raises
``ProtocolViolation``, and the connection is then of no more use.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spade_rl.sandbox.guest.channel import HEADER


class ProtocolViolation(Exception):
    """The other side sent what no honest peer sends."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: its sequence number and nonce repeat those of the request that it answers."""

    sequence: int
    nonce: int
    message: dict[str, Any]


def encode(sequence: int, nonce: int, message: dict[str, Any]) -> bytes:
    """Return the bytes of one frame."""
    payload = json.dumps(message).encode()
    return HEADER.pack(len(payload), sequence, nonce) + payload


class FrameReader:
    """Cuts a stream of bytes into frames of at most ``limit`` bytes of payload."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that ``data`` completes; raise ProtocolViolation at the first that is none."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= HEADER.size:
            length, sequence, nonce = HEADER.unpack_from(self._buffer)
            if length > self._limit:
                raise ProtocolViolation(f"a frame of {length} bytes was announced; at most {self._limit} are allowed")
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            frames.append(Frame(sequence, nonce, _object(payload)))
        return frames


def _object(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"a frame does not hold JSON: {type(error).__name__}") from None
    if not isinstance(message, dict):
        raise ProtocolViolation(f"a frame holds {type(message).__name__}, not an object")
    return message
