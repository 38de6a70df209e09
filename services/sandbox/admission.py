"""Passes a source through the gates: the static ones here, the others with what two fresh workers bring.

The first worker resets, solves and plays every instance; the second, in another process, resets them again, replays
the winning actions, and plays strategies that know nothing. All judging is in ``gates``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spade_rl.config import Isolation
from spade_rl.errors import CapacityError, SandboxError
from spade_rl.kinds import EnvironmentKind
from spade_rl.sandbox import metrics
from spade_rl.sandbox.answers import Refusal, Reset
from spade_rl.sandbox.gates import (
    PROBES,
    Evidence,
    GateVerdict,
    Instance,
    Verdict,
    instance_seeds,
    judge,
    slow_call,
    static_refusal,
    strategies,
)
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.program import Program, StaticRefusal, require_kind
from spade_rl.sandbox.worker import (
    Answer,
    Load,
    Operation,
    ResetTo,
    Solution,
    Solve,
    Steps,
    Take,
    Transcript,
    Worker,
    describe,
)
from spade_rl.seeds import source_digest


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict of every gate on one source."""

    digest: str
    normalised_digest: str
    verdicts: tuple[GateVerdict, ...]
    isolation: Isolation
    seconds: float
    # The oracle's actions and the first observation of the first instance; empty unless admitted.
    solution: tuple[str, ...] = ()
    observation: str = ""
    # What ended a worker before its work was done: not every refusal is one.
    fault: EpisodeError | None = None

    @property
    def admitted(self) -> bool:
        """Whether every gate passed."""
        return all(verdict.verdict is Verdict.PASSED for verdict in self.verdicts)

    @property
    def failure(self) -> GateVerdict | None:
        """The gate that refused, if one did."""
        return next((each for each in self.verdicts if each.verdict is Verdict.FAILED), None)


async def admit(
    pool: Pool,
    source: str,
    *,
    seed: int,
    known: Collection[str] = (),
    kind: EnvironmentKind | None = None,
    barred: str = "",
) -> Report:
    """Return the report on a source, which must be of ``kind`` if one is given; ``barred``: why it may not pass anyhow.

    Raises SandboxError or CapacityError if it could not be judged.
    """
    began = time.monotonic()
    try:
        program = await pool.analysed(source)
        if kind is not None:
            require_kind(program, kind)
    except StaticRefusal as refused:
        report = _report(pool, source_digest_of(source), "", static_refusal(refused.gate, refused.message), began, None)
    else:
        evidence = Evidence(
            [Instance(each) for each in instance_seeds(seed, program.digest)],
            call_seconds=pool.limits.call_seconds,
            normalised_digest=program.normalised_digest,
            known=known,
        )
        await _gather(pool, program, evidence, seed)
        if barred and evidence.error is None:
            evidence.error = EpisodeError(Origin.ENVIRONMENT, FaultKind.QUARANTINE, barred)
            evidence.error_gate = "replay"
        verdicts = judge(evidence)
        report = _report(pool, program.digest, program.normalised_digest, verdicts, began, evidence)
        if not report.admitted:
            pool.forget(program.digest)
    failure = report.failure
    metrics.VERDICTS.labels(failure.gate if failure is not None else "admitted").inc()
    metrics.ADMISSION_SECONDS.observe(report.seconds)
    return report


def source_digest_of(source: str) -> str:
    """Return the digest of any text, even one that cannot be encoded."""
    return source_digest(source.encode("utf-8", "replace").decode())


def _report(
    pool: Pool,
    digest: str,
    normalised: str,
    verdicts: list[GateVerdict],
    began: float,
    evidence: Evidence | None,
) -> Report:
    first = evidence.instances[0] if evidence is not None else None
    admitted = all(verdict.verdict is Verdict.PASSED for verdict in verdicts)
    solved = admitted and first is not None and isinstance(first.solution, tuple) and isinstance(first.reset, Reset)
    return Report(
        digest=digest,
        normalised_digest=normalised,
        verdicts=tuple(verdicts),
        isolation=pool.isolation,
        seconds=time.monotonic() - began,
        solution=first.solution if solved and first is not None and isinstance(first.solution, tuple) else (),
        observation=first.reset.observation if solved and first is not None and isinstance(first.reset, Reset) else "",
        fault=evidence.error if evidence is not None else None,
    )


async def _gather(pool: Pool, program: Program, evidence: Evidence, seed: int) -> None:
    """Fill in the evidence; what is the environment's fault ends up in it, what is ours is raised."""
    try:
        async with pool.workers(program, 2) as (first, second):
            async with asyncio.timeout(pool.admission_seconds):
                await _first_pass(first, evidence)
                slow = slow_call(evidence)
                if evidence.error is None and slow:
                    evidence.error = EpisodeError(Origin.ENVIRONMENT, FaultKind.DEADLINE, slow)
                    evidence.error_gate = "bounds"
                if evidence.error is None and evidence.loaded is None:
                    await _second_pass(second, evidence, seed)
                _look_for_attacks((first, second), evidence)
    except TimeoutError:
        evidence.error = EpisodeError(
            Origin.ENVIRONMENT, FaultKind.DEADLINE, f"admission took longer than {pool.admission_seconds:g} s"
        )
        evidence.error_gate = "bounds"
    except EpisodeError as error:
        evidence.error, evidence.error_gate = error, "compile"
    trouble = evidence.error
    if trouble is not None and trouble.origin is Origin.SANDBOX:
        raise (CapacityError if trouble.kind is FaultKind.CAPACITY else SandboxError)(trouble.message)


def _look_for_attacks(workers: Sequence[Worker], evidence: Evidence) -> None:
    """Note that a worker said what nobody had asked for, after its work was done."""
    for worker in workers:
        error = worker.error
        if evidence.error is None and error is not None and error.kind is FaultKind.PROTOCOL:
            evidence.error, evidence.error_gate = error, "step"


async def _first_pass(worker: Worker, evidence: Evidence) -> None:
    seeds = [each.seed for each in evidence.instances]
    plan: list[tuple[str, int | str, Operation]] = [("compile", "", Load())]
    for actions in PROBES:
        plan += [("reset", "", ResetTo(seeds[0])), ("step", actions[0], Take(actions))]
    for index, seed in enumerate(seeds):
        plan += [("reset", index, ResetTo(seed)), ("solution", index, Solve()), ("step", index, Take(None))]
    transcript = await _run(worker, [operation for _, _, operation in plan], evidence)
    for (_, key, operation), answer in zip(plan, transcript.answers, strict=False):
        _note_first(evidence, key, operation, answer)
    if transcript.error is not None:
        evidence.error, evidence.error_gate = transcript.error, plan[len(transcript.answers)][0]


def _note_first(evidence: Evidence, key: int | str, operation: Operation, answer: Answer) -> None:
    match operation, answer:
        case Load(), Refusal():
            evidence.loaded = answer
        case ResetTo(), Reset() | Refusal() if isinstance(key, int):
            evidence.instances[key].reset = answer
        case ResetTo(), Reset() | Refusal():
            evidence.probe_resets.append(answer)
        case Solve(), Solution(actions) if isinstance(key, int):
            evidence.instances[key].solution = actions
        case Solve(), Refusal() if isinstance(key, int):
            evidence.instances[key].solution = answer
        case Take(), Steps() | Refusal():
            outcome = answer.steps if isinstance(answer, Steps) else answer
            if isinstance(key, int):
                evidence.instances[key].steps = outcome
            else:
                evidence.probes.append((key, outcome))


async def _second_pass(worker: Worker, evidence: Evidence, seed: int) -> None:
    plan: list[tuple[str, int, str, Operation]] = []
    for index, each in enumerate(evidence.instances):
        plan.append(("determinism", index, "", ResetTo(each.seed)))
        if isinstance(each.solution, tuple) and isinstance(each.steps, tuple):
            plan.append(("replay", index, "", Take(each.solution)))
    if all(isinstance(each.solution, tuple) for each in evidence.instances):
        for name, plays in strategies(evidence.instances, seed).items():
            for index, actions in plays:
                plan.append(("trivial", index, "", ResetTo(evidence.instances[index].seed)))
                plan.append(("trivial", index, name, Take(actions)))
    operations: list[Operation] = [Load(), *(operation for _, _, _, operation in plan)]
    transcript = await _run(worker, operations, evidence)
    for (gate, index, name, operation), answer in zip(plan, transcript.answers[1:], strict=False):
        each = evidence.instances[index]
        if gate == "determinism" and isinstance(answer, (Reset, Refusal)):
            each.other_reset = answer
        elif isinstance(operation, Take) and isinstance(answer, (Steps, Refusal)):
            outcome = answer.steps if isinstance(answer, Steps) else answer
            if gate == "replay":
                each.other_steps = outcome
            else:
                evidence.trivial.setdefault(name, []).append(outcome)
    if transcript.error is not None:
        at = len(transcript.answers) - 1
        evidence.error = transcript.error
        evidence.error_gate = plan[at][0] if at >= 0 else "compile"


async def _run(worker: Worker, operations: Sequence[Operation], evidence: Evidence) -> Transcript:
    transcript = await worker.run(operations, go_on=True)
    for operation, seconds in zip(operations, transcript.seconds, strict=False):
        if seconds > evidence.slowest_seconds and not isinstance(operation, (Load, Take)):
            evidence.slowest_seconds, evidence.slowest_call = seconds, describe(operation)
    return transcript
