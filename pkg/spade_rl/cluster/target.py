"""Where the coordinator is that a command means: a release on a cluster, or an address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from spade_rl.errors import ConfigurationError

DEFAULT_RELEASE = "spade"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Release:
    """A Helm release, in a context of the kubeconfig; without ``namespace`` the context's own."""

    context: str
    namespace: str | None = None
    release: str = DEFAULT_RELEASE

    def __str__(self) -> str:
        where = f", namespace {self.namespace}" if self.namespace else ""
        return f"release {self.release} (context {self.context}{where})"


@dataclass(frozen=True, slots=True)
class Address:
    """A coordinator by its gRPC target; ``tls`` is the folder of the client's certificate, None for a plain connection."""

    address: str
    tls: Path | None = None

    def __str__(self) -> str:
        return self.address


Target = Release | Address


def make_target(
    *,
    context: str | None,
    namespace: str | None,
    release: str | None,
    address: str | None,
    tls: Path | None,
) -> Target | None:
    """Return what the options of the command line mean, None if they name nothing.

    Raises ConfigurationError for options that do not go together and for names that Kubernetes would not take.
    """
    if context is None and address is None:
        for option, value in (("--namespace", namespace), ("--release", release)):
            if value is not None:
                raise ConfigurationError(f"{option} needs --context, a context of your kubeconfig")
        if tls is not None:
            raise ConfigurationError("--tls needs --coordinator, the address that it is for")
        return None
    if context is not None and address is not None:
        raise ConfigurationError("--context and --coordinator name two places: give one of them")
    if address is not None:
        if namespace is not None or release is not None:
            raise ConfigurationError("--namespace and --release go with --context, not with --coordinator")
        return Address(address, tls)
    if tls is not None:
        raise ConfigurationError("--tls goes with --coordinator: with --context the certificate is the release's")
    for option, value in (("--namespace", namespace), ("--release", release)):
        if value is not None and not _NAME.fullmatch(value):
            raise ConfigurationError(
                f"{option} {value!r} is no name of Kubernetes: lower-case letters, digits, hyphens"
            )
    return Release(str(context), namespace, release or DEFAULT_RELEASE)
