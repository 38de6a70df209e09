"""What the code imports is declared, and what is declared is pinned."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from requirements import requirements

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
}


def declared(*extras: str) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for extra in extras for text in requirements(PROJECT, extra)}


def imported(*folders: str) -> dict[str, set[Path]]:
    """Return the third-party modules that the files below ``folders`` import, at any level, with who imports them."""
    found: dict[str, set[Path]] = {}
    for path in (p for folder in folders for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                if top not in sys.stdlib_module_names and top not in {"spade_rl", "benchmarks"}:
                    # google.protobuf and google.rpc are packages of different distributions.
                    found.setdefault(".".join(name.split(".")[:2]) if top == "google" else top, set()).add(path)
    return found


def undeclared(modules: dict[str, set[Path]], allowed: set[str]) -> dict[str, list[str]]:
    owners = metadata.packages_distributions()
    missing = {}
    for module, users in modules.items():
        known = {"google.protobuf": ["protobuf"]}.get(module) or owners.get(module, [])
        local = {path.stem for user in users for path in user.parent.glob("*.py")}
        if module not in local and not {canonicalize_name(name) for name in known} & allowed:
            missing[module] = sorted(str(user.relative_to(ROOT)) for user in users)
    return missing


def test_what_the_code_imports_is_declared():
    everything = declared(*PROJECT["optional-dependencies"]) - (
        declared("dev") - declared("all", "postgresql", "deepspeed", "certificates", "cluster", "tracing")
    )
    assert undeclared(imported("pkg", "services"), everything) == {}


# What a benchmark compares with lives in an environment of its own, which the benchmark makes.
PEERS = {"gvisor": "gvisor", "openenv": "openenv-core"}


def test_what_tests_and_scripts_import_is_declared():
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    theirs = {name: users for name, users in imported("tests", "scripts", "protos").items() if name not in scripts}
    assert undeclared(theirs, declared("dev")) == {}
    modules = imported("benchmarks")
    named = (ROOT / "benchmarks" / "sandbox_peers.txt").read_text()
    assert [name for name in PEERS.values() if not re.search(rf"^{name}>=", named, re.MULTILINE)] == []
    peers = {module: modules.pop(module) for module in PEERS}
    assert {path.parent.name for users in peers.values() for path in users} == {"benchmarks"}
    assert undeclared(modules, declared("dev")) == {}


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_every_requirement_is_pinned_within_its_bounds(extra):
    for text in requirements(PROJECT, extra):
        requirement = Requirement(text)
        pinned = PINS.get(canonicalize_name(requirement.name))
        assert pinned, f"{requirement.name} is not in constraints.txt: run `make lock`"
        assert requirement.specifier.contains(pinned, prereleases=True), f"{text} does not admit {pinned}"


def test_no_file_names_a_local_build():
    assert all("+" not in version for version in PINS.values())
