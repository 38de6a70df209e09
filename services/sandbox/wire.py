"""Between protobuf messages and the types of the sandbox."""

from __future__ import annotations

from spade_rl.config import Isolation
from spade_rl.kinds import EnvironmentKind
from spade_rl.sandbox.admission import Report
from spade_rl.sandbox.answers import Reset, Step
from spade_rl.sandbox.gates import Verdict
from spade_rl.sandbox.limits import EpisodeError, Origin
from spade_rl.sandbox.quarantine import Quarantined
from spade_rl.v1 import environment_pb2 as environment
from spade_rl.v1 import sandbox_pb2 as pb

# Unspecified: a source of either kind is judged.
_KIND = {
    environment.ENVIRONMENT_KIND_GAME: EnvironmentKind.GAME,
    environment.ENVIRONMENT_KIND_TOOL_USE: EnvironmentKind.TOOL_USE,
}
_ISOLATION = {
    Isolation.GVISOR: environment.ISOLATION_LEVEL_GVISOR,
    Isolation.BUBBLEWRAP: environment.ISOLATION_LEVEL_BUBBLEWRAP,
    Isolation.PROCESS: environment.ISOLATION_LEVEL_PROCESS,
}
_VERDICT = {
    Verdict.PASSED: environment.VERDICT_PASSED,
    Verdict.FAILED: environment.VERDICT_FAILED,
    Verdict.SKIPPED: environment.VERDICT_SKIPPED,
}
_ORIGIN = {Origin.ENVIRONMENT: pb.FAULT_ORIGIN_ENVIRONMENT, Origin.SANDBOX: pb.FAULT_ORIGIN_SANDBOX}


def kind_from_wire(kind: environment.EnvironmentKind) -> EnvironmentKind | None:
    """Return the kind that a source must be of, if one is asked for."""
    return _KIND.get(kind)


def isolation_to_wire(isolation: Isolation) -> environment.IsolationLevel:
    """Return the level on the wire."""
    return _ISOLATION[isolation]


def report_to_wire(report: Report) -> environment.AdmissionReport:
    """Return an admission's report."""
    return environment.AdmissionReport(
        digest=report.digest,
        admitted=report.admitted,
        verdicts=[
            environment.GateVerdict(gate=each.gate, verdict=_VERDICT[each.verdict], message=each.message)
            for each in report.verdicts
        ],
        isolation=_ISOLATION[report.isolation],
        seconds=report.seconds,
        solution=report.solution,
        observation=report.observation,
    )


def reset_to_wire(reset: Reset) -> pb.EpisodeResponse:
    """Return the answer to a reset."""
    return pb.EpisodeResponse(reset=pb.ResetResponse(observation=reset.observation, info_json=reset.info_json))


def steps_to_wire(steps: tuple[Step, ...]) -> pb.EpisodeResponse:
    """Return the answer to a batch of actions."""
    return pb.EpisodeResponse(
        step=pb.StepResponse(
            results=[
                pb.StepResult(
                    observation=step.observation,
                    reward=step.reward,
                    terminated=step.terminated,
                    truncated=step.truncated,
                    info_json=step.info_json,
                )
                for step in steps
            ]
        )
    )


def quarantined_to_wire(entry: Quarantined) -> pb.QuarantinedEnvironment:
    """Return an entry of the quarantine."""
    return pb.QuarantinedEnvironment(digest=entry.digest, kind=entry.kind.value, message=entry.message)


def fault_to_wire(error: EpisodeError) -> pb.EpisodeResponse:
    """Return what ends a broken episode."""
    return pb.EpisodeResponse(
        fault=pb.EpisodeFault(origin=_ORIGIN[error.origin], kind=error.kind.value, message=error.message)
    )
