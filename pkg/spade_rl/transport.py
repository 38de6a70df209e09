"""How connections are protected: mutual TLS between machines, nothing within one.

Both sides show a certificate of the same authority, and the client checks that the server's names the host that it
called. The three files lie in one folder under the names that a Kubernetes secret gives them. Whoever renews them
replaces the files: servers read them at every handshake, channels before every call, so nothing has to be restarted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc

from spade_rl.config import TlsSection
from spade_rl.errors import ConfigurationError
from spade_rl.telemetry import get_logger

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"

_log = get_logger(__name__)


def is_local(address: str) -> bool:
    """Return whether only this machine can reach an address: a Unix socket or loopback."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rsplit("/", 1)[-1].removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def protected(address: str, tls: TlsSection) -> bool:
    """Return whether a connection to or at ``address`` uses TLS; ConfigurationError if it would have to and does not."""
    if address.startswith(("unix:", "unix-abstract:")):
        return False
    if tls.mode == "local" and not is_local(address):
        raise ConfigurationError(
            f"{address} is not on this machine alone, and tls.mode is local: set tls.mode to mutual and tls.folder to a "
            "folder with tls.crt, tls.key and ca.crt; or, on a network that nobody else can reach, tls.mode to off"
        )
    return tls.mode == "mutual"


class _Files:
    """The folder's files as they are now."""

    def __init__(self, tls: TlsSection) -> None:
        self._folder = Path(str(tls.folder))
        self._stamps: tuple[tuple[int, int], ...] | None = None
        self.read()

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Return key, certificate and authority (PEM)."""
        try:
            stamps = self._stamped()
            key, certificate, authority = ((self._folder / name).read_bytes() for name in (KEY, CERTIFICATE, AUTHORITY))
        except OSError as error:
            raise ConfigurationError(f"cannot read the certificates that tls.folder names: {error}") from error
        self._stamps = stamps
        return key, certificate, authority

    def changed(self) -> bool:
        """Return whether they differ from what ``read`` last returned; a file that is missing right now is no change."""
        try:
            return self._stamped() != self._stamps
        except OSError:
            return False

    def _stamped(self) -> tuple[tuple[int, int], ...]:
        found = [(self._folder / name).stat() for name in (KEY, CERTIFICATE, AUTHORITY)]
        return tuple((one.st_ino, one.st_mtime_ns) for one in found)


def server_credentials(tls: TlsSection) -> grpc.ServerCredentials:
    """Return credentials that demand a client certificate and follow the folder's files."""
    files = _Files(tls)

    def current() -> grpc.ServerCertificateConfiguration:
        key, certificate, authority = files.read()
        return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        if not files.changed():
            return None
        try:
            return current()
        except ConfigurationError as error:
            _log.warning("certificates stay as they are", error=str(error))
            return None

    return grpc.dynamic_ssl_server_credentials(current(), renewed, require_client_authentication=True)


class WaitingChannel(grpc.aio.Channel):
    """A channel to one target whose calls wait, up to their deadline, for a peer that is being started.

    Each call says so itself: what a service configuration says of it counts only once the target's name was resolved for
    the first time. With ``tls`` a new connection is opened when the folder's files have changed; calls in flight end on the
    connection that they began on. Without, everything goes in plain.
    """

    def __init__(self, target: str, tls: TlsSection | None, options: Sequence[tuple[str, int | str]]) -> None:
        self._target, self._options = target, list(options)
        self._files = None if tls is None else _Files(tls)
        self._channels: list[grpc.aio.Channel] = []
        self._open()

    def _open(self) -> grpc.aio.Channel:
        if self._files is None:
            self._channels.append(grpc.aio.insecure_channel(self._target, options=self._options))
        else:
            key, certificate, authority = self._files.read()
            credentials = grpc.ssl_channel_credentials(authority, key, certificate)
            self._channels.append(grpc.aio.secure_channel(self._target, credentials, options=self._options))
        return self._channels[-1]

    def _current(self) -> grpc.aio.Channel:
        return self._open() if self._files is not None and self._files.changed() else self._channels[-1]

    def _callable(self, kind: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
        made: dict[int, Any] = {}

        def call(*call_arguments: Any, **call_options: Any) -> Any:
            channel = self._current()
            number = len(self._channels)
            if number not in made:
                made.clear()
                made[number] = getattr(channel, kind)(*arguments, **options)
            # Generated code and users alike may leave it out, or say None.
            if call_options.get("wait_for_ready") is None:
                call_options["wait_for_ready"] = True
            return made[number](*call_arguments, **call_options)

        return call

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        """See ``grpc.aio.Channel``."""
        return self._callable("unary_unary", *arguments, **options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        """See ``grpc.aio.Channel``."""
        return self._callable("unary_stream", *arguments, **options)

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        """See ``grpc.aio.Channel``."""
        return self._callable("stream_unary", *arguments, **options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        """See ``grpc.aio.Channel``."""
        return self._callable("stream_stream", *arguments, **options)

    async def __aenter__(self) -> WaitingChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Close every connection."""
        for channel in self._channels:
            await channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """See ``grpc.aio.Channel``."""
        return self._current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """See ``grpc.aio.Channel``."""
        await self._current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """See ``grpc.aio.Channel``."""
        await self._current().channel_ready()
