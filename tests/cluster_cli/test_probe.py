from __future__ import annotations

from typing import Any

import pytest

from spade_rl.cluster.probe import manifest, progress, stuck

BODY = manifest("p", ["one:1", "two:1"], runtime_class="gvisor", pull_policy="IfNotPresent", pull_secrets=["key"])


def pod(phase: str, *states: dict[str, Any], **status: Any) -> dict[str, Any]:
    named = [{"name": f"image-{number}", "state": state} for number, state in enumerate(states)]
    return {
        "spec": {**BODY["spec"], "nodeName": "node-1"},
        "status": {"phase": phase, "containerStatuses": named, **status},
    }


DONE = {"terminated": {"exitCode": 0}}


def test_the_pod_keeps_to_the_strictest_level() -> None:
    spec = BODY["spec"]
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert [one["image"] for one in spec["containers"]] == ["one:1", "two:1"]
    for container in spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_it_is_waited_for_while_it_may_get_on() -> None:
    assert progress(pod("Pending"), []) is None
    assert progress(pod("Pending", {"waiting": {"reason": "ContainerCreating"}}, DONE), []) is None
    assert progress(pod("Running", {"running": {}}, DONE), ["Failed to do something"]) is None


def test_its_end_is_seen() -> None:
    found = progress(pod("Succeeded", DONE, DONE), [])
    assert found is not None
    assert (found.node, found.problems, found.trouble) == ("node-1", (), "")


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}}, "ErrImageNeverPull: not present"),
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}, "ImagePullBackOff: no such host"),
        ({"waiting": {"reason": "CreateContainerError"}}, "CreateContainerError:"),
        ({"terminated": {"exitCode": 127, "reason": "Error"}}, "ended with status 127: Error"),
    ],
)
def test_an_image_that_does_not_start_is_named(state: dict[str, Any], problem: str) -> None:
    found = progress(pod("Running", DONE, state), [])
    assert found is not None
    assert found.problems == (("two:1", problem),)


def test_a_runtime_that_is_not_there_is_seen_before_the_time_is_over() -> None:
    text = (
        'Failed to create pod sandbox: unable to get OCI runtime for sandbox "1": no runtime for "runsc" is configured'
    )
    found = progress(pod("Pending"), ["pulled", text])
    assert found is not None
    assert found.trouble == text


def test_a_pod_that_was_ended_says_why() -> None:
    found = progress(pod("Failed", message="Pod was active on the node longer than the specified deadline"), [])
    assert found is not None
    assert "deadline" in found.trouble


def test_why_it_is_stuck() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: taint"}
    assert stuck(pod("Pending", conditions=[unscheduled]), ["x"]) == "no node takes it: 0/1 nodes are available: taint"
    assert stuck(pod("Pending"), ["first", "last"]) == "last"
    assert "nothing is known" in stuck(pod("Pending"), [])
