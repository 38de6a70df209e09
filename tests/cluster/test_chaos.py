"""A run whose pods are killed at random moments ends whole.

SPADE_RESTART_KUBELET may name a command that restarts the kubelet of a node.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter

import pytest
from release import Release, eventually
from test_trial import ARCHIVE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

SERVICES = ("agent", "coordinator", "designer", "learner", "memory", "regret", "sandbox")
KILLS = int(os.environ.get("SPADE_KILLS", "20"))
RUN = {
    "config": {
        # Longer than the killing takes.
        "run": {"cycles": 1000, "minutes": None, "recoveries": 60},
        "designer": {"environments": 5},
        "regret": {"plays": 2},
        "evaluation": {"suite": "none"},
    }
}
CYCLE_SECONDS = 240
RESTART = os.environ.get("SPADE_RESTART_KUBELET")


def cycles(release: Release) -> list[dict]:
    return [one for one in release.events() if one["event"] == "cycle"]


def test_a_run_goes_on_whatever_is_killed(release: Release):
    release.apply("cpu", RUN)
    eventually("the first cycle", lambda: cycles(release), CYCLE_SECONDS)
    rng = random.Random(7)
    for number in range(KILLS):
        service = SERVICES[number % len(SERVICES)]
        time.sleep(rng.uniform(0, 5))
        pod = release.get("pods", f"app.kubernetes.io/component={service}")[0]["metadata"]["name"]
        release.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        print(f"killed {pod}", flush=True)
        if number == KILLS // 2 and RESTART:
            subprocess.run(RESTART, shell=True, check=True, timeout=60)
            print("restarted the kubelet", flush=True)
    before = time.time()
    eventually(
        "a cycle after the last kill",
        lambda: [one for one in cycles(release) if one["time"] > before + 5],
        CYCLE_SECONDS,
    )
    found = cycles(release)
    assert [one["cycle"] for one in found] == list(range(len(found)))
    # The archive may be a cycle ahead of the log that was read before it.
    kept = json.loads(release.python("statefulset/spade-memory", ARCHIVE))
    for names in kept.values():
        assert max(Counter(names).values()) == 1
    assert len(kept["trajectories"]) >= sum(one["episodes"] for one in found)
    assert len(kept["environments"]) >= sum(one["admitted"] for one in found)
    release.uninstall()
    eventually("an empty namespace", lambda: not release.leftovers(), 60)
