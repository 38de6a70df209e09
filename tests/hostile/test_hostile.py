"""Each hostile or odd program, and what must come of it. The cases are in ``cases_*.py``."""

from __future__ import annotations

from collections import Counter

import pytest
import target
from case import Case
from catalogue import CASES
from trial import Outcome, problem

# The first test waits for all cases: a minute or two, on a busy machine more.
pytestmark = [pytest.mark.timeout(1800)]
if not target.ADDRESS and target.ISOLATION == "gvisor":
    pytestmark.append(pytest.mark.gvisor)


def test_no_case_is_there_twice() -> None:
    for what in ("name", "source"):
        counted = Counter(getattr(case, what) for case in CASES)
        assert [each for each, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(outcomes: dict[str, Outcome], case: Case) -> None:
    if reason := target.left_out(case):
        pytest.skip(reason)
    assert problem(case, outcomes[case.name]) == ""
