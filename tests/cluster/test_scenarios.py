"""Every other scenario of ci/ on the cluster: it installs and works as far as the cluster has what it needs, and says what it has not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from release import Failed, Release, eventually, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = {
    "config": {
        "run": {"cycles": 2, "minutes": None},
        "designer": {"environments": 5},
        "regret": {"plays": 2},
        "evaluation": {"suite": "none"},
    }
}
RUN_SECONDS = 400


@pytest.fixture(autouse=True)
def emptied(release: Release):
    release.uninstall()
    yield
    release.uninstall()
    eventually("an empty namespace", lambda: not release.leftovers(), 60)


def has_api(group: str) -> bool:
    try:
        run("kubectl", "get", "--raw", f"/apis/{group}")
    except Failed:
        return False
    return True


def finished(release: Release) -> list[dict]:
    return [one for one in release.events() if one["event"] in ("run_finished", "run_failed")]


def test_one_learner_of_two_pods(release: Release):
    release.apply("learners", SMALL)
    assert len(release.get("pods", "app.kubernetes.io/component=learner")) == 2
    (end,) = eventually("the end of the run", lambda: finished(release), RUN_SECONDS)
    assert end["event"] == "run_finished"
    assert end["summary"]["policy_version"] > 0


def test_a_learner_pod_that_dies_takes_the_run_back_to_its_checkpoint(release: Release):
    release.apply("learners", {"config": {**SMALL["config"], "run": {"cycles": 12, "minutes": None}}})
    eventually("a cycle", lambda: [e for e in release.events() if e["event"] == "cycle"], RUN_SECONDS)
    release.kubectl("delete", "pod", "spade-learner-1", "--grace-period=0", "--force")
    (end,) = eventually("the end of the run", lambda: finished(release), RUN_SECONDS)
    assert end["event"] == "run_finished"


def test_gpu_pools_wait_and_say_for_what(release: Release):
    shared = {"storage": {"className": "", "size": "2Gi", "accessMode": "ReadWriteOnce", "keep": False}}
    release.apply(
        "gpu",
        {
            **shared,
            "image": {"pullSecrets": []},
            "learner": {"priorityClassName": ""},
            "agent": {"priorityClassName": ""},
        },
        wait=False,
    )

    def reasons() -> dict[str, str]:
        found = {}
        for pod in release.get("pods"):
            for condition in pod["status"].get("conditions", []):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    found[pod["metadata"]["labels"]["app.kubernetes.io/component"]] = condition["message"]
        return found

    def said() -> bool:
        found = reasons()
        return all("node" in found.get(service, "") for service in ("agent", "learner", "sandbox"))

    eventually("pods that say why they wait", said, 60)


def test_an_autoscaler_follows_the_sandbox(release: Release):
    release.apply("hpa", SMALL)
    (scaler,) = release.get("horizontalpodautoscalers")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "spade-sandbox"
    eventually("the end of the run", lambda: finished(release), RUN_SECONDS)


def test_what_is_not_there_is_said_before_anything_is_made(release: Release):
    for scenario, group, message in (
        ("keda", "keda.sh/v1alpha1", "install KEDA first"),
        ("agent-sandbox", "extensions.agents.x-k8s.io/v1beta1", "install agent-sandbox first"),
    ):
        if not has_api(group):
            with pytest.raises(Failed, match=message):
                release.apply(scenario)
    assert json.loads(release.helm("list", "-o", "json")) == []


START = """
import asyncio
from pathlib import Path
from spade_rl.config import TlsSection
from spade_rl.config_files import load_config
from spade_rl.rpc import open_channel
from spade_rl.v1 import coordinator_pb2 as pb, coordinator_pb2_grpc

async def main():
    async with open_channel("localhost:7007", TlsSection(mode="mutual", folder="/srv/spade/tls")) as channel:
        stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
        held = await stub.ListRuns(pb.ListRunsRequest(), timeout=30)
        await stub.StartRun(pb.StartRunRequest(run_id="spade", config=held.config), timeout=30)

asyncio.run(main())
"""


def sandboxes(release: Release) -> list[dict]:
    """Return the sandbox pods that are ready."""
    return [
        pod
        for pod in release.get("pods", "app.kubernetes.io/component=sandbox")
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
    ]


def test_sandboxes_come_with_demand_and_go_with_it(release: Release):
    if not has_api("keda.sh/v1alpha1"):
        pytest.skip("the cluster has no KEDA")
    # Nothing is wanted until a run is submitted.
    config = {**SMALL["config"], "run": {"cycles": 6, "minutes": None, "start": False}}
    release.apply("keda", {"config": config, "autoscaling": {"sandbox": {"workersPerPod": 10}}})
    address = json.loads(release.kubectl("get", "service", "spade-scaler", "-o", "json"))["spec"]["clusterIP"]
    if hosts := os.environ.get("SPADE_KEDA_HOSTS"):
        # KEDA's operator is no pod of this cluster, so the cluster's names have to be in its hosts file.
        lines = [line for line in Path(hosts).read_text().splitlines() if "spade-scaler" not in line]
        Path(hosts).write_text("\n".join([*lines, f"{address} spade-scaler.{release.namespace}.svc", ""]))
    eventually("no sandbox", lambda: not release.get("pods", "app.kubernetes.io/component=sandbox"), 120)
    release.python("statefulset/spade-coordinator", START)
    started = time.monotonic()
    eventually("a sandbox", lambda: sandboxes(release), 60)
    print(f"\nthe first sandbox was ready {time.monotonic() - started:.1f} s after the run was submitted")
    (end,) = eventually("the end of the run", lambda: finished(release), RUN_SECONDS)
    assert end["event"] == "run_finished"
    assert sum(one["void_episodes"] for one in release.events() if one["event"] == "cycle") == 0
    eventually("no sandbox again", lambda: not sandboxes(release), 180)


def test_a_warm_pool_of_agent_sandbox_is_accepted(release: Release):
    if not has_api("extensions.agents.x-k8s.io/v1beta1"):
        pytest.skip("the cluster has no agent-sandbox")
    release.apply("agent-sandbox", SMALL, wait=False)
    pool = json.loads(release.kubectl("get", "sandboxwarmpool", "spade-sandbox", "-o", "json"))
    assert pool["spec"]["replicas"] == 2
    template = json.loads(release.kubectl("get", "sandboxtemplate", "spade-sandbox", "-o", "json"))
    assert template["spec"]["podTemplate"]["spec"]["runtimeClassName"] == "gvisor"
    assert template["spec"]["networkPolicyManagement"] == "Unmanaged"
