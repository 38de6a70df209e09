from __future__ import annotations

from typing import Any

import pytest

from spade_rl.cluster.pods import CoordinatorPod, choose, selector
from spade_rl.errors import ConfigurationError, SpadeError, UnavailableError

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(
    status: dict[str, Any] = READY, *, secret: str | None = "x-spade-coordinator-tls", **metadata: Any
) -> dict[str, Any]:
    volumes = [{"name": "config", "configMap": {"name": "c"}}]
    if secret:
        volumes.append({"name": "tls", "secret": {"secretName": secret}})
    ports = [{"name": "metrics", "containerPort": 9007}, {"name": "grpc", "containerPort": 7007}]
    return {
        "metadata": {"name": "x-spade-coordinator-0", "namespace": "lab", **metadata},
        "spec": {"subdomain": "x-spade-coordinator", "volumes": volumes, "containers": [{"ports": ports}]},
        "status": status,
    }


def chosen(*pods: dict[str, Any], others: int = 6) -> CoordinatorPod:
    return choose(pods, release="x", namespace="lab", others=others)


def test_a_ready_pod_is_where_to_go() -> None:
    assert chosen(pod()) == CoordinatorPod(
        "x-spade-coordinator-0", "lab", 7007, "x-spade-client-tls", "x-spade-coordinator.lab.svc"
    )
    assert selector("x", "coordinator") == "app.kubernetes.io/instance=x,app.kubernetes.io/component=coordinator"


def test_a_release_without_certificates_is_called_in_plain() -> None:
    assert chosen(pod(secret=None)).client_secret == ""


def test_an_annotation_names_the_secret_where_the_user_made_them() -> None:
    with pytest.raises(ConfigurationError, match="annotation spade/client-secret"):
        chosen(pod(secret="mine"))
    assert chosen(pod(secret="mine", annotations={"spade/client-secret": "ours"})).client_secret == "ours"


def waiting(reason: str, **more: Any) -> dict[str, Any]:
    state = {"state": {"waiting": {"reason": reason, "message": "back off"}}, **more}
    return {"phase": "Pending", "containerStatuses": [state]}


@pytest.mark.parametrize(
    ("pods", "others", "error", "message"),
    [
        ([], 0, ConfigurationError, "no release x in the namespace lab.*helm list -A"),
        ([], 6, UnavailableError, "no coordinator pod"),
        ([pod(deletionTimestamp="now")], 6, UnavailableError, "being replaced"),
        ([pod(waiting("ImagePullBackOff"))], 6, UnavailableError, "not ready: ImagePullBackOff back off.*describe pod"),
        (
            [pod(waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 2}}))],
            6,
            UnavailableError,
            "CrashLoopBackOff, it last ended with status 2",
        ),
        (
            [
                pod(
                    {
                        "phase": "Pending",
                        "conditions": [
                            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
                        ],
                    }
                )
            ],
            6,
            UnavailableError,
            "0/1 nodes are available",
        ),
        ([pod({"phase": "Running", "conditions": []})], 6, UnavailableError, "it is running"),
    ],
)
def test_why_there_is_nobody_to_talk_to(
    pods: list[dict[str, Any]], others: int, error: type[SpadeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        choose(pods, release="x", namespace="lab", others=others)


def test_a_pod_that_goes_does_not_hide_the_one_that_comes() -> None:
    assert chosen(pod(deletionTimestamp="now"), pod()).port == 7007


def test_another_chart_is_told() -> None:
    other = pod()
    other["spec"]["containers"][0]["ports"] = []
    with pytest.raises(ConfigurationError, match="no port named grpc"):
        chosen(other)
