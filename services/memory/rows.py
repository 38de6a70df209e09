"""Between the archive's values and its rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from spade_rl.memory.records import (
    AdmissionReport,
    Attempt,
    Environment,
    GateVerdict,
    Provenance,
    RefusedSource,
    Segment,
    Statistics,
    TokenSequence,
    TrajectoryHeader,
)
from spade_rl.memory.schema import AttemptRow, EnvironmentRow, StatisticsRow, TrajectoryRow
from spade_rl.seeds import source_digest

_STATISTICS = tuple(Statistics.__dataclass_fields__)
_HEADER = tuple(TrajectoryHeader.__dataclass_fields__)


def environment_row(run_id: str, cycle: int, environment: Environment) -> dict[str, Any]:
    """Return the columns of an environment."""
    return {
        "run_id": run_id,
        "digest": environment.digest,
        "cycle": cycle,
        "kind": environment.kind,
        "skill": environment.skill,
        "source": environment.source,
        "hint": environment.hint,
        "document_id": environment.provenance.document_id,
        "provenance": asdict(environment.provenance),
    }


def as_environment(row: EnvironmentRow) -> Environment:
    """Return the environment of a row."""
    return Environment(row.digest, row.source, row.kind, row.skill, row.hint, _provenance(row.provenance))


def attempt_row(run_id: str, attempt: Attempt) -> dict[str, Any]:
    """Return the columns of an attempt."""
    report = attempt.report
    return {
        "run_id": run_id,
        "id": attempt.id,
        "cycle": attempt.cycle,
        "skill": attempt.skill,
        "source": attempt.source,
        "admitted": bool(report and report.admitted),
        "refusal": report.refusal() if report else "",
        "normalised_digest": attempt.normalised_digest,
        "reply": attempt.reply,
        "provenance": asdict(attempt.provenance),
        "report": asdict(report) if report else None,
        "sequence": [
            [list(s.token_ids), list(s.log_probs), s.trained, s.policy_version, s.sampled] for s in attempt.sequence
        ],
    }


def as_attempt(row: AttemptRow, *, tokens: bool) -> Attempt:
    """Return the attempt of a row; without ``tokens`` its sequence is empty and need not be loaded."""
    return Attempt(
        id=row.id,
        cycle=row.cycle,
        skill=row.skill,
        provenance=_provenance(row.provenance),
        source=row.source,
        report=_report(row.report) if row.report else None,
        normalised_digest=row.normalised_digest,
        sequence=_sequence(row.sequence) if tokens else (),
        reply=row.reply,
    )


def as_refused(row: Any) -> RefusedSource:
    """Return the source of a refused attempt's row, of which sequence and reply need not be loaded."""
    environment = Environment(
        digest=source_digest(row.source),
        source=row.source,
        kind="unspecified",
        skill=row.skill,
        hint="",
        provenance=_provenance(row.provenance),
    )
    return RefusedSource(row.id, row.cycle, environment, row.refusal)


def statistics_row(run_id: str, cycle: int, statistics: Statistics) -> dict[str, Any]:
    """Return the columns of an environment's statistics as of a cycle."""
    return {"run_id": run_id, "cycle": cycle, **{name: getattr(statistics, name) for name in _STATISTICS}}


def as_statistics(row: StatisticsRow) -> Statistics:
    """Return the statistics of a row."""
    return Statistics(**{name: getattr(row, name) for name in _STATISTICS})


def trajectory_row(run_id: str, part: str, header: TrajectoryHeader) -> dict[str, Any]:
    """Return the columns of a trajectory whose content lies in the file ``part``."""
    return {"run_id": run_id, "part": part, **{name: getattr(header, name) for name in _HEADER}}


def as_header(row: TrajectoryRow) -> TrajectoryHeader:
    """Return the searchable fields of a trajectory."""
    return TrajectoryHeader(**{name: getattr(row, name) for name in _HEADER})


def _provenance(stored: dict[str, Any]) -> Provenance:
    seeds = {name: tuple(stored[name]) for name in ("positive_seeds", "negative_seeds")}
    return Provenance(**{**stored, **seeds})


def _report(stored: dict[str, Any]) -> AdmissionReport:
    verdicts = tuple(GateVerdict(**verdict) for verdict in stored["verdicts"])
    return AdmissionReport(**{**stored, "verdicts": verdicts, "solution": tuple(stored["solution"])})


def _sequence(stored: list[Any]) -> TokenSequence:
    return tuple(Segment(tuple(ids), tuple(probs), *rest) for ids, probs, *rest in stored)
