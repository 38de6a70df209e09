"""The probe pod: does generated code really run under gVisor here, and can the images be had?

One pod under the RuntimeClass, one container for every image. The first one says what kernel it sees. The pod keeps to the
strictest Pod Security level, gets no token, and is removed afterwards.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spade_rl.cluster.kube import TIMEOUT, Connection, asking

PROBE_SECONDS = 300.0
_POLL_SECONDS = 0.5
# Shell alone: every image of ours has one.
_SAY = "echo version: $(cat /proc/version); dmesg 2>/dev/null | head -20; exit 0"
_FATAL = (
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
)
# What containerd and CRI-O report of a handler that they do not know.
_NO_RUNTIME = re.compile(
    r"no runtime for|unknown runtime handler|failed to find runtime handler|RuntimeHandler", re.IGNORECASE
)
# What gVisor's kernel has said of itself in every release so far.
_GVISOR_VERSION = re.compile(r"gvisor|Linux version 4\.4\.0 #1 SMP Sun Jan 10 15:06:54 PST 2016", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of a probe pod.

    ``kernel`` is what the first container saw ("" if it never ran), ``node_kernel`` the kernel of the node that it ran on;
    ``problems`` are by image, ``trouble`` is the whole pod's.
    """

    kernel: str = ""
    node: str = ""
    node_kernel: str = ""
    problems: tuple[tuple[str, str], ...] = ()
    trouble: str = ""
    refused: str = ""

    @property
    def under_gvisor(self) -> bool:
        """Whether the kernel that the pod saw is gVisor's, and not the node's."""
        return bool(_GVISOR_VERSION.search(self.kernel)) and (
            not self.node_kernel or f"version {self.node_kernel}" not in self.kernel
        )


def manifest(
    name: str, images: Sequence[str], *, runtime_class: str, pull_policy: str, pull_secrets: Sequence[str]
) -> dict[str, Any]:
    """Return the pod."""
    containers = [
        {
            "name": f"image-{number}",
            "image": image,
            "imagePullPolicy": pull_policy,
            "command": ["/bin/sh", "-c", _SAY],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        for number, image in enumerate(images)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "spade", "app.kubernetes.io/component": "probe"}},
        "spec": {
            "runtimeClassName": runtime_class,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": int(PROBE_SECONDS),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "imagePullSecrets": [{"name": secret} for secret in pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "runAsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": containers,
        },
    }  # fmt: skip


def progress(pod: dict[str, Any], events: Sequence[str]) -> Probe | None:
    """Return what is known of a pod that will get no further, None while it may."""
    status = pod.get("status") or {}
    images = {one["name"]: one["image"] for one in pod["spec"]["containers"]}
    problems, open_ones = [], len(images)
    for one in status.get("containerStatuses") or []:
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if ended is not None:
            open_ones -= 1
            if ended.get("exitCode"):
                reason = ended.get("message") or ended.get("reason") or "it failed"
                problems.append((images[one["name"]], f"ended with status {ended['exitCode']}: {reason}"))
        elif waiting.get("reason") in (*_FATAL, "ErrImagePull", "ImagePullBackOff"):
            open_ones -= 1
            problems.append((images[one["name"]], f"{waiting['reason']}: {waiting.get('message') or ''}".strip()))
    if open_ones == 0 or status.get("phase") == "Succeeded":
        return Probe(node=pod["spec"].get("nodeName") or "", problems=tuple(problems))
    if status.get("phase") == "Failed":
        return Probe(
            trouble=str(status.get("message") or status.get("reason") or "the pod failed"), problems=tuple(problems)
        )
    unable = [text for text in events if _NO_RUNTIME.search(text)]
    if unable:
        return Probe(trouble=unable[-1], problems=tuple(problems))
    return None


def stuck(pod: dict[str, Any], events: Sequence[str]) -> str:
    """Return why a pod did not get on in the time that it had."""
    for one in (pod.get("status") or {}).get("conditions") or []:
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return f"no node takes it: {one.get('message') or one.get('reason')}"
    return events[-1] if events else "nothing is known of the reason"


def run_probe(connection: Connection, body: dict[str, Any], seconds: float = PROBE_SECONDS) -> Probe:
    """Start the pod, wait for its end, read what it said, and remove it; raises SpadeError if the API refuses."""
    from kubernetes.client import ApiException

    core, namespace = connection.core, connection.namespace
    name = body["metadata"]["name"]
    try:
        with asking("start the probe pod", right=f"create pods in the namespace {namespace}"):
            try:
                core.create_namespaced_pod(namespace, body, _request_timeout=TIMEOUT)
            except ApiException as error:
                if error.status in (400, 403, 422) and "is forbidden: User" not in str(error.body):
                    # Admission: Pod Security, a RuntimeClass that is not there, a quota.
                    return Probe(refused=_message(error))
                raise
        return _watched(connection, name, seconds)
    finally:
        with suppress(ApiException):
            core.delete_namespaced_pod(name, namespace, grace_period_seconds=0, _request_timeout=TIMEOUT)


def probe_name() -> str:
    """Return a name that no other probe has."""
    return f"spade-probe-{uuid.uuid4().hex[:8]}"


def _message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _watched(connection: Connection, name: str, seconds: float) -> Probe:
    core, namespace = connection.core, connection.namespace
    deadline = time.monotonic() + seconds
    while True:
        with asking("look after the probe pod", right=f"get pods in the namespace {namespace}"):
            pod = connection.api.sanitize_for_serialization(
                core.read_namespaced_pod(name, namespace, _request_timeout=TIMEOUT)
            )
        events = _events(connection, name)
        found = progress(pod, events)
        if found is not None:
            return _with_kernel(connection, name, found)
        if time.monotonic() > deadline:
            return Probe(trouble=stuck(pod, events))
        time.sleep(_POLL_SECONDS)


def _events(connection: Connection, name: str) -> list[str]:
    """Return what the cluster reported about the pod; nothing where the caller may not read that."""
    from kubernetes.client import ApiException

    try:
        found = connection.core.list_namespaced_event(
            connection.namespace, field_selector=f"involvedObject.name={name}", _request_timeout=TIMEOUT
        )
    except ApiException:
        return []
    return [" ".join(str(one.message).split())[:400] for one in found.items if one.type != "Normal"]


def _with_kernel(connection: Connection, name: str, found: Probe) -> Probe:
    from kubernetes.client import ApiException

    core, kernel, node_kernel = connection.core, "", ""
    # Without the rights for these, what they would tell stays unknown.
    with suppress(ApiException):
        kernel = core.read_namespaced_pod_log(name, connection.namespace, container="image-0", _request_timeout=TIMEOUT)
    if found.node:
        with suppress(ApiException):
            node_kernel = core.read_node(found.node, _request_timeout=TIMEOUT).status.node_info.kernel_version
    return Probe(kernel, found.node, node_kernel, found.problems, found.trouble)
