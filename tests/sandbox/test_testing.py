"""The gates as tests for people who write environments by hand, and what the documentation says of the gates."""

from __future__ import annotations

import unittest
from pathlib import Path

import pytest
import yaml

from spade_rl.config import SandboxSection
from spade_rl.config_files import validate_config
from spade_rl.errors import ConfigurationError
from spade_rl.kinds import EnvironmentKind
from spade_rl.sandbox.gates import GATES
from spade_rl.sandbox.program import INJECTABLE
from spade_rl.sandbox.testing import EnvironmentTests, assert_admitted, check

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "examples" / "environments" / "number_lock.py"
PAGE = (ROOT / "docs" / "environments.md").read_text()
BROKEN = LOCK.read_text().replace('return [" ".join', 'return ["-".join')


class TestExample(EnvironmentTests):
    environment = LOCK
    isolation = "process"


def test_a_file_or_a_source_is_admitted() -> None:
    assert len(assert_admitted(LOCK, isolation="process").solution) == 1
    assert assert_admitted(str(LOCK), isolation="process").digest == check(LOCK.read_text(), isolation="process").digest


def test_the_gate_and_its_message_are_in_the_error() -> None:
    with pytest.raises(AssertionError, match=r"refused by the gate solution: .*not over after all 1 actions"):
        assert_admitted(BROKEN, isolation="process")


def test_other_limits_and_seeds_are_honoured() -> None:
    section = SandboxSection(max_observation_bytes=64)
    report = check(LOCK, isolation="process", section=section)
    assert report.failure is not None
    assert report.failure.gate == "reset"
    first, other = (check(LOCK, isolation="process", seed=seed).solution for seed in (0, 1))
    assert first != other


def test_what_cannot_be_checked_is_no_refusal(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*absent\.py"):
        check(tmp_path / "absent.py", isolation="process")
    with pytest.raises(ValueError, match="'none'"):
        check(LOCK, isolation="none")
    with pytest.raises(ConfigurationError, match="Nothing must set environment"):
        type("Nothing", (EnvironmentTests,), {}).report()


def test_every_gate_is_a_test_and_works_with_unittest() -> None:
    class Broken(EnvironmentTests, unittest.TestCase):
        environment = BROKEN
        isolation = "process"

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Broken)
    assert suite.countTestCases() == len(GATES)
    result = unittest.TestResult()
    suite.run(result)
    assert result.errors == []
    failed = {str(test).split()[0]: text for test, text in result.failures}
    position = GATES.index("solution")
    assert set(failed) == {f"test_{gate}" for gate in GATES[position:]}
    assert "not over after all" in failed["test_solution"]
    assert "not reached: the gate solution refused before" in failed["test_replay"]


def test_the_page_names_every_gate_in_order() -> None:
    rows = [line.split("`")[1] for line in PAGE.partition("## The gates")[2].splitlines() if line.startswith("| `")]
    assert tuple(rows) == GATES


def test_the_page_names_every_injected_name() -> None:
    part = PAGE.partition("Names without an import")[2].partition("**Limits**")[0]
    assert set(part.split("`")[1::2]) == set(INJECTABLE)


def test_the_pages_settings_are_a_configuration() -> None:
    [text] = PAGE.split("```yaml\n")[1:]
    config = validate_config(yaml.safe_load(text.partition("```")[0]))
    assert config.designer.kind is EnvironmentKind.TOOL_USE
    assert (config.regret.window, config.grounding.words) == (8, 4000)
