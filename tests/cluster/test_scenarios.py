"""Every other scenario of ci/ on the cluster: it installs and works as far as the cluster has what it needs, and says what it has not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
# autoscaling.sandbox.maxReplicas of ci/keda-values.yaml.
PODS = 3


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


def ready(release: Release, service: str) -> list[dict]:
    """Return the pods of a service that are ready and were not told to end."""
    return [
        pod
        for pod in release.get("pods", f"app.kubernetes.io/component={service}")
        if "deletionTimestamp" not in pod["metadata"]
        and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
    ]


# Established connections of a learner's pod, and its place in the group.
PEERS = """
import os
from pathlib import Path
print(len([one for one in Path("/proc/net/tcp").read_text().splitlines()[1:] if one.split()[3] == "01"]))
print(os.environ["RANK"], os.environ["WORLD_SIZE"])
"""


PARTS = """
from pathlib import Path
newest = max(Path("/srv/spade/runs/spade/runs/spade/checkpoints").iterdir())
print(*sorted(one.name for one in newest.rglob("zero_pp_rank_*_optim_states.pt")))
"""


def test_one_learner_of_two_pods(release: Release):
    release.apply("learners", SMALL)
    assert len(ready(release, "learner")) == 2
    for rank in range(2):
        connections, place = release.python(f"pod/spade-learner-{rank}", PEERS).splitlines()
        # The store, the control group and the training group.
        assert int(connections) > 0
        assert place == f"{rank} 2"
    (end,) = eventually("the end of the run", lambda: finished(release), RUN_SECONDS)
    assert end["event"] == "run_finished"
    assert end["summary"]["policy_version"] > 0
    # Each process wrote its own part of the optimiser's state.
    parts = release.python("statefulset/spade-coordinator", PARTS).split()
    assert parts == ["zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00_optim_states.pt"]


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


GPUS = "/status/capacity/nvidia.com~1gpu"


@pytest.fixture
def pool() -> Iterator[Callable[[int], None]]:
    """Make the first node one of the pool `trial`; returns a function that gives it a number of GPUs."""
    node = run("kubectl", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")

    def patch(operation: dict) -> None:
        run("kubectl", "patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps([operation]))

    run("kubectl", "label", "node", node, "pool=trial", "--overwrite")
    yield lambda gpus: patch({"op": "add", "path": GPUS, "value": str(gpus)})
    patch({"op": "remove", "path": GPUS})
    run("kubectl", "label", "node", node, "pool-")


def test_gpu_pools_are_scheduled_where_there_are_gpus(release: Release, pool: Callable[[int], None]):
    """Only what the scheduler decides: the GPUs are a number that the node was given, and the images are nowhere."""
    anywhere = {
        "nodeSelector": {"pool": "trial"},
        "priorityClassName": "",
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    }
    release.apply(
        "gpu",
        {
            "storage": {"className": "", "size": "2Gi", "accessMode": "ReadWriteOnce", "keep": False},
            "image": {"pullSecrets": []},
            "learner": anywhere,
            "agent": anywhere,
        },
        wait=False,
    )

    def placed() -> dict[str, str]:
        """Return by service whether its pod has a node, or why not."""
        found = {}
        for pod in release.get("pods", "app.kubernetes.io/component in (agent, learner)"):
            (condition,) = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
            found[pod["metadata"]["labels"]["app.kubernetes.io/component"]] = condition.get(
                "message", condition["status"]
            )
        return found

    def wait_for_gpus() -> bool:
        return all("Insufficient nvidia.com/gpu" in placed().get(one, "") for one in ("agent", "learner"))

    eventually("pods that wait for GPUs", wait_for_gpus, 60)
    print(f"\nwithout GPUs: {placed()['learner']}")
    pool(5)
    eventually("a learner of four GPUs and an agent of one", lambda: set(placed().values()) == {"True"}, 60)


def test_an_autoscaler_follows_the_sandbox(release: Release):
    release.apply("hpa", SMALL)
    (scaler,) = release.get("horizontalpodautoscalers")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "spade-sandbox"

    def measured() -> list[dict]:
        (scaler,) = release.get("horizontalpodautoscalers")
        return [one for one in scaler["status"].get("currentMetrics") or [] if one.get("resource", {}).get("current")]

    eventually("what the autoscaler measures", measured, 120)
    (end,) = eventually("the end of the run", lambda: finished(release), RUN_SECONDS)
    assert end["event"] == "run_finished"


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


ENDINGS = """
import json
from pathlib import Path
from spade_rl.memory.archive import Archive
with Archive.open(Path("/srv/spade/runs/spade"), read_only=True) as archive:
    print(json.dumps([(one.stop_reason, one.error) for one in archive.trajectory_headers("spade")]))
"""


@contextmanager
def resolvable(release: Release, name: str) -> Iterator[None]:
    """Where KEDA's operator is no pod of the cluster it does not know the cluster's names: SPADE_KEDA_HOSTS is its hosts file."""
    hosts = os.environ.get("SPADE_KEDA_HOSTS")
    if not hosts:
        yield
        return
    address = json.loads(release.kubectl("get", "service", name, "-o", "json"))["spec"]["clusterIP"]
    before = Path(hosts).read_text()
    Path(hosts).write_text(f"{before.rstrip()}\n{address} {name}.{release.namespace}.svc\n")
    try:
        yield
    finally:
        Path(hosts).write_text(before)


def test_sandboxes_come_with_demand_and_go_with_it(release: Release):
    if not has_api("keda.sh/v1alpha1"):
        pytest.skip("the cluster has no KEDA")
    # Nothing is wanted until a run is submitted; then the first set of designs wants all pods at once.
    config = {**SMALL["config"], "run": {"cycles": 6, "minutes": None, "start": False}}
    values = {"config": config, "autoscaling": {"sandbox": {"workersPerPod": 3}}}
    release.apply("keda", values, wait=False)
    with resolvable(release, "spade-scaler"):
        # Helm waits for KEDA as well.
        release.apply("keda", values)
        eventually("no sandbox", lambda: not release.get("pods", "app.kubernetes.io/component=sandbox"), 120)
        eventually("KEDA's connection", lambda: scaled_object(release).get("Ready") == "True", 60)
        release.python("statefulset/spade-coordinator", START)
        wanted = time.monotonic()
        eventually("a sandbox", lambda: ready(release, "sandbox"), 60)
        first = time.monotonic() - wanted
        eventually("all sandboxes", lambda: len(ready(release, "sandbox")) == PODS, 60)
        print(
            f"\nafter the run was submitted: a sandbox ready in {first:.1f} s, {PODS} in {time.monotonic() - wanted:.1f} s"
        )
        (end,) = eventually("the end of the run", lambda: finished(release), RUN_SECONDS)
        over = time.monotonic()
        assert end["event"] == "run_finished"
        # What an environment does wrong itself is no pod's fault.
        ended = json.loads(release.python("statefulset/spade-memory", ENDINGS))
        cycles = [one for one in release.events() if one["event"] == "cycle"]
        assert len(ended) == sum(one["episodes"] for one in cycles)
        assert [one for one in ended if one[0] in ("sandbox_error", "engine_error")] == []
        eventually("no sandbox again", lambda: not release.get("pods", "app.kubernetes.io/component=sandbox"), 180)
        print(f"after the run's end: none in {time.monotonic() - over:.1f} s")


def scaled_object(release: Release) -> dict[str, str]:
    """Return the conditions of the ScaledObject by their types."""
    (found,) = release.get("scaledobjects.keda.sh")
    return {one["type"]: one["status"] for one in found.get("status", {}).get("conditions", [])}


def test_a_warm_pool_of_agent_sandbox_is_accepted(release: Release):
    if not has_api("extensions.agents.x-k8s.io/v1beta1"):
        pytest.skip("the cluster has no agent-sandbox")
    release.apply("agent-sandbox", SMALL, wait=False)
    pool = json.loads(release.kubectl("get", "sandboxwarmpool", "spade-sandbox", "-o", "json"))
    assert pool["spec"]["replicas"] == 2
    template = json.loads(release.kubectl("get", "sandboxtemplate", "spade-sandbox", "-o", "json"))
    assert template["spec"]["podTemplate"]["spec"]["runtimeClassName"] == "gvisor"
    assert template["spec"]["networkPolicyManagement"] == "Unmanaged"
