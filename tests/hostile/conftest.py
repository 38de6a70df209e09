"""All cases are tried once, many at a time, before the first test looks at what came of its own."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import target
from case import Case
from catalogue import CASES
from trial import Outcome, evaluate, evaluate_alone, problem

CONCURRENT = 8


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """What came of every case that was selected, by name."""
    if not target.ADDRESS and target.ISOLATION == "gvisor" and shutil.which("runsc") is None:
        pytest.skip("runsc is not installed")
    wanted = {item.callspec.params["case"].name for item in request.session.items if _takes_case(item)}
    cases = [case for case in CASES if case.name in wanted and not target.left_out(case)]
    return asyncio.run(_evaluated(cases))


def _takes_case(item: pytest.Item) -> bool:
    return "case" in getattr(getattr(item, "callspec", None), "params", {})


async def _evaluated(cases: Sequence[Case]) -> dict[str, Outcome]:
    places = asyncio.Semaphore(CONCURRENT)
    outcomes: dict[str, Outcome] = {}
    async with target.opened() as stub:

        async def one(case: Case) -> None:
            async with places:
                outcomes[case.name] = await evaluate(stub, case)

        async with asyncio.TaskGroup() as group:
            for case in cases:
                group.create_task(one(case))
        # Deadlines are short; on a busy machine an honest call may miss one.
        for case in cases:
            if problem(case, outcomes[case.name]) and outcomes[case.name].was_slow:
                outcomes[case.name] = await evaluate_alone(stub, case)
    return outcomes
