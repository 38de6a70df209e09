"""All cases: those written here, and the known troubles in ``data/environments.jsonl``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cases_contract
import cases_honest
import cases_host
import cases_limits
import cases_protocol
import cases_source
import cases_state
from case import ADMITTED, PLAYS, Case


def _known() -> list[Case]:
    cases = []
    for line in (Path(__file__).parent / "data" / "environments.jsonl").open():
        each = json.loads(line)
        ends = frozenset({each["fault"] or PLAYS})
        cases.append(Case(f"known: {each['trouble']}", each["source"], frozenset({each["gate"]}), each["says"], ends))
    return cases


_MODULES = (cases_honest, cases_source, cases_contract, cases_state, cases_limits, cases_protocol, cases_host)
CASES: tuple[Case, ...] = (
    *_known(),
    *(
        replace(case, name=f"{module.__name__.removeprefix('cases_')}: {case.name}")
        for module in _MODULES
        for case in module.CASES
    ),
)
HONEST_CASES = tuple(case for case in CASES if ADMITTED in case.gates)
HOSTILE_CASES = tuple(case for case in CASES if ADMITTED not in case.gates)
