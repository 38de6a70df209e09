"""A sandbox service that itself runs under gVisor, as a pod does: without capabilities, on a read-only root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spade_rl
from spade_rl import sandbox
from spade_rl.config import SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox.rootfs import ensure_rootfs
from spade_rl.sandbox.runtime import die_with_parent, find_runtime, inside_gvisor, runsc_command

SECONDS = 150.0
CACHE, OUT = "/mnt/cache", "/mnt/out"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with a root that any user may start from, as an image holds it."""
    folder = tmp_path_factory.mktemp("cache")
    for each in (folder, folder.parent):
        each.chmod(0o755)
    ensure_rootfs(folder=folder / "spade", shared=True)
    return folder


def _bundle(folder: Path, cache: Path, out: Path, user: int) -> None:
    """Write a bundle that runs in_pod.py with this interpreter and this package as they lie on the host."""
    interpreter = Path(sys.executable)
    sources = {str(path): path for path in map(Path, ("/usr", "/lib", "/lib64", "/bin")) if path.exists()}
    for path in (
        Path(sys.prefix), interpreter.resolve().parents[1], Path(spade_rl.__file__).parent,
        Path(sandbox.__file__).parent, Path(__file__).parent,
    ):  # fmt: skip
        sources[str(path)] = path
    sources[CACHE] = cache
    root = folder / "root"
    for name in (*sources, OUT, "/tmp", "/proc", "/dev", "/sys", "/etc"):
        (root / name[1:]).mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "XDG_CACHE_HOME": CACHE, "OMP_NUM_THREADS": "1"}
    mounts: list[dict[str, object]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
        {"destination": OUT, "type": "bind", "source": str(out), "options": ["rw", "rbind"]},
    ]
    mounts += [
        {"destination": inside, "type": "bind", "source": str(outside), "options": ["ro", "rbind"]}
        for inside, outside in sources.items()
    ]
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": user},
            "args": [sys.executable, str(Path(__file__).with_name("in_pod.py")), f"{OUT}/seen.json"],
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": "/tmp",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }
    (folder / "config.json").write_text(json.dumps(config))


def _in_pod(folder: Path, cache: Path, user: int) -> dict[str, object]:
    runsc = shutil.which("runsc")
    if runsc is None:
        pytest.skip("runsc is not installed")
    if os.geteuid() != 0:
        pytest.skip("a container's user can be chosen by root only")
    out = folder / "out"
    out.mkdir()
    out.chmod(0o777)
    _bundle(folder, cache, out, user)
    command = [*die_with_parent(), *runsc_command(runsc, "ptrace", folder / "state")]
    done = subprocess.run(
        [*command, "run", f"--bundle={folder}", f"pod-{user}-{os.getpid()}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert (out / "seen.json").exists(), done.stdout[-4000:] + done.stderr[-4000:]
    seen = json.loads((out / "seen.json").read_text())
    assert isinstance(seen, dict)
    return seen


@pytest.mark.gvisor
@pytest.mark.parametrize("user", [0, 10001])
def test_workers_in_a_pod_are_alone_and_bounded(tmp_path: Path, cache: Path, user: int) -> None:
    seen = _in_pod(tmp_path, cache, user)
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
