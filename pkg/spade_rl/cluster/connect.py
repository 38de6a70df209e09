"""From a target to a coordinator that can be called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from spade_rl.cluster.certificates import ClientCertificate, from_folder, from_secret
from spade_rl.cluster.coordinator import PATIENCE_SECONDS, Coordinator, open_channel
from spade_rl.cluster.kube import TIMEOUT, Connection, asking, connect
from spade_rl.cluster.pods import COMPONENT, CoordinatorPod, choose, selector
from spade_rl.cluster.target import Address, Target
from spade_rl.cluster.tunnel import opened, port_forward


def find_pod(connection: Connection) -> CoordinatorPod:
    """Return the coordinator's pod; raises SpadeError that says why there is none to talk to."""
    namespace, release = connection.namespace, connection.release
    with asking(f"look for the release {release}", right=f"list pods in the namespace {namespace}"):
        found = connection.core.list_namespaced_pod(
            namespace, label_selector=selector(release), _request_timeout=TIMEOUT
        )
    pods = [connection.api.sanitize_for_serialization(pod) for pod in found.items]
    mine = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(COMPONENT) == "coordinator"]
    return choose(mine, release=release, namespace=namespace, others=len(pods) - len(mine))


def read_certificate(connection: Connection, pod: CoordinatorPod) -> ClientCertificate | None:
    """Return the certificate for clients, None if the release uses none."""
    if not pod.client_secret:
        return None
    right = f"get the secret {pod.client_secret} in the namespace {pod.namespace}"
    with asking(f"read the client's certificate, the secret {pod.client_secret}", right=right):
        secret = connection.core.read_namespaced_secret(pod.client_secret, pod.namespace, _request_timeout=TIMEOUT)
    return from_secret(pod.client_secret, secret.data, pod.server_name)


@asynccontextmanager
async def coordinator(target: Target, *, patience: float = PATIENCE_SECONDS) -> AsyncIterator[Coordinator]:
    """Around the use of a target's coordinator; raises SpadeError if there is none or the caller may not reach it."""
    if isinstance(target, Address):
        certificate = from_folder(target.tls) if target.tls is not None else None
        async with open_channel(target.address, certificate) as channel:
            yield Coordinator(channel, name=str(target), patience=patience)
        return
    connection = connect(target)
    # What is wrong from the beginning is told at once; later the connection is made again for a while.
    pod = await asyncio.to_thread(find_pod, connection)
    certificate = await asyncio.to_thread(read_certificate, connection, pod)
    with opened(lambda: find_pod(connection), port_forward(connection)) as tunnel:
        async with open_channel(tunnel.address, certificate) as channel:
            yield Coordinator(channel, name=str(target), trouble=lambda: tunnel.trouble, patience=patience)
