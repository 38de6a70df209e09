"""The commands against a real API server.

``KUBEBUILDER_ASSETS`` names a folder with ``etcd`` and ``kube-apiserver``, as envtest has it. There is no node: pods are
objects whose state the tests write.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spade_rl.certificates import issue, make_authority

ASSETS = os.environ.get("KUBEBUILDER_ASSETS")
pytestmark = [
    pytest.mark.skipif(not ASSETS, reason="KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver"),
    pytest.mark.timeout(280),
]
SECONDS = 120
LABELS = {"app.kubernetes.io/instance": "spade", "app.kubernetes.io/component": "coordinator"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start etcd and an API server; yields a kubeconfig with the contexts `admin` and `guest`, who may do nothing."""
    folder = tmp_path_factory.mktemp("api")
    authority = make_authority("test", days=2)
    pair = issue(authority, name="kube-apiserver", hosts=["127.0.0.1", "localhost"], client=False, days=2)
    for name, content in (("ca.crt", authority.certificate), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_bytes(content)
    signing = folder / "sa.key"
    subprocess.run(["openssl", "genrsa", "-out", signing, "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text('admin-token,admin,admin,"system:masters"\nguest-token,guest,guest\n')
    etcd, peer, port = free_port(), free_port(), free_port()
    processes = []

    def start(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(subprocess.Popen([f"{ASSETS}/{name}", *arguments], stdout=log, stderr=log))

    start(
        "etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}", f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    )  # fmt: skip
    start(
        "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--tls-cert-file={folder}/tls.crt", f"--tls-private-key-file={folder}/tls.key",
        f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://test", f"--service-account-key-file={signing}",
        f"--service-account-signing-key-file={signing}", "--disable-admission-plugins=ServiceAccount",
    )  # fmt: skip
    users = ("admin", "guest", "nobody")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "admin",
                "clusters": [
                    {"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": f"{folder}/ca.crt"}}
                ],
                "users": [{"name": user, "user": {"token": f"{user}-token"}} for user in users],
                "contexts": [
                    {"name": user, "context": {"cluster": "c", "user": user, "namespace": "lab"}} for user in users
                ],
            }
        )
    )  # fmt: skip
    try:
        wait_until(lambda: ready(port, folder), folder / "kube-apiserver.log")
        yield kubeconfig
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait(SECONDS)


def ready(port: int, folder: Path) -> bool:
    import ssl

    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/readyz", headers={"Authorization": "Bearer admin-token"}
    )
    try:
        return bool(urllib.request.urlopen(request, context=context, timeout=5).read() == b"ok")
    except OSError:
        return False


def wait_until(check: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


@pytest.fixture
def core(api_server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The API as `admin`, with a namespace `lab` that is emptied afterwards; the commands use the same kubeconfig."""
    from kubernetes import client, config

    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(api_server))
    api = client.CoreV1Api(config.new_client_from_config(str(api_server), context="admin"))
    if "lab" not in [one.metadata.name for one in api.list_namespace().items]:
        api.create_namespace({"metadata": {"name": "lab"}})
    yield api
    api.delete_collection_namespaced_pod("lab", grace_period_seconds=0)
    api.delete_collection_namespaced_secret("lab")


def coordinator_pod(core: Any, *, ready: bool = True) -> None:
    core.create_namespaced_pod(
        "lab",
        {
            "metadata": {"name": "spade-coordinator-0", "labels": LABELS},
            "spec": {
                "subdomain": "spade-coordinator",
                "nodeName": "nowhere",
                "containers": [{"name": "c", "image": "i", "ports": [{"name": "grpc", "containerPort": 7007}]}],
                "volumes": [{"name": "tls", "secret": {"secretName": "spade-coordinator-tls"}}],
            },
        },
    )
    status: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    core.patch_namespaced_pod_status("spade-coordinator-0", "lab", {"status": status})


def allow(api_server: Path, *rules: dict[str, Any]) -> None:
    """Give `guest` some rights in the namespace, and no others."""
    from kubernetes import client, config

    rbac = client.RbacAuthorizationV1Api(config.new_client_from_config(str(api_server), context="admin"))
    for name in [one.metadata.name for one in rbac.list_namespaced_role("lab").items]:
        rbac.delete_namespaced_role(name, "lab")
        rbac.delete_namespaced_role_binding(name, "lab")
    rbac.create_namespaced_role("lab", {"metadata": {"name": "guest"}, "rules": list(rules)})
    rbac.create_namespaced_role_binding(
        "lab",
        {
            "metadata": {"name": "guest"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "guest"},
            "subjects": [{"kind": "User", "name": "guest"}],
        },
    )


PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
SECRET = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["spade-client-tls"]}


def refused(result: Any, code: int, *parts: str) -> None:
    assert result.exit_code == code, result.output
    for part in parts:
        assert part in " ".join(result.stderr.split()), result.stderr
    assert "unexpected" not in result.stderr


def test_each_obstacle_is_named_with_what_to_do(spade: Callable[..., Any], core: Any, api_server: Path) -> None:
    allow(api_server)
    refused(spade("--context", "nobody", "status"), 2, "does not know who you are", "log in again")
    refused(spade("--context", "admin", "status"), 2, "no release spade in the namespace lab", "helm list -A")
    refused(spade("--context", "admin", "--namespace", "other", "status"), 2, "in the namespace other")
    refused(spade("--context", "guest", "status"), 2, "you lack the right to list pods in the namespace lab")
    coordinator_pod(core, ready=False)
    refused(spade("--context", "admin", "status"), 1, "is not ready", "describe pod spade-coordinator-0")
    core.patch_namespaced_pod_status(
        "spade-coordinator-0", "lab", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    )
    allow(api_server, PODS)
    refused(spade("--context", "guest", "status"), 2, "you lack the right to get the secret spade-client-tls")
    refused(spade("--context", "admin", "status"), 2, "the secret spade-client-tls", "there is none")


def client_secret(core: Any) -> None:
    authority = make_authority("lab", days=2)
    pair = issue(authority, name="client", hosts=["client"], client=True, days=2)
    content = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    data = {name: base64.b64encode(text).decode() for name, text in content.items()}
    core.create_namespaced_secret("lab", {"metadata": {"name": "spade-client-tls"}, "data": data})


def test_a_port_forward_that_is_forbidden_or_leads_nowhere(
    spade: Callable[..., Any], core: Any, api_server: Path
) -> None:
    coordinator_pod(core)
    client_secret(core)
    allow(api_server, PODS, SECRET)
    refused(spade("--context", "guest", "status"), 2, "get and create pods/portforward in the namespace lab")
    # The pod's node does not exist.
    refused(spade("--context", "admin", "status"), 2, "cannot connect to the pod spade-coordinator-0", "nowhere")


def test_the_preflight_reads_the_cluster(
    spade: Callable[..., Any], as_json: Callable[[str], Any], core: Any, api_server: Path, tmp_path: Path
) -> None:
    from kubernetes import client

    values = tmp_path / "values.yaml"
    values.write_text("autoscaling: {mode: keda}\nagent: {gpus: 2}\nimage: {pullSecrets: [pull]}\n")
    command = ("doctor", "--no-probe", "--json", "--values", str(values))
    before = spade("--context", "admin", *command)
    assert before.exit_code == 1
    problems = {one["name"]: one for one in as_json(before.stdout)["checks"] if one["health"] == "problem"}
    assert set(problems) == {"RuntimeClass", "secret pull", "storage", "GPUs: agent", "KEDA"}
    assert all(one["advice"] for one in problems.values())

    node = client.NodeV1Api(core.api_client)
    storage = client.StorageV1Api(core.api_client)
    node.create_runtime_class({"metadata": {"name": "gvisor"}, "handler": "runsc"})
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage.create_storage_class({"metadata": {"name": "standard", "annotations": default}, "provisioner": "none"})
    core.create_node({"metadata": {"name": "gpu-1"}})
    core.patch_node_status(
        "gpu-1", {"status": {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}}}
    )
    core.create_namespaced_secret("lab", {"metadata": {"name": "pull"}})
    try:
        after = as_json(spade("--context", "admin", *command).stdout)
        assert [one["name"] for one in after["checks"] if one["health"] == "problem"] == ["KEDA"]
        values.write_text("{}")
        assert spade("--context", "admin", *command).exit_code == 0
        allow(api_server, PODS)
        guest = as_json(spade("--context", "guest", *command).stdout)
        denied = [one for one in guest["checks"] if one["name"].startswith("rights: ")]
        assert {one["name"] for one in denied} == {
            "rights: runs from outside",
            "rights: the probe pod of this preflight",
            "rights: helm install",
        }
        assert not any("list pods," in one["found"] for one in denied)
        assert "create pods/portforward" in denied[0]["found"]
    finally:
        node.delete_runtime_class("gvisor")
        storage.delete_storage_class("standard")
        core.delete_node("gpu-1")
