"""For people who write environments by hand: the admission gates as tests of their own suite.

    from spade_rl.sandbox.testing import EnvironmentTests, assert_admitted

    def test_my_game():
        assert_admitted("my_game.py")

    class TestMyGame(EnvironmentTests):  # the same, with one test for each gate
        environment = "my_game.py"

Works with pytest and unittest. The isolation is gVisor unless another is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from spade_rl.config import Isolation, SandboxSection
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox.admission import Report
from spade_rl.sandbox.check import check_file, check_source
from spade_rl.sandbox.gates import GATES, Verdict


def check(
    environment: str | Path,
    *,
    isolation: Isolation | str = Isolation.GVISOR,
    seed: int = 0,
    section: SandboxSection | None = None,
) -> Report:
    """Return the report on a file or, if ``environment`` is text of several lines, on that source.

    ``section`` are limits other than the defaults; its isolation is not used. Raises ConfigurationError if the file
    cannot be read or the isolation cannot be given.
    """
    section = (section or SandboxSection()).model_copy(update={"isolation": Isolation(isolation)})
    if isinstance(environment, str) and "\n" in environment:
        return asyncio.run(check_source(environment, section, seed=seed))
    return check_file(Path(environment), section, seed=seed)


def assert_admitted(
    environment: str | Path,
    *,
    isolation: Isolation | str = Isolation.GVISOR,
    seed: int = 0,
    section: SandboxSection | None = None,
) -> Report:
    """Return the report on an environment that every gate admits; AssertionError names the gate that refuses it."""
    report = check(environment, isolation=isolation, seed=seed, section=section)
    failure = report.failure
    if failure is not None:
        raise AssertionError(f"refused by the gate {failure.gate}: {failure.message}")
    return report


class EnvironmentTests:
    """Tests of one environment, one for each gate: extend it, and set ``environment``.

    A gate that comes after the one that refused fails as well: nothing is known of it.
    """

    environment: ClassVar[str | Path]
    """A file, or the source itself."""
    isolation: ClassVar[Isolation | str] = Isolation.GVISOR
    seed: ClassVar[int] = 0
    section: ClassVar[SandboxSection | None] = None
    __report: ClassVar[Report | None] = None

    @classmethod
    def report(cls) -> Report:
        """Return the report on the environment; the gates run once for a class."""
        if "_EnvironmentTests__report" not in vars(cls):
            if not hasattr(cls, "environment"):
                raise ConfigurationError(f"{cls.__name__} must set environment, to a file or a source")
            cls.__report = check(cls.environment, isolation=cls.isolation, seed=cls.seed, section=cls.section)
        assert cls.__report is not None
        return cls.__report


def _gate_test(gate: str) -> Callable[[EnvironmentTests], None]:
    def test(self: EnvironmentTests) -> None:
        report = self.report()
        verdict = next(each for each in report.verdicts if each.gate == gate)
        if verdict.verdict is Verdict.SKIPPED:
            failed = report.failure
            raise AssertionError(f"not reached: the gate {failed.gate if failed else '?'} refused before")
        if verdict.verdict is not Verdict.PASSED:
            raise AssertionError(verdict.message)

    test.__name__ = test.__qualname__ = f"test_{gate}"
    test.__doc__ = f"The gate {gate} passes."
    return test


for _gate in GATES:
    setattr(EnvironmentTests, f"test_{_gate}", _gate_test(_gate))
