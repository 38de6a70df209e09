"""The self-test finds limits that hold and limits that do not, and a service with one that does not hold does not serve."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ordinary_user import NoUser, ordinary_python
from prometheus_client import REGISTRY

from spade_rl.config import Endpoints, Isolation, RunConfig, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.rpc import calling, open_channel
from spade_rl.sandbox.opening import limits_here, open_home
from spade_rl.sandbox.probes import PROBES, promised
from spade_rl.sandbox.runtime import PLATFORMS
from spade_rl.sandbox.selftest import LimitCheck, refuse_broken, try_limits
from spade_rl.sandbox.server import serve
from spade_rl.v1 import sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

SECONDS = 150.0
# Stands for a runsc whose sandboxes have more room than they should: the configuration that it gets says so.
ROOMY = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in
        --bundle=*) sed -i 's/"size=[0-9]*m"/"size=900m"/g' "${{argument#--bundle=}}/config.json" ;;
    esac
done
exec {runsc} "$@"
"""


async def test_a_service_has_tried_what_its_level_promises_before_it_serves(
    section: SandboxSection, level: Isolation, tmp_path: Path
) -> None:
    config = RunConfig(sandbox=section.model_copy(update={"self_test": True}))
    address = f"unix:{tmp_path}/s"
    async with (
        serve(config, run_dir=tmp_path, address=address, endpoints=Endpoints()),
        open_channel(address) as channel,
        calling("sandbox"),
    ):
        status = await SandboxServiceStub(channel).GetStatus(sandbox_pb2.GetStatusRequest(), timeout=10)
    assert {check.name for check in status.limits} == set(PROBES)
    assert {check.name for check in status.limits if check.held} == promised(level)
    for check in status.limits:
        assert REGISTRY.get_sample_value("spade_sandbox_limit_held", {"limit": check.name}) == check.held
    assert REGISTRY.get_sample_value("spade_sandbox_worker_limit") == section.max_workers


async def test_a_limit_that_does_not_hold_is_found() -> None:
    # A plain process has the whole disk.
    section = SandboxSection(isolation=Isolation.PROCESS)
    async with open_home(section) as home:
        checks = {check.name: check for check in await try_limits(home, section, {"disk", "open_files"})}
    assert checks["open_files"].held
    assert not checks["disk"].held
    assert "could write" in checks["disk"].message
    assert "does not promise" in checks["network"].message


async def test_a_service_whose_limit_does_not_hold_refuses_to_serve(
    gvisor_section: SandboxSection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "runsc"
    tool.parent.mkdir()
    tool.write_text(ROOMY.format(runsc=shutil.which("runsc")))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    config = RunConfig(sandbox=gvisor_section.model_copy(update={"self_test": True}))
    with pytest.raises(ConfigurationError, match=r"does not serve.* disk \(a worker could write") as caught:
        async with serve(config, run_dir=tmp_path, address=f"unix:{tmp_path}/s", endpoints=Endpoints()):
            pass
    assert "network" not in str(caught.value)
    assert "Install a current gVisor" in str(caught.value)
    assert not (tmp_path / "s").exists()


async def test_the_limits_of_this_machine_can_be_asked_for(gvisor_section: SandboxSection) -> None:
    checks = await limits_here(gvisor_section)
    assert {check.name: check.message for check in checks} == dict.fromkeys(PROBES, "")


@pytest.mark.gvisor
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_limits_hold_for_an_ordinary_user(platform: str) -> None:
    if shutil.which("runsc") is None:
        pytest.skip("runsc is not installed")
    try:
        with ordinary_python() as (command, environment):
            done = subprocess.run(
                [*command, str(Path(__file__).with_name("limits_of_user.py")), platform],
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
    except NoUser as reason:
        pytest.skip(str(reason))
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["user"] != 0
    assert f" {platform} rootless" in seen["runtime"]
    assert not seen["cgroups"]
    assert seen["limits"] == dict.fromkeys(PROBES, True)


def test_what_a_level_does_not_promise_is_no_reason_to_refuse() -> None:
    checks = [LimitCheck(name, name in promised(Isolation.PROCESS)) for name in PROBES]
    refuse_broken(checks, Isolation.PROCESS)
    with pytest.raises(ConfigurationError, match="below /proc"):
        refuse_broken(checks, Isolation.GVISOR)


def test_gvisor_promises_everything() -> None:
    assert promised(Isolation.GVISOR) == set(PROBES)
    assert promised(Isolation.PROCESS) < promised(Isolation.BUBBLEWRAP) < promised(Isolation.GVISOR)
