"""The coordinator's pod, as the API describes it: which one it is, whether it answers, and if not, why.

Pure functions of plain dictionaries in the API's own form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spade_rl.errors import ConfigurationError, SpadeError, UnavailableError

COMPONENT = "app.kubernetes.io/component"
INSTANCE = "app.kubernetes.io/instance"
PORT_NAME = "grpc"
CLIENT_SECRET = "spade/client-secret"
_SUFFIX, _CLIENT_SUFFIX = "-coordinator-tls", "-client-tls"


@dataclass(frozen=True, slots=True)
class CoordinatorPod:
    """Where to go: pod, port, the secret of the client's certificate ("" if the release uses none), the server's name."""

    name: str
    namespace: str
    port: int
    client_secret: str
    server_name: str


def selector(release: str, component: str | None = None) -> str:
    """Return the label selector of a release's pods."""
    return f"{INSTANCE}={release}" + (f",{COMPONENT}={component}" if component else "")


def choose(pods: Sequence[dict[str, Any]], *, release: str, namespace: str, others: int) -> CoordinatorPod:
    """Return the pod to talk to; ``others`` counts the release's other pods.

    Raises ConfigurationError if the release is not there, UnavailableError if its coordinator does not answer yet.
    """
    living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    if not living:
        if pods:
            raise UnavailableError(f"the coordinator of {release} is being replaced: try again in a moment")
        if others:
            raise UnavailableError(
                f"the release {release} has no coordinator pod: `kubectl -n {namespace} get statefulsets,events` says why"
            )
        raise ConfigurationError(
            f"there is no release {release} in the namespace {namespace}: `helm list -A` shows the releases; name it with "
            "--release and --namespace, or install one (`helm install`)"
        )
    ready = [pod for pod in living if _ready(pod)]
    if not ready:
        raise not_ready(living[0], release)
    pod = ready[0]
    return CoordinatorPod(
        name=pod["metadata"]["name"],
        namespace=namespace,
        port=_port(pod),
        client_secret=_client_secret(pod),
        server_name=_server_name(pod, namespace),
    )


def not_ready(pod: dict[str, Any], release: str) -> SpadeError:
    """Return an error that says why a pod does not answer."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    reason = _waiting(status) or _unscheduled(status) or f"it is {str(status.get('phase', 'unknown')).lower()}"
    namespace = pod["metadata"].get("namespace", "default")
    return UnavailableError(
        f"the coordinator of {release} is not ready: {reason}. `kubectl -n {namespace} describe pod {name}` tells more"
    )


def _ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _waiting(status: dict[str, Any]) -> str:
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        if waiting := state.get("waiting"):
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("exitCode")
            ended = f", it last ended with status {last}" if last is not None else ""
            return f"{waiting.get('reason', 'it waits')}{ended} {waiting.get('message') or ''}".strip()
        if terminated := state.get("terminated"):
            return f"it ended with status {terminated.get('exitCode')}"
    return ""


def _unscheduled(status: dict[str, Any]) -> str:
    for one in status.get("conditions") or []:
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return str(one.get("message") or one.get("reason") or "it is not scheduled")
    return ""


def _port(pod: dict[str, Any]) -> int:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            if port.get("name") == PORT_NAME:
                return int(port["containerPort"])
    raise ConfigurationError(
        f"the pod {pod['metadata']['name']} has no port named {PORT_NAME}: another version of the chart made it"
    )


def _client_secret(pod: dict[str, Any]) -> str:
    """Return the name of the secret that holds the client's certificate.

    An annotation names it; otherwise it is called like the coordinator's own, with ``client`` in place of the service.
    """
    named = (pod["metadata"].get("annotations") or {}).get(CLIENT_SECRET)
    if named:
        return str(named)
    for volume in pod["spec"].get("volumes") or []:
        secret = (volume.get("secret") or {}).get("secretName")
        if volume.get("name") == "tls" and secret:
            if secret.endswith(_SUFFIX):
                return str(secret).removesuffix(_SUFFIX) + _CLIENT_SUFFIX
            raise ConfigurationError(
                f"the coordinator's certificate is in the secret {secret}, and nothing says which one is for clients: set "
                f"the annotation {CLIENT_SECRET} of the coordinator's pod"
            )
    return ""


def _server_name(pod: dict[str, Any], namespace: str) -> str:
    """Return the name that the coordinator's certificate proves: that of its service, which is the stateful set's."""
    service = pod["spec"].get("subdomain") or str(pod["metadata"]["name"]).rsplit("-", 1)[0]
    return f"{service}.{namespace}.svc"
