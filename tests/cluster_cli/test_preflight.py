"""What the preflight makes of a cluster: each thing that is missing is named, with what to do about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spade_rl.cluster.preflight import checks, ready
from spade_rl.cluster.probe import Probe
from spade_rl.cluster.survey import Node, Right, Survey, rights, used_devices
from spade_rl.cluster.values import GpuWish, Wishes, read_values, wishes
from spade_rl.errors import ConfigurationError
from spade_rl.health import Check, Health

GVISOR = "version: Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n[    0.000000] Starting gVisor...\n"
GOOD_PROBE = Probe(kernel=GVISOR, node="node-1", node_kernel="6.1.0-18-amd64")
CLUSTER = Survey(
    context="lab",
    namespace="training",
    release="spade",
    version=(1, 36),
    groups=frozenset({"keda.sh/v1alpha1"}),
    namespace_exists=True,
    runtime_classes={"gvisor": "runsc"},
    storage_classes={"standard": True, "fast": False},
    nodes=(
        Node("a", {"pool": "gpu"}, {"nvidia.com/gpu": 4}),
        Node("b", {"pool": "gpu"}, {"nvidia.com/gpu": 4}),
        Node("c", {}, {}),
        Node("d", {"pool": "gpu"}, {"nvidia.com/gpu": 8}, schedulable=False),
    ),
    used={("a", "nvidia.com/gpu"): 1},
)
WISHES = Wishes(images=("spade-sandbox:1",))


def bad(survey: Survey = CLUSTER, wishes: Wishes = WISHES, probe: Probe | None = GOOD_PROBE) -> list[Check]:
    return [check for check in checks(survey, wishes, probe) if check.health is Health.BAD]


def test_a_good_cluster_has_nothing_to_mend() -> None:
    found = checks(CLUSTER, WISHES, GOOD_PROBE)
    assert ready(found)
    assert {check.health for check in found} == {Health.GOOD}
    assert any("a pod ran under it on node-1" in check.found for check in found)


@pytest.mark.parametrize(
    ("changed", "name", "advice"),
    [
        ({"version": (1, 28)}, "Kubernetes", "1.30 or newer"),
        ({"namespace_exists": False}, "namespace", "kubectl create namespace training"),
        ({"runtime_classes": {"kata": "kata"}}, "RuntimeClass", "install gVisor"),
        ({"storage_classes": {"fast": False}}, "storage", "set storage.className"),
        ({"missing_secrets": ("pull",)}, "secret pull", "create the pull secret"),
        ({"denied": (Right("list", "pods", why="runs from outside"),)}, "rights: runs from outside", "list pods"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(changed: dict[str, Any], name: str, advice: str) -> None:
    (check,) = bad(replace(CLUSTER, **changed))
    assert check.name == name
    assert advice in check.advice


@pytest.mark.parametrize(
    ("asked", "name", "advice"),
    [
        ({"storage_class": "gold"}, "storage", "set storage.className to one of them"),
        ({"hpa": True}, "metrics server", "install metrics-server"),
        ({"prometheus": True}, "Prometheus operator", "turn the monitors and rules off"),
        ({"cert_manager": True}, "cert-manager", "tls.mode to generated"),
        ({"agent_sandbox": True}, "agent-sandbox", "sandbox.backend to deployment"),
    ],
)
def test_what_the_values_ask_for_must_be_there(asked: dict[str, Any], name: str, advice: str) -> None:
    (check,) = bad(wishes=replace(WISHES, **asked))
    assert check.name == name
    assert advice in check.advice
    assert not bad(wishes=replace(WISHES, keda=True))


def test_a_claim_that_is_asked_for_must_be_there() -> None:
    asked = replace(WISHES, existing_claim="mine")
    (check,) = bad(replace(CLUSTER, claim_exists=False), asked)
    assert "there is no claim mine" in check.found
    assert not bad(replace(CLUSTER, claim_exists=True, storage_classes={}), asked)


def gpus(service: str, pods: int, each: int, **selector: str) -> GpuWish:
    return GpuWish(service, pods, each, "nvidia.com/gpu", selector)


@pytest.mark.parametrize(
    ("asked", "lacking"),
    [
        ((gpus("agent", 1, 4, pool="gpu"),), []),
        ((gpus("agent", 2, 4, pool="gpu"),), ["GPUs: agent"]),
        # Seven are free, on two nodes: what does not fit together does not fit.
        ((gpus("agent", 1, 4), gpus("learner", 3, 1)), []),
        ((gpus("agent", 1, 4), gpus("learner", 4, 1)), ["GPUs: learner"]),
        ((gpus("learner", 1, 8),), ["GPUs: learner"]),
        ((gpus("agent", 1, 1, pool="other"),), ["GPUs: agent"]),
        ((GpuWish("agent", 1, 1, "amd.com/gpu"),), ["GPUs: agent"]),
    ],
)
def test_gpus_must_fit_together(asked: tuple[GpuWish, ...], lacking: list[str]) -> None:
    assert [check.name for check in bad(wishes=replace(WISHES, gpus=asked))] == lacking


def test_pods_that_run_hold_their_devices() -> None:
    def pod(node: str | None, phase: str, amount: str) -> dict[str, Any]:
        container = {"resources": {"limits": {"nvidia.com/gpu": amount, "memory": "1Gi"}}}
        return {"spec": {"nodeName": node, "containers": [container, {}]}, "status": {"phase": phase}}

    pods = [pod("a", "Running", "2"), pod("a", "Pending", "1"), pod("a", "Succeeded", "4"), pod(None, "Pending", "4")]
    assert used_devices(pods) == {("a", "nvidia.com/gpu"): 3}


@pytest.mark.parametrize(
    ("probe", "name", "found"),
    [
        (replace(GOOD_PROBE, kernel="version: Linux version 6.1.0-18-amd64 (gcc)\n"), "gVisor", "saw another kernel"),
        (Probe(refused='pods "x" is forbidden: violates PodSecurity "restricted"'), "gVisor", "was refused"),
        (Probe(trouble="RuntimeHandler runsc not supported"), "gVisor", "RuntimeHandler runsc not supported"),
        (replace(GOOD_PROBE, problems=(("i:1", "ErrImagePull: no such host"),)), "image i:1", "no such host"),
    ],
)
def test_what_the_probe_says(probe: Probe, name: str, found: str) -> None:
    (check,) = bad(probe=probe)
    assert check.name == name
    assert found in check.found
    assert check.advice


def test_the_nodes_kernel_is_not_gvisor_whatever_it_calls_itself() -> None:
    assert GOOD_PROBE.under_gvisor
    assert not replace(GOOD_PROBE, node_kernel="4.4.0").under_gvisor
    assert replace(GOOD_PROBE, node_kernel="").under_gvisor


def test_what_the_caller_may_not_see_is_not_called_missing() -> None:
    blind = replace(CLUSTER, namespace_exists=None, runtime_classes=None, storage_classes=None, nodes=None, used=None)
    found = checks(blind, replace(WISHES, gpus=(gpus("agent", 1, 1),)), GOOD_PROBE)
    assert ready(found)
    assert [check.name for check in found if check.health is Health.WARNING] == ["RuntimeClass", "storage", "GPUs"]


def test_a_runtime_class_that_the_chart_makes_need_not_be_there() -> None:
    asked = replace(WISHES, creates_runtime_class=True)
    assert not bad(replace(CLUSTER, runtime_classes={}), asked, None)
    assert any(right.resource == "runtimeclasses" and right.cluster_wide for right in rights(asked, "spade"))


def test_rights_follow_what_is_asked_for() -> None:
    def kinds(**asked: Any) -> set[str]:
        return {right.resource for right in rights(replace(WISHES, **asked), "spade")}

    assert {"statefulsets", "persistentvolumeclaims", "networkpolicies", "roles"} <= kinds()
    assert "persistentvolumeclaims" not in kinds(existing_claim="mine")
    assert "scaledobjects" in kinds(keda=True)
    assert "podmonitors" in kinds(prometheus=True)
    assert "roles" not in kinds(generated_certificates=False)


def test_values_say_what_is_asked_for(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(
        "image: {base: registry/spade, digests: {memory: 'sha256:1'}}\n"
        "agent: {gpus: 2, nodeSelector: {pool: gpu}}\n"
        "learner: {gpus: 4, replicas: 2}\n"
        "autoscaling: {mode: keda}\n"
        "monitoring: {podMonitor: {enabled: true}}\n"
    )
    second.write_text("image: {tag: '2'}\nstorage: {className: fast}\nautoscaling: {mode: hpa}\n")
    found = read_values([first, second], "1")
    assert "registry/spade-sandbox:2" in found.images
    assert "registry/spade-memory:2@sha256:1" in found.images
    assert [(one.service, one.pods, one.gpus, dict(one.node_selector)) for one in found.gpus] == [
        ("agent", 1, 2, {"pool": "gpu"}),
        ("learner", 2, 4, {}),
    ]
    assert (found.keda, found.hpa, found.prometheus, found.storage_class) == (False, True, True, "fast")
    assert read_values([first], "1", ["busybox"]).images == ("busybox",)


def test_without_values_the_chart_s_defaults_hold() -> None:
    found = wishes({}, "0.1.0")
    assert found.images[0] == "localhost/spade-sandbox:0.1.0"
    assert (found.runtime_class, found.gpus, found.prometheus, found.access_mode) == (
        "gvisor",
        (),
        False,
        "ReadWriteMany",
    )


@pytest.mark.parametrize("text", ["[", "- 1\n"])
def test_values_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "v.yaml").write_text(text)
    with pytest.raises(ConfigurationError):
        read_values([tmp_path / "v.yaml"], "1")
    with pytest.raises(ConfigurationError):
        read_values([tmp_path / "none.yaml"], "1")
