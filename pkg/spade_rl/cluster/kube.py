"""The Kubernetes API as the commands use it: a context of the kubeconfig, deadlines, and errors that say what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spade_rl.cluster.target import Release
from spade_rl.errors import ConfigurationError, SpadeError, UnavailableError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

# Seconds to connect, and to wait for an answer.
TIMEOUT = (10, 30)
# How the client words a WebSocket that was refused: the status, the headers, the body.
_HANDSHAKE = re.compile(r"Handshake status (?P<status>\d+).*-\+-\+- (?P<body>.*)$", re.DOTALL)
_EXTRA = "pip install 'spade-rl[cluster]'"


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of one cluster, and the namespace that is meant."""

    api: ApiClient
    context: str
    namespace: str
    release: str

    @property
    def core(self) -> Any:
        """The core API, as ``kubernetes.client.CoreV1Api``."""
        from kubernetes import client

        return client.CoreV1Api(self.api)


def connect(target: Release) -> Connection:
    """Read the kubeconfig and return a client; nothing is sent yet.

    Raises ConfigurationError if there is no such context.
    """
    try:
        from kubernetes import config
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"--context needs the Kubernetes client: {_EXTRA}") from error
    try:
        contexts, _ = config.list_kube_config_contexts()
        known = {str(one["name"]): one for one in contexts}
        if target.context not in known:
            raise ConfigurationError(
                f"your kubeconfig has no context {target.context!r}; it has {', '.join(sorted(known)) or 'none'}"
            )
        api = config.new_client_from_config(context=target.context)
    except config.ConfigException as error:
        raise ConfigurationError(
            f"cannot use your kubeconfig: {error}. KUBECONFIG names the file; by default it is ~/.kube/config"
        ) from error
    # The client's own retries would hide for minutes that nobody answers.
    api.configuration.retries = 1
    api = type(api)(configuration=api.configuration)
    namespace = target.namespace or str(known[target.context].get("context", {}).get("namespace") or "default")
    return Connection(api, target.context, namespace, target.release)


@contextmanager
def asking(what: str, *, right: str = "") -> Iterator[None]:
    """Around calls to the API: failures come out as ``SpadeError`` that says what to do.

    ``right`` is what the caller has to be allowed, such as ``get secrets``.
    """
    from kubernetes.client import ApiException
    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise _of_answer(error, what, right) from error
    except (HTTPError, OSError) as error:
        raise UnavailableError(
            f"cannot {what}: the cluster's API server does not answer ({_short(error)}). Is the cluster up, and the "
            "address in your kubeconfig right?"
        ) from error
    except ConfigException as error:
        raise ConfigurationError(f"cannot {what}: {error}") from error


def translated(status: int | None, reason: str, what: str, right: str) -> SpadeError:
    """Return the error for an answer of the API."""
    if status == 401:
        return ConfigurationError(f"cannot {what}: the cluster does not know who you are ({reason}); log in again")
    if status == 403:
        missing = f"you lack the right to {right}" if right else "you are not allowed to"
        return ConfigurationError(
            f"cannot {what}: {missing}. Ask whoever runs the cluster for it; `spade --context … doctor` lists all that is needed ({reason})"
        )
    if status == 404:
        return ConfigurationError(f"cannot {what}: there is none ({reason})")
    return UnavailableError(f"cannot {what}: {reason}")


@contextmanager
def upgrading(what: str, *, right: str) -> Iterator[None]:
    """Around calls that turn into a WebSocket; see ``asking``.

    The client tells that a cluster refused one as an exception without a body, and fails over that in turn.
    """
    from kubernetes.client import ApiException

    try:
        with asking(what, right=right):
            yield
    except AttributeError as error:
        if not isinstance(error.__context__, ApiException):
            raise
        raise _of_answer(error.__context__, what, right) from error


def _of_answer(error: Any, what: str, right: str) -> SpadeError:
    """Return the error for the client's exception, one that stands for a refused WebSocket among them."""
    refusal = _HANDSHAKE.search(str(error.reason or ""))
    if refusal is None:
        return translated(error.status, _reason(error), what, right)
    try:
        message = json.loads(refusal["body"])["message"]
    except (ValueError, KeyError, TypeError):
        message = refusal["body"] or f"status {refusal['status']}"
    return translated(int(refusal["status"]), _short(message), what, right)


def _reason(error: Any) -> str:
    try:
        message = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError, AttributeError):
        message = error.reason or f"status {error.status}"
    return _short(message)


def _short(text: object) -> str:
    return " ".join(str(text).split())[:300]
