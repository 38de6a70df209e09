"""The hostile suite against a sandbox pod, under gVisor and Pod Security "restricted".

It calls the pod itself. Where this machine is not in the pods' network, SPADE_INSIDE is a command that runs another there,
such as ``nsenter --net=…``.
"""

from __future__ import annotations

import base64
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from release import ROOT, Failed, Release, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

INSIDE = shlex.split(os.environ.get("SPADE_INSIDE", ""))
HOSTILE = ROOT / "tests" / "hostile"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 7002), timeout=4).close()"


def test_hostile_code_stays_in_its_pod(release: Release, tmp_path: Path):
    service = yaml.safe_load((HOSTILE / "service.yaml").read_text())
    release.apply("cpu", {"config": {**service, "run": {"start": False}}})
    (pod,) = release.get("pods", "app.kubernetes.io/component=sandbox")
    assert pod["spec"]["runtimeClassName"] == "gvisor"
    address = pod["status"]["podIP"]
    try:
        run(*INSIDE, sys.executable, "-c", CONNECT, address)
    except Failed as error:
        pytest.skip(f"pods cannot be reached from here; SPADE_INSIDE may name a command that goes there: {error}")
    for name, data in release.secret("spade-client-tls").items():
        (tmp_path / name).write_bytes(base64.b64decode(data))
    environment = {
        **os.environ,
        "SPADE_TEST_SANDBOX": f"{address}:7002",
        "SPADE_TEST_TLS": str(tmp_path),
        "SPADE_TEST_SERVER_NAME": f"spade-sandbox.{release.namespace}.svc",
    }
    command = [*INSIDE, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(HOSTILE)]
    assert subprocess.run(command, cwd=ROOT, env=environment, timeout=1700, check=False).returncode == 0
    # Nothing that the cases did made the kubelet start the container anew.
    (after,) = release.get("pods", "app.kubernetes.io/component=sandbox")
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    release.uninstall()
