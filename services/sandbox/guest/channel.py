"""Frames inside the sandbox: how the zygote and its workers read and write them.

The JSON is what the ``json`` package makes, by the same C code; the package itself would bring regular expressions,
enums and a dozen other modules that every fork then copies. As a side effect, generated code that patches ``json``
changes nothing here.
"""

from __future__ import annotations

import _json
import _socket
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADER = Struct("!IIQ")
MIB = 1 << 20
CONTROL_BYTES = 4096


class _Reading:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _unknown(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_scan = _json.make_scanner(_Reading)  # type: ignore[arg-type]  # It takes anything with these attributes.
_iterencode = _json.make_encoder(None, _unknown, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)
_iterencode_strictly = _json.make_encoder(
    None, _unknown, _json.encode_basestring_ascii, None, ": ", ", ", False, False, False
)


def to_json(value: Any, *, strict: bool = False) -> str:
    """Return a value as ASCII JSON. If ``strict``, raise ValueError at a number that JSON does not know."""
    return "".join((_iterencode_strictly if strict else _iterencode)(value, 0))


def from_json(text: str) -> Any:
    """Return the value that a JSON text without surrounding blanks stands for."""
    return _scan(text, 0)[0]


def connect(path: str) -> _socket.socket:
    """Return a connection to the host. Of the C type: the Python wrapper would load a dozen modules."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.connect(path)
    return sock


class Channel:
    """One end of a connection, blocking."""

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._buffer = b""

    def receive(self) -> tuple[int, int, Any]:
        """Return sequence number, nonce and object of the next frame; EOFError when the host has hung up."""
        buffer = self._buffer or self._more(CONTROL_BYTES)
        while len(buffer) < HEADER.size:
            buffer += self._more(CONTROL_BYTES)
        length, sequence, nonce = HEADER.unpack_from(buffer)
        end = HEADER.size + length
        if len(buffer) < end:
            parts, missing = [buffer], end - len(buffer)
            while missing:
                part = self._more(min(missing, MIB))
                parts.append(part)
                missing -= len(part)
            buffer = b"".join(parts)
        self._buffer = buffer[end:]
        return sequence, nonce, from_json(buffer[HEADER.size : end].decode("ascii"))

    def send(self, sequence: int, nonce: int, message: dict[str, Any]) -> None:
        """Send one frame."""
        payload = to_json(message).encode("ascii")
        self._sock.sendall(HEADER.pack(len(payload), sequence, nonce) + payload)

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def _more(self, count: int) -> bytes:
        part = self._sock.recv(count)
        if not part:
            raise EOFError
        return part
