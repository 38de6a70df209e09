"""The trial on CPU nodes, from the installation to the end of its run, and what is left of it afterwards.

The tests build on one another: they are the life of one release, in order.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from release import Failed, Release, answer, eventually

from spade_rl.report.events import read_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# The shipped model learns something within a few cycles; a whole quickstart would take ten minutes.
RUN = {"config": {"run": {"cycles": 12, "minutes": None}, "designer": {"environments": 10}, "regret": {"plays": 4}}}
FIRST_STEP_SECONDS = 180
RUN_SECONDS = 900

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=4).close()
    print("open")
except OSError as error:
    print("refused", error)
"""

ARCHIVE = """
import json
from pathlib import Path
from spade_rl.memory.archive import Archive
with Archive.open(Path("/srv/spade/runs/spade"), read_only=True) as archive:
    trajectories = [one.header.id for page in archive.trajectories("spade") for one in page]
    environments = [one.environment.digest for one in archive.environments("spade")]
print(json.dumps({"trajectories": trajectories, "environments": environments}))
"""


def connects(release: Release, workload: str, host: str, port: int) -> bool:
    return release.python(workload, CONNECT, host, str(port)).startswith("open")


def test_a_run_learns_within_minutes_of_the_installation(release: Release):
    started = time.monotonic()
    release.apply("cpu", RUN)
    ready = time.monotonic() - started
    eventually(
        "the first step of the learner",
        lambda: [one for one in release.events() if one["event"] == "cycle" and one["policy_version"] > 0],
        FIRST_STEP_SECONDS,
    )
    taken = time.monotonic() - started
    print(f"\ninstalled after {ready:.0f} s, first learner step after {taken:.0f} s")
    assert taken < FIRST_STEP_SECONDS


def test_sandboxes_run_under_gvisor_and_say_so(release: Release):
    (pod,) = release.get("pods", "app.kubernetes.io/component=sandbox")
    assert pod["spec"]["runtimeClassName"] == "gvisor"
    begun = next(one for one in release.events() if one["event"] == "run_started")
    assert begun["isolation"] == "gvisor"


def test_the_release_tests_itself(release: Release):
    release.helm("test", "spade", "--timeout", "2m")


def test_policies_let_through_what_must_pass_and_refuse_the_rest(release: Release):
    api = json.loads(release.kubectl("get", "service", "kubernetes", "-n", "default", "-o", "json"))["spec"][
        "clusterIP"
    ]
    names = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["status"]["podIP"] for one in release.get("pods")
    }
    assert connects(release, "deployment/spade-agent", names["sandbox"], 7002)
    assert connects(release, "statefulset/spade-coordinator", names["learner"], 7003)
    assert not connects(release, "deployment/spade-sandbox", api, 443)
    assert not connects(release, "deployment/spade-agent", api, 443)
    for port, service in ((7001, "memory"), (7003, "learner"), (7004, "agent"), (7007, "coordinator")):
        assert not connects(release, "deployment/spade-sandbox", names[service], port), service
    assert not connects(release, "deployment/spade-regret", names["memory"], 7001)


def test_a_stranger_reaches_nobody(release: Release):
    pod = json.loads(release.kubectl("get", "pod", "-l", "app.kubernetes.io/component=regret", "-o", "json"))["items"][
        0
    ]
    container = pod["spec"]["containers"][0]
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger"},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": pod["spec"]["securityContext"],
            "containers": [
                {
                    "name": "stranger",
                    "image": container["image"],
                    "imagePullPolicy": container["imagePullPolicy"],
                    "command": ["/opt/spade/bin/python", "-c", "import time; time.sleep(600)"],
                    "securityContext": container["securityContext"],
                }
            ],
        },
    }
    release.kubectl("apply", "-f", "-", stdin=json.dumps(stranger))
    try:
        release.kubectl("wait", "--for=condition=Ready", "pod/stranger", "--timeout=60s")
        for one in release.get("pods"):
            service = one["metadata"]["labels"]["app.kubernetes.io/component"]
            for port in one["spec"]["containers"][0]["ports"]:
                assert not connects(release, "pod/stranger", one["status"]["podIP"], port["containerPort"]), service
    finally:
        release.kubectl("delete", "pod", "stranger", "--grace-period=0", "--force")


def test_wrong_values_are_rejected_and_change_nothing(release: Release):
    before = json.loads(release.helm("list", "-o", "json"))[0]["revision"]
    with pytest.raises(Failed, match="learnin_rate"):
        release.apply("cpu", {"config": {"learner": {"learnin_rate": 1}}})
    assert json.loads(release.helm("list", "-o", "json"))[0]["revision"] == before


def test_an_upgrade_and_a_rollback_lose_nothing(release: Release):
    certificates = {one["metadata"]["name"]: one["data"]["tls.crt"] for one in release.get("secrets")}
    release.apply("cpu", {**RUN, "logLevel": "DEBUG"})
    release.helm("rollback", "spade", "--wait", "--timeout", "5m")
    again = {one["metadata"]["name"]: one["data"]["tls.crt"] for one in release.get("secrets")}
    assert again == certificates


def test_the_run_ends_with_everything_once(release: Release):
    eventually(
        "the end of the run",
        lambda: [one for one in release.events() if one["event"] in ("run_finished", "run_failed")],
        RUN_SECONDS,
    )
    events = release.events()
    assert events[-1]["event"] == "run_finished", events[-1]
    cycles = [one for one in events if one["event"] == "cycle"]
    assert [one["cycle"] for one in cycles] == list(range(len(cycles)))
    kept = json.loads(release.python("statefulset/spade-memory", ARCHIVE))
    assert len(kept["trajectories"]) == sum(one["episodes"] for one in cycles)
    assert len(kept["environments"]) == sum(one["admitted"] for one in cycles)
    for names in kept.values():
        assert max(Counter(names).values()) == 1


def test_its_report_comes_home(spade: Callable[..., subprocess.CompletedProcess[str]], home: Path):
    copied = answer(spade("fetch", "spade", "--json"))
    assert copied["state"] == "finished"
    assert "<html" in (home / copied["report"]).read_text()
    log = read_log(home / "runs" / "spade")
    assert log.started.isolation == "gvisor"
    assert log.before is not None
    assert log.after is not None
    print(f"\nheld-out environments: {log.before.mean:.3f} before, {log.after.mean:.3f} after {len(log.cycles)} cycles")


def test_nothing_is_left_after_the_release(release: Release):
    release.uninstall()
    eventually("an empty namespace", lambda: not release.leftovers(), 60)
