"""Between the designer's wire (its own, and those of the services it calls) and its values."""

from __future__ import annotations

from typing import Any

from spade_rl.designer.attempts import (
    MAX_REPLY_BYTES,
    Attempt,
    Designed,
    GateVerdict,
    Provenance,
    Reply,
    Report,
    Verdict,
    clip_bytes,
)
from spade_rl.designer.fitting import Seed
from spade_rl.kinds import EnvironmentKind
from spade_rl.v1 import designer_pb2, environment_pb2, inference_pb2, memory_pb2, trajectory_pb2

_KIND = {
    EnvironmentKind.GAME: environment_pb2.ENVIRONMENT_KIND_GAME,
    EnvironmentKind.TOOL_USE: environment_pb2.ENVIRONMENT_KIND_TOOL_USE,
}
_PROVENANCE = tuple(Provenance.__dataclass_fields__)
_TO_VERDICT = {
    environment_pb2.VERDICT_PASSED: Verdict.PASSED,
    environment_pb2.VERDICT_FAILED: Verdict.FAILED,
    environment_pb2.VERDICT_SKIPPED: Verdict.SKIPPED,
}
_FROM_VERDICT: dict[Verdict, Any] = {verdict: number for number, verdict in _TO_VERDICT.items()}


def reply_from(message: inference_pb2.GenerateResponse) -> Reply:
    """Return what an engine sampled."""
    return Reply(
        token_ids=tuple(message.token_ids),
        log_probs=tuple(message.log_probs),
        policy_version=message.policy_version,
        cut=message.finish_reason == trajectory_pb2.FINISH_REASON_LENGTH,
    )


def seed_from(message: memory_pb2.MemorySeed) -> Seed:
    """Return an example that memory offers."""
    environment = message.environment
    return Seed(environment.digest, environment.source, message.statistics.win_rate, message.reason)


def report_from(message: environment_pb2.AdmissionReport) -> Report:
    """Return the sandbox's verdicts on a source."""
    return Report(
        digest=message.digest,
        admitted=message.admitted,
        verdicts=tuple(GateVerdict(v.gate, _TO_VERDICT[v.verdict], v.message) for v in message.verdicts),
        isolation=message.isolation,
        seconds=message.seconds,
        solution=tuple(message.solution),
        observation=message.observation,
    )


def _provenance(provenance: Provenance) -> environment_pb2.Provenance:
    return environment_pb2.Provenance(**{name: getattr(provenance, name) for name in _PROVENANCE})


def _report(report: Report) -> environment_pb2.AdmissionReport:
    isolation: Any = report.isolation
    return environment_pb2.AdmissionReport(
        digest=report.digest,
        admitted=report.admitted,
        verdicts=[
            environment_pb2.GateVerdict(gate=v.gate, verdict=_FROM_VERDICT[v.verdict], message=v.message)
            for v in report.verdicts
        ],
        isolation=isolation,
        seconds=report.seconds,
        solution=report.solution,
        observation=report.observation,
    )


def _attempt(attempt: Attempt) -> designer_pb2.DesignAttempt:
    reply = attempt.reply
    segments = [trajectory_pb2.Segment(token_ids=attempt.prompt_ids)]
    if reply.token_ids:
        segments.append(
            trajectory_pb2.Segment(
                token_ids=reply.token_ids,
                log_probs=reply.log_probs,
                trained=True,
                policy_version=reply.policy_version,
                sampled=True,
            )
        )
    return designer_pb2.DesignAttempt(
        id=attempt.id,
        skill=attempt.skill,
        provenance=_provenance(attempt.provenance),
        source=attempt.source,
        report=_report(attempt.report),
        normalised_digest=attempt.normalised_digest,
        sequence=trajectory_pb2.Sequence(segments=segments),
        reply=clip_bytes(attempt.text, MAX_REPLY_BYTES),
    )


def kind_to_wire(kind: EnvironmentKind) -> Any:
    """Return a kind on the wire."""
    return _KIND[kind]


def slot_message(designed: Designed, kind: EnvironmentKind) -> designer_pb2.DesignedSlot:
    """Return a slot that is done for the wire; its environment, if any, is of ``kind``."""
    message = designer_pb2.DesignedSlot(slot=designed.slot, attempts=[_attempt(a) for a in designed.attempts])
    if designed.admitted:
        last = designed.attempts[-1]
        message.environment.CopyFrom(
            environment_pb2.Environment(
                digest=last.report.digest,
                source=last.source,
                kind=kind_to_wire(kind),
                skill=last.skill,
                hint=designed.hint,
                provenance=_provenance(last.provenance),
            )
        )
    return message
