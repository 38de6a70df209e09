from __future__ import annotations

import os
from pathlib import Path

import pytest

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox.bundle import CAPABILITIES, oci_config
from spade_rl.sandbox.limits import limits_of
from spade_rl.sandbox.rootfs import (
    GUEST,
    PYTHON,
    PYTHON_HOME,
    ensure_rootfs,
    fingerprint,
    guest_files,
    running_interpreter,
)
from spade_rl.sandbox.runtime import HOW_TO_GET_RUNSC, describe_runtime, find_runtime


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_rootfs(folder=tmp_path_factory.mktemp("cache"))


def test_the_root_holds_the_interpreter_and_little_else(root: Path) -> None:
    interpreter = running_interpreter()
    assert root.name == f"rootfs-{fingerprint(interpreter)}"
    library = root / PYTHON_HOME[1:] / "lib" / interpreter.version
    for name in ("random.py", "json/decoder.py", "encodings/utf_8.py"):
        assert (library / name).is_file()
    assert os.access(root / PYTHON[1:], os.X_OK)
    for file in guest_files():
        assert (root / GUEST[1:]).with_name(file.name).read_bytes() == file.read_bytes()
    packages = {path.name for path in (library / "site-packages").iterdir()}
    assert packages <= {"numpy", "numpy.libs", "spade_rl"}
    own = {path.name for path in (library / "site-packages" / "spade_rl").iterdir()} - {"__pycache__"}
    assert own == {"__init__.py", "environment"}
    assert {path.name for path in root.iterdir()} <= {
        "dev", "etc", "lib", "lib64", "opt", "proc", "run", "spade", "sys", "tmp"
    }  # fmt: skip
    assert (root / "spade").stat().st_mode & 0o777 == 0o700


def test_a_root_can_be_for_all_users_and_is_used_where_it_cannot_be_changed(tmp_path: Path) -> None:
    root = ensure_rootfs(folder=tmp_path, shared=True)
    assert (root / "spade").stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o555)
    try:
        assert ensure_rootfs(folder=tmp_path) == root
    finally:
        tmp_path.chmod(0o755)


def test_a_root_is_baked_once(root: Path) -> None:
    marker = root / "opt" / "marker"
    marker.touch()
    try:
        assert ensure_rootfs(folder=root.parent) == root
        assert marker.exists()
        assert [path.name for path in root.parent.iterdir()] == [root.name]
    finally:
        marker.unlink()


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="XDG_CACHE_HOME"):
        ensure_rootfs(folder=tmp_path / "file")


def test_the_bundle_gives_nothing_away(tmp_path: Path) -> None:
    config = oci_config(root=tmp_path, socket_folder=tmp_path / "s", limits=limits_of(SandboxSection()))
    assert config["root"] == {"path": str(tmp_path), "readonly": True}
    assert config["process"]["noNewPrivileges"] is True
    assert set(config["process"]["capabilities"]["bounding"]) == set(CAPABILITIES)
    assert not {"CAP_SYS_ADMIN", "CAP_NET_RAW", "CAP_SYS_PTRACE"} & set(CAPABILITIES)
    assert {one["type"] for one in config["linux"]["namespaces"]} == {"pid", "network", "ipc", "uts", "mount"}
    assert [one["source"] for one in config["mounts"] if one["type"] == "bind"] == [str(tmp_path / "s")]


def test_the_weak_level_needs_nothing_and_is_never_chosen_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    weak = find_runtime(SandboxSection(isolation=Isolation.PROCESS), tmp_path, tmp_path)
    assert (weak.isolation, "no isolation" in weak.name) == (Isolation.PROCESS, True)
    for isolation in (Isolation.GVISOR, Isolation.BUBBLEWRAP):
        with pytest.raises(ConfigurationError, match="not installed"):
            find_runtime(SandboxSection(isolation=isolation), tmp_path, tmp_path)
    report = describe_runtime()
    assert not report.usable
    assert report.advice == (HOW_TO_GET_RUNSC,)


@pytest.mark.gvisor
def test_the_doctor_finds_a_platform(gvisor_section: SandboxSection) -> None:
    report = describe_runtime()
    assert report.usable, report
    assert report.runsc_version
    assert report.rootless is (os.geteuid() != 0)


@pytest.mark.gvisor
def test_a_platform_that_does_not_work_is_an_error(
    gvisor_section: SandboxSection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runsc").write_text("#!/bin/sh\necho 'no such platform' >&2\nexit 1\n")
    (tmp_path / "runsc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigurationError) as caught:
        find_runtime(gvisor_section, tmp_path, tmp_path)
    assert "no such platform" in str(caught.value)
    assert "apt-get install runsc" in str(caught.value)
