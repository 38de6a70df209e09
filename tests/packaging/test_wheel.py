"""What a user gets from `pip install`: every module and data file of ours, and nothing under a foreign name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # From a copy: building leaves files beside the sources, and a stale one of those would get into the wheel.
    source = tmp_path_factory.mktemp("source") / "spade"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("pkg", "services"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    target = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        target,
        source,
    ]
    subprocess.run(command, check=True, timeout=240)
    with zipfile.ZipFile(next(target.glob("spade_rl-*.whl"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def names(wheel):
    return {name for name in wheel.namelist() if not name.endswith("/")}


def installed_name(path: Path) -> str:
    """Return where a source file is installed."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[1:] if parts[0] == "pkg" else ("spade_rl", *parts[1:]))


def test_only_our_package_becomes_importable(names):
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"spade_rl"}


def test_every_module_is_in_the_wheel(names):
    modules = [
        p for folder in ("pkg", "services") for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts
    ]
    assert modules
    assert sorted(n for p in modules if (n := installed_name(p)) not in names) == []


@pytest.mark.parametrize(
    "folder",
    ["pkg/spade_rl/presets", "pkg/spade_rl/data/corpus", "pkg/spade_rl/nano/assets", "services/memory/migrations"],
)
def test_every_data_file_is_in_the_wheel(names, folder):
    files = [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert files, f"{folder} is empty"
    assert sorted(n for p in files if (n := installed_name(p)) not in names) == []


def test_other_files_beside_the_modules_are_in_the_wheel(names):
    """A template or a data file that a module reads must not be there in the source tree alone."""
    ignored = {".py", ".pyc", ".pyi", ".md"}
    files = [
        p
        for folder in ("pkg", "services")
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and p.suffix not in ignored and p.stem != "Dockerfile" and ".egg-info" not in str(p)
    ]
    assert sorted(n for p in files if (n := installed_name(p)) not in names) == []


def test_commands_types_and_licence(wheel, names):
    metadata = next(name for name in names if name.endswith(".dist-info/METADATA")).rsplit("/", 1)[0]
    commands = wheel.read(f"{metadata}/entry_points.txt").decode()
    assert "spade = spade_rl.cli.main:main" in commands
    assert "spade-rl = spade_rl.cli.main:main" in commands
    assert "spade_rl/py.typed" in names
    assert f"{metadata}/licenses/LICENSE" in names
