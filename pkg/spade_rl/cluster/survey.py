"""What the preflight reads off a cluster. What the caller may not see stays None and is told as unknown, not as missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spade_rl.cluster.kube import TIMEOUT, Connection, asking
from spade_rl.cluster.pods import selector
from spade_rl.cluster.values import Wishes
from spade_rl.errors import ConfigurationError

T = TypeVar("T")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class Right:
    """Something that the caller may be allowed to do; ``why`` says which command or resource needs it."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    name: str = ""
    cluster_wide: bool = False
    why: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {kind}{f'.{self.group}' if self.group else ''}{f' {self.name}' if self.name else ''}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its labels, its devices by name, and whether pods are scheduled on it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    schedulable: bool = True


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is. ``groups`` are API groups with versions; ``used`` are devices that pods hold, by node and device."""

    context: str
    namespace: str
    release: str
    version: tuple[int, int]
    groups: frozenset[str]
    namespace_exists: bool | None = None
    runtime_classes: Mapping[str, str] | None = None
    storage_classes: Mapping[str, bool] | None = None
    claim_exists: bool | None = None
    nodes: tuple[Node, ...] | None = None
    used: Mapping[tuple[str, str], int] | None = None
    denied: tuple[Right, ...] = ()
    installed: int = 0
    missing_secrets: tuple[str, ...] = field(default=())


def rights(wishes: Wishes, release: str) -> list[Right]:
    """Return what the commands need, and what installing the release needs."""
    run = "runs from outside"
    install = "helm install"
    found = [
        Right("list", "pods", why=run),
        # A port-forward over a WebSocket asks for both.
        Right("get", "pods", subresource="portforward", why=run),
        Right("create", "pods", subresource="portforward", why=run),
        Right("get", "secrets", name=f"{release}-client-tls", why=run),
        Right("create", "pods", why="the probe pod of this preflight"),
        Right("delete", "pods", why="the probe pod of this preflight"),
        Right("get", "pods", subresource="log", why="the probe pod of this preflight"),
    ]
    needed = [
        ("", "configmaps"), ("", "secrets"), ("", "services"), ("", "serviceaccounts"),
        ("apps", "deployments"), ("apps", "statefulsets"), ("policy", "poddisruptionbudgets"),
    ]  # fmt: skip
    if not wishes.existing_claim:
        needed.append(("", "persistentvolumeclaims"))
    if wishes.policies:
        needed.append(("networking.k8s.io", "networkpolicies"))
    if wishes.generated_certificates:
        needed += [
            ("batch", "jobs"),
            ("rbac.authorization.k8s.io", "roles"),
            ("rbac.authorization.k8s.io", "rolebindings"),
        ]
    if wishes.hpa:
        needed.append(("autoscaling", "horizontalpodautoscalers"))
    if wishes.keda:
        needed.append(("keda.sh", "scaledobjects"))
    if wishes.cert_manager:
        needed += [("cert-manager.io", "certificates"), ("cert-manager.io", "issuers")]
    if wishes.prometheus:
        needed += [("monitoring.coreos.com", "podmonitors"), ("monitoring.coreos.com", "prometheusrules")]
    found += [Right("create", resource, group=group, why=install) for group, resource in needed]
    if wishes.creates_runtime_class:
        found.append(Right("create", "runtimeclasses", group="node.k8s.io", cluster_wide=True, why=install))
    return found


def read_cluster(connection: Connection, wishes: Wishes) -> Survey:
    """Read the cluster; raises SpadeError if it does not answer at all, or does not know the caller."""
    from kubernetes import client

    api, core, namespace = connection.api, connection.core, connection.namespace
    with asking("ask the cluster for its version"):
        version = client.VersionApi(api).get_code(_request_timeout=TIMEOUT)
        listed = client.ApisApi(api).get_api_versions(_request_timeout=TIMEOUT).groups
    storage, node_api = client.StorageV1Api(api), client.NodeV1Api(api)
    nodes = _allowed(lambda: core.list_node(_request_timeout=TIMEOUT).items)
    pods = _allowed(lambda: core.list_pod_for_all_namespaces(_request_timeout=TIMEOUT).items) if wishes.gpus else []
    classes = _allowed(lambda: node_api.list_runtime_class(_request_timeout=TIMEOUT).items)
    stores = _allowed(lambda: storage.list_storage_class(_request_timeout=TIMEOUT).items)
    mine = _allowed(
        lambda: core.list_namespaced_pod(
            namespace, label_selector=selector(connection.release), _request_timeout=TIMEOUT
        )
    )
    return Survey(
        context=connection.context,
        namespace=namespace,
        release=connection.release,
        version=(_number(version.major), _number(version.minor)),
        groups=frozenset(one.group_version for group in listed for one in group.versions),
        namespace_exists=_exists(lambda: core.read_namespace(namespace, _request_timeout=TIMEOUT)),
        runtime_classes=None if classes is None else {one.metadata.name: one.handler for one in classes},
        storage_classes=None
        if stores is None
        else {one.metadata.name: (one.metadata.annotations or {}).get(DEFAULT_CLASS) == "true" for one in stores},
        claim_exists=_exists(
            lambda: core.read_namespaced_persistent_volume_claim(
                wishes.existing_claim, namespace, _request_timeout=TIMEOUT
            )
        )
        if wishes.existing_claim
        else None,
        nodes=None if nodes is None else tuple(map(_node, nodes)),
        used=None if pods is None else used_devices(map(api.sanitize_for_serialization, pods)),
        denied=tuple(right for right in rights(wishes, connection.release) if not _allows(connection, right)),
        installed=len(mine.items) if mine is not None else 0,
        missing_secrets=tuple(name for name in wishes.pull_secrets if _secret_missing(connection, name)),
    )


def _secret_missing(connection: Connection, name: str) -> bool:
    core, namespace = connection.core, connection.namespace
    return _exists(lambda: core.read_namespaced_secret(name, namespace, _request_timeout=TIMEOUT)) is False


def used_devices(pods: Any) -> dict[tuple[str, str], int]:
    """Return how many of every device the pods hold that have a node and have not ended, by node and device."""
    used: dict[tuple[str, str], int] = {}
    for pod in pods:
        node, phase = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("phase")
        if not node or phase in ("Succeeded", "Failed"):
            continue
        for container in pod["spec"]["containers"]:
            limits: Mapping[str, str] = (container.get("resources") or {}).get("limits") or {}
            for resource, amount in limits.items():
                if "/" in resource:
                    used[node, resource] = used.get((node, resource), 0) + int(amount)
    return used


def _node(node: Any) -> Node:
    taints: Sequence[Any] = node.spec.taints or ()
    amounts = {
        name: int(text) for name, text in (node.status.allocatable or {}).items() if "/" in name and text.isdigit()
    }
    cordoned = bool(node.spec.unschedulable) or any(one.key == "node.kubernetes.io/unschedulable" for one in taints)
    return Node(node.metadata.name, node.metadata.labels or {}, amounts, not cordoned)


def _number(text: str) -> int:
    # Some clusters write 30+.
    digits = "".join(sign for sign in text if sign.isdigit())
    return int(digits or 0)


def _allowed(call: Callable[[], T]) -> T | None:
    """Return an answer, None where the caller may not have it."""
    from kubernetes.client import ApiException

    with asking("look at the cluster"):
        try:
            return call()
        except ApiException as error:
            if error.status == 403:
                return None
            raise


def _exists(call: Callable[[], object]) -> bool | None:
    from kubernetes.client import ApiException

    with asking("look at the cluster"):
        try:
            call()
        except ApiException as error:
            if error.status == 404:
                return False
            if error.status == 403:
                return None
            raise
    return True


def _allows(connection: Connection, right: Right) -> bool:
    """Ask the cluster whether the caller may do something; every user may ask that."""
    from kubernetes import client

    attributes = {
        "verb": right.verb,
        "resource": right.resource,
        "group": right.group,
        "subresource": right.subresource,
        "name": right.name,
        "namespace": "" if right.cluster_wide else connection.namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    with asking("ask for your rights"):
        answer = client.AuthorizationV1Api(connection.api).create_self_subject_access_review(
            body, _request_timeout=TIMEOUT
        )
    if answer.status is None:
        raise ConfigurationError("the cluster does not say what you are allowed to")
    return bool(answer.status.allowed)
