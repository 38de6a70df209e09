"""What an answer of the API server, or none, is told as."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from kubernetes.client import ApiException
from urllib3.exceptions import MaxRetryError

from spade_rl.cluster.kube import asking, upgrading
from spade_rl.errors import ConfigurationError, SpadeError, UnavailableError


def answered(status: int, message: str) -> ApiException:
    error = ApiException(status=status, reason="r")
    error.body = json.dumps({"message": message})
    return error


@pytest.mark.parametrize(
    ("error", "kind", "parts"),
    [
        (answered(401, "Unauthorized"), ConfigurationError, "does not know who you are (Unauthorized); log in again"),
        (answered(403, "no"), ConfigurationError, "you lack the right to list pods"),
        (answered(404, "gone"), ConfigurationError, "cannot look: there is none (gone)"),
        (answered(500, "etcd is slow"), UnavailableError, "cannot look: etcd is slow"),
        (ApiException(status=503, reason="Busy"), UnavailableError, "cannot look: Busy"),
        (MaxRetryError(None, "/", ConnectionRefusedError("refused")), UnavailableError, "does not answer"),
        (ConnectionResetError("reset"), UnavailableError, "does not answer (reset)"),
    ],
)
def test_an_answer_says_what_to_do(error: Exception, kind: type[SpadeError], parts: str) -> None:
    with pytest.raises(kind) as caught, asking("look", right="list pods"):
        raise error
    assert parts in str(caught.value)


HANDSHAKE = 'Handshake status {} Forbidden -+-+- {{"x": 1}} -+-+- {}'


@pytest.mark.parametrize(
    ("status", "body", "kind", "parts"),
    [
        (403, '{"message": "guest cannot"}', ConfigurationError, "you lack the right to forward (guest cannot)"),
        (500, "no such host", UnavailableError, "cannot connect: no such host"),
    ],
)
def test_a_refused_websocket_is_told_like_any_answer(
    status: int, body: str, kind: type[SpadeError], parts: str
) -> None:
    reason = HANDSHAKE.format(status, body)
    with pytest.raises(kind) as caught, upgrading("connect", right="forward"):
        try:
            raise ApiException(status=0, reason=reason)
        except ApiException as error:
            # What the client does with an exception that has no body.
            SimpleNamespace(body=error.body).body.decode("utf-8")
    told = str(caught.value).replace(
        ". Ask whoever runs the cluster for it; `spade --context … doctor` lists all that is needed", ""
    )
    assert parts in told


def test_a_defect_stays_one() -> None:
    with pytest.raises(AttributeError), upgrading("connect", right="forward"):
        raise AttributeError("x")
