"""A sandbox service that itself runs under gVisor, as a pod does: without capabilities, on a read-only root."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gvisor_pod import NoPod, pod_command

from spade_rl.config import SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox.runtime import PLATFORMS, find_runtime, inside_gvisor

SECONDS = 150.0


def _in_pod(folder: Path, platform: str, user: int) -> dict[str, object]:
    """Run in_pod.py in a pod and return what it saw."""
    script = Path(__file__).with_name("in_pod.py")
    out = folder / "out"
    out.mkdir()
    out.chmod(0o777)
    command = [sys.executable, str(script), f"{out}/seen.json"]
    try:
        command = pod_command(folder, command, shared=out, platform=platform, user=user, readable=[script.parent])
    except NoPod as reason:
        pytest.skip(str(reason))
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (out / "seen.json").exists(), done.stdout[-4000:] + done.stderr[-4000:]
    seen = json.loads((out / "seen.json").read_text())
    assert isinstance(seen, dict)
    return seen


@pytest.mark.gvisor
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("user", [0, 10001])
def test_workers_in_a_pod_are_alone_and_bounded(tmp_path: Path, platform: str, user: int) -> None:
    seen = _in_pod(tmp_path, platform, user)
    assert str(seen["runtime"]).startswith("gVisor pod")
    expected = {
        "pid": 1,
        "processes": [],
        "folders": [],
        "files": [],
        "kill all": "ProcessLookupError",
        "kill the zygote": "ProcessLookupError",
        "fork": "BlockingIOError",
        "write": 1,
        "namespaces": "PermissionError",
        "unmount": "PermissionError",
        "mount": "PermissionError",
        "live on": "PermissionError",
        "trace": "PermissionError",
        "socket": "FileNotFoundError",
        "abstract socket": "ConnectionRefusedError",
        "thread": None,
        "null": 1,
    }
    for who in ("attack", "bystander"):
        found = seen[who]
        assert isinstance(found, dict)
        assert {name: found[name] for name in expected} == expected
        assert found["become another"] in ("PermissionError", "OSError")
        # Refused for either reason: by the mount, and by the owner.
        assert found["write to the library"] in ("PermissionError", "OSError")
        assert found["network"] == "OSError"
    assert seen["memory"] == ["environment", "memory", "all episodes of the environment together used more than 192 MB"]
    assert seen["limits"] == dict.fromkeys(seen["limits"], True)  # type: ignore[call-overload]
    assert seen["left"] == []


def test_a_pod_that_is_not_under_gvisor_does_not_serve(tmp_path: Path) -> None:
    if inside_gvisor():
        pytest.skip("this machine runs under gVisor")
    with pytest.raises(ConfigurationError, match="does not run under gVisor"):
        find_runtime(SandboxSection(runtime="pod"), tmp_path, tmp_path / "state")
