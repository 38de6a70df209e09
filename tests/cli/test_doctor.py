from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spade_rl.cli import doctor
from spade_rl.cli.machine import NEEDED, Check, Gvisor, Health, Machine, checks, run_isolation

MACHINE = Machine(
    python=(3, 11, 7),
    packages={name: "1.0" for name, _ in NEEDED.values()},
    gvisor=Gvisor(
        "/usr/bin/runsc", "20240729.0", {"systrap": "", "ptrace": "no"}, rootless=True, limits={"network": ""}
    ),
    cores=2,
    memory_gb=16.0,
    disk_gb=50.0,
    disk_path="/",
    model_folder="/assets",
    missing_model_files=(),
)


def _bad(machine: Machine) -> list[Check]:
    return [check for check in checks(machine) if check.health is Health.BAD]


def test_a_good_machine_has_nothing_to_mend() -> None:
    found = checks(MACHINE)
    assert {check.health for check in found} == {Health.GOOD}
    assert {check.advice for check in found} == {""}
    assert any("gvisor: runsc 20240729.0, platform systrap, rootless" in check.found for check in found)
    assert run_isolation(MACHINE.gvisor) == "gvisor"


@pytest.mark.parametrize(
    ("changed", "name", "advice"),
    [
        ({"python": (3, 10, 0)}, "python", "install Python 3.11"),
        ({"packages": {**MACHINE.packages, "torch": None}}, "torch", "pip install 'spade-rl[model]'"),
        ({"packages": {**MACHINE.packages, "grpcio": None}}, "grpcio", "pip install 'spade-rl'"),
        ({"gvisor": Gvisor(None)}, "isolation", "apt-get install runsc"),
        ({"gvisor": Gvisor("/r", "1", {"systrap": "hangs"}, advice=("do this",))}, "isolation", "do this"),
        (
            {"gvisor": Gvisor("/r", "1", {"systrap": ""}, limits={"disk": "", "network": "a route"})},
            "sandbox limits",
            "gVisor",
        ),
        ({"missing_model_files": ("config.json",)}, "nano model", "spade nano build"),
        ({"memory_gb": 1.0}, "memory", "smaller model"),
        ({"disk_gb": 0.1}, "free disk (/)", "make room"),
    ],
)
def test_what_keeps_a_run_from_starting_is_named_with_what_to_do(
    changed: dict[str, Any], name: str, advice: str
) -> None:
    (check,) = _bad(replace(MACHINE, **changed))
    assert check.name == name
    assert advice in check.advice


def test_what_is_merely_tight_is_a_warning() -> None:
    tight = checks(replace(MACHINE, memory_gb=3.0, disk_gb=1.0, cores=1))
    assert [check.name for check in tight if check.health is Health.WARNING] == ["memory", "cores", "free disk (/)"]
    assert not _bad(replace(MACHINE, memory_gb=3.0, disk_gb=1.0, cores=1))


def test_without_gvisor_no_weaker_level_is_taken() -> None:
    gvisor = Gvisor(None, bubblewrap="/usr/bin/bwrap")
    assert run_isolation(gvisor) == "none"
    (check,) = _bad(replace(MACHINE, gvisor=gvisor))
    assert "refuses to start" in check.found
    assert "bubblewrap or process can be asked for by name" in check.found


@pytest.mark.parametrize(("machine", "code"), [(MACHINE, 0), (replace(MACHINE, gvisor=Gvisor(None)), 1)])
def test_the_command_ends_with_1_if_a_run_could_not_start(
    spade: Callable[..., Any],
    as_json: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    code: int,
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda _: machine)
    for more in ((), ("--json",)):
        result = spade("doctor", *more)
        assert result.exit_code == code
    printed = as_json(result.stdout)
    assert printed["ready"] is (code == 0)
    assert printed["isolation"] == ("none" if code else "gvisor")


def test_this_machine_is_examined(spade: Callable[..., Any], as_json: Callable[[str], Any]) -> None:
    result = spade("doctor", "--json")
    printed = as_json(result.stdout)
    assert result.exit_code == (0 if printed["ready"] else 1)
    names = {check["name"] for check in printed["checks"]}
    assert {"python", "torch", "isolation", "nano model", "memory", "cores"} <= names
    if printed["isolation"] == "gvisor":
        assert set(printed["gvisor"]["limits"]) >= {"sandbox_memory", "processes", "network"}
        assert "sandbox limits" in names
