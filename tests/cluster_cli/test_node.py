"""The preflight's probe on a real node: KUBECONFIG names the cluster, SPADE_IMAGE_BASE and SPADE_IMAGE_TAG its images.

Works in a namespace of its own, with Pod Security "restricted" enforced.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

IMAGE = f"{os.environ.get('SPADE_IMAGE_BASE', 'localhost/spade')}-sandbox:{os.environ.get('SPADE_IMAGE_TAG', 'dev')}"
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("KUBECONFIG"), reason="KUBECONFIG is not set: there is no cluster to test on"
    ),
    pytest.mark.timeout(280),
]


@pytest.fixture
def lab() -> Iterator[tuple[Any, str, str]]:
    """The API, the current context's name, and a namespace that is removed afterwards."""
    from kubernetes import client, config

    _, current = config.list_kube_config_contexts()
    api = client.CoreV1Api(config.new_client_from_config())
    name = f"spade-outside-{uuid.uuid4().hex[:6]}"
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.create_namespace({"metadata": {"name": name, "labels": level}})
    yield api, current["name"], name
    api.delete_namespace(name)


@pytest.fixture
def other_class(lab: tuple[Any, str, str]) -> Iterator[Callable[[str], str]]:
    """Make a RuntimeClass of a handler; it is removed afterwards."""
    from kubernetes import client

    nodes = client.NodeV1Api(lab[0].api_client)
    made: list[str] = []

    def make(handler: str) -> str:
        name = f"{lab[2]}-{handler}"
        nodes.create_runtime_class({"metadata": {"name": name}, "handler": handler})
        made.append(name)
        return name

    yield make
    for name in made:
        nodes.delete_runtime_class(name)


@pytest.fixture
def doctor(
    spade: Callable[..., Any], as_json: Callable[[str], Any], lab: tuple[Any, str, str], tmp_path: Any
) -> Callable[..., dict[str, Any]]:
    """Examine the cluster; returns the findings by name, and checks that no pod is left."""

    def run(runtime_class: str, *images: str) -> dict[str, Any]:
        values = tmp_path / "values.yaml"
        values.write_text(f"runtimeClass: {{name: {runtime_class}}}\nimage: {{pullPolicy: IfNotPresent}}\n")
        named = [part for image in images or (IMAGE,) for part in ("--image", image)]
        core, context, namespace = lab
        done = spade(
            "--context", context, "--namespace", namespace, "doctor", "--json", "--values", str(values), *named
        )  # fmt: skip
        assert done.exit_code in (0, 1), done.output
        left = [pod for pod in core.list_namespaced_pod(namespace).items if not pod.metadata.deletion_timestamp]
        assert left == []
        return {one["name"]: one for one in as_json(done.stdout)["checks"]}

    return run


def test_a_pod_really_runs_under_gvisor(doctor: Callable[..., dict[str, Any]]) -> None:
    found = doctor("gvisor")
    assert found["gVisor"]["health"] == "ok", found
    assert found["images"]["health"] == "ok"


def test_a_class_that_leads_elsewhere_is_found_out(
    doctor: Callable[..., dict[str, Any]], other_class: Callable[[str], str]
) -> None:
    found = doctor(other_class("runc"))
    assert found["RuntimeClass"]["health"] == "ok"
    assert found["gVisor"]["health"] == "problem"
    assert "saw another kernel" in found["gVisor"]["found"]


def test_a_handler_that_no_node_has_is_found_out(
    doctor: Callable[..., dict[str, Any]], other_class: Callable[[str], str]
) -> None:
    found = doctor(other_class("nobody"))
    assert found["gVisor"]["health"] == "problem"
    assert "nobody" in found["gVisor"]["found"]


def test_an_image_that_cannot_be_had_is_named(doctor: Callable[..., dict[str, Any]]) -> None:
    missing = "registry.invalid/spade-missing:1"
    found = doctor("gvisor", IMAGE, missing)
    assert found["gVisor"]["health"] == "ok", found
    assert found[f"image {missing}"]["health"] == "problem"
    assert "image.pullSecrets" in found[f"image {missing}"]["advice"]
