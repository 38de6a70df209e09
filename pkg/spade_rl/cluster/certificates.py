"""The certificate that a client shows: three PEM files, from a folder or from the release's secret."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spade_rl.errors import ConfigurationError
from spade_rl.transport import AUTHORITY, CERTIFICATE, KEY


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Key, certificate and authority (PEM); ``server_name`` is what the server's certificate has to prove, None its host."""

    key: bytes = field(repr=False)
    certificate: bytes
    authority: bytes
    server_name: str | None = None


def from_secret(name: str, data: Mapping[str, str] | None, server_name: str) -> ClientCertificate:
    """Return the certificate in a secret's data, which is base64."""
    try:
        key, certificate, authority = (
            base64.b64decode((data or {})[one], validate=True) for one in (KEY, CERTIFICATE, AUTHORITY)
        )
    except KeyError as error:
        raise ConfigurationError(
            f"the secret {name} has no {error.args[0]}: it must hold {CERTIFICATE}, {KEY} and {AUTHORITY}"
        ) from error
    except binascii.Error as error:
        raise ConfigurationError(f"the secret {name} cannot be read: {error}") from error
    return ClientCertificate(key, certificate, authority, server_name)


def from_folder(folder: Path) -> ClientCertificate:
    """Return the certificate in a folder."""
    try:
        key, certificate, authority = ((folder / one).read_bytes() for one in (KEY, CERTIFICATE, AUTHORITY))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the client's certificate: {error}. --tls names a folder with {CERTIFICATE}, {KEY} and {AUTHORITY}"
        ) from error
    return ClientCertificate(key, certificate, authority)
