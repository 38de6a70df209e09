"""Each service starts with its own dependencies: what an extra does not bring, its modules do not import."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BLOCKER = """
import importlib.abc, json, sys
blocked = set(json.loads(sys.argv[1]))
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Blocker())
for module in sys.argv[2:]:
    __import__(module)
"""


def closure(extra: str) -> set[str]:
    """Return the distributions that ``spade-rl[extra]`` installs, as far as they are installed here."""
    found: set[tuple[str, str]] = set()
    todo = [("spade-rl", wanted) for wanted in ("", extra)]
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) in found:
            continue
        found.add((name, wanted))
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, requirements):
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted}):
                other = canonicalize_name(requirement.name)
                todo += [(other, further) for further in ("", *requirement.extras)]
    return {name for name, _ in found}


def others(extra: str) -> list[str]:
    """Return the top-level modules of every installed distribution outside the closure of ``extra``."""
    allowed = closure(extra)
    blocked = set()
    for module, owners in metadata.packages_distributions().items():
        if not {canonicalize_name(owner) for owner in owners} & allowed:
            blocked.add(module)
    return sorted(blocked - {"pip", "setuptools", "_distutils_hack", "pkg_resources"})


def import_with(extra: str, *modules: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKER, json.dumps(others(extra)), *modules]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_blocker_blocks():
    assert "torch" in others("")
    assert "torch" not in others("model")
    result = import_with("", "torch")
    assert result.returncode != 0
    assert "torch is blocked" in result.stderr


@pytest.mark.parametrize(
    ("extra", "module"),
    [
        ("", "spade_rl.config"),
        ("", "spade_rl.cli.main"),
        ("", "spade_rl.rpc"),
        ("", "spade_rl.sandbox.server"),
        ("", "spade_rl.regret.server"),
        ("memory", "spade_rl.memory.server"),
        ("all", "spade_rl.designer.server"),
        ("all", "spade_rl.agent.server"),
        ("all", "spade_rl.learner.server"),
        ("all", "spade_rl.coordinator.cycle"),
    ],
)
def test_a_module_needs_no_more_than_its_extra(extra, module):
    result = import_with(extra, module)
    assert result.returncode == 0, result.stderr
