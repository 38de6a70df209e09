"""Tries a case against a sandbox service over gRPC, and says what is wrong with what came of it.

Nothing here waits without a deadline: a call that does not return is an outcome like any other.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import grpc
from case import ADMITTED, CLAIM, PLAYS, Case

from spade_rl.v1 import environment_pb2, sandbox_pb2
from spade_rl.v1.sandbox_pb2_grpc import SandboxServiceStub

CALL_SECONDS = 180.0
OBSERVATION_BYTES = 65536
# In messages of gates: a deadline was missed, or nearly, or a process's end was not told in time.
SLOW_SIGNS = ("did not return within", "admission took", "safe from the deadline", "closed its connection")
ATTEMPTS = 3
RUN = secrets.token_hex(4)


@dataclass(slots=True)
class Outcome:
    """What came of a case."""

    # The gate that refused it, or ADMITTED, and the gate's message.
    gate: str = ""
    message: str = ""
    # Of every episode: the kind of fault that ended it ("" if none did), its message, and its last observation.
    endings: list[tuple[str, str]] = field(default_factory=list)
    observations: list[str] = field(default_factory=list)
    # What is wrong with the service itself: a status that is not OK, a fault of the sandbox's origin, a wild value.
    trouble: str = ""

    @property
    def was_slow(self) -> bool:
        """Whether a deadline was missed, which a busy machine may be to blame for."""
        return any(sign in self.message for sign in SLOW_SIGNS) or any(
            kind in ("deadline", "episode_time", "capacity") for kind, _ in self.endings
        )


async def evaluate(stub: SandboxServiceStub, case: Case, *, seed: int = 1) -> Outcome:
    """Try a case; what goes wrong is in the outcome."""
    outcome = Outcome()
    try:
        if case.plays:
            for number in range(case.episodes):
                async with _bystander(stub, case, outcome, seed) if case.watched else nullcontext():
                    await _play(stub, case, outcome, seed + number)
                if outcome.trouble:
                    break
        if case.gates and not outcome.trouble:
            # The sandbox of the episodes is still warm.
            await _admit(stub, case, outcome, seed)
    except grpc.aio.AioRpcError as error:
        outcome.trouble = f"{error.code().name}: {error.details()}"
    except TimeoutError:
        outcome.trouble = f"no answer within {CALL_SECONDS:g} s"
    return outcome


async def evaluate_alone(stub: SandboxServiceStub, case: Case) -> Outcome:
    """Try a case again that was slow among others; where the whole machine is busy, up to three times."""
    for _ in range(ATTEMPTS):
        outcome = await evaluate(stub, case)
        if not problem(case, outcome) or not outcome.was_slow:
            break
    return outcome


async def _admit(stub: SandboxServiceStub, case: Case, outcome: Outcome, seed: int) -> None:
    request = sandbox_pb2.AdmitRequest(source=_source(case), seed=seed)
    report = (await stub.Admit(request, timeout=CALL_SECONDS)).report
    failed = [each for each in report.verdicts if each.verdict == environment_pb2.VERDICT_FAILED]
    outcome.gate, outcome.message = (failed[0].gate, failed[0].message) if failed else (ADMITTED, "")
    if report.admitted == bool(failed) or len(failed) > 1:
        outcome.trouble = "the report contradicts itself"
    if failed and not outcome.message:
        outcome.trouble = "a gate refused without a message"


def _reset(case: Case, seed: int) -> sandbox_pb2.EpisodeRequest:
    return sandbox_pb2.EpisodeRequest(reset=sandbox_pb2.ResetRequest(source=_source(case), seed=seed))


@asynccontextmanager
async def _bystander(stub: SandboxServiceStub, case: Case, outcome: Outcome, seed: int) -> AsyncIterator[None]:
    """Another episode of the same source, open while the block runs; then it must go on as if nothing had been."""
    call = stub.Episode(timeout=CALL_SECONDS)
    async with asyncio.timeout(CALL_SECONDS):
        await call.write(_reset(case, seed + 1000))
        await call.read()
        yield
        await call.write(_steps(case.batches)[0])
        answer = await call.read()
        found = [each.observation for each in answer.step.results] if answer is not grpc.aio.EOF else []
        if found != [case.finds] and not outcome.trouble:
            outcome.trouble = f"another worker was harmed, or found something: {answer}"
        call.cancel()


async def _play(stub: SandboxServiceStub, case: Case, outcome: Outcome, seed: int) -> None:
    call = stub.Episode(timeout=CALL_SECONDS)
    answers = _answers(call, [_reset(case, seed), *_steps(case.batches)])
    kind, message, observation = "", "", ""
    async for answer in answers:
        match answer.WhichOneof("response"):
            case "reset":
                observation = answer.reset.observation
            case "step":
                for result in answer.step.results:
                    outcome.trouble = outcome.trouble or _wild(result)
                    observation = result.observation
            case "fault":
                kind, message = answer.fault.kind, answer.fault.message
                if answer.fault.origin != sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT:
                    outcome.trouble = f"a fault of the sandbox: {kind}: {message}"
                elif not message:
                    outcome.trouble = f"a fault without a message: {kind}"
            case other:
                outcome.trouble = f"an answer of no kind: {other}"
    outcome.endings.append((kind, message))
    outcome.observations.append(observation)


async def _answers(
    call: grpc.aio.StreamStreamCall, requests: Sequence[sandbox_pb2.EpisodeRequest]
) -> AsyncIterator[sandbox_pb2.EpisodeResponse]:
    """Send one request after the other, each once the one before is answered, until the episode is over."""
    async with asyncio.timeout(CALL_SECONDS):
        for request in requests:
            try:
                await call.write(request)
            except asyncio.InvalidStateError:  # The service has ended the stream already.
                break
            answer = await call.read()
            if answer is grpc.aio.EOF:
                break
            yield answer
            if answer.HasField("fault") or (
                answer.HasField("step") and any(each.terminated or each.truncated for each in answer.step.results)
            ):
                break
        await call.done_writing()
        if await call.code() is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
            )


def _steps(batches: Sequence[Sequence[str]]) -> list[sandbox_pb2.EpisodeRequest]:
    return [sandbox_pb2.EpisodeRequest(step=sandbox_pb2.StepRequest(actions=actions)) for actions in batches]


def _source(case: Case) -> str:
    # Protobuf cannot carry a lone surrogate at all.
    source = case.source.encode("utf-8", "replace").decode()
    # A service that lives on may have what an earlier run played under quarantine.
    return f"{source}\n# played in {RUN}\n" if case.plays else source


def _wild(result: sandbox_pb2.StepResult) -> str:
    """Say what must never leave the service, whatever an environment does."""
    if not math.isfinite(result.reward) or not -1 <= result.reward <= 1:
        return f"a reward of {result.reward}"
    if len(result.observation.encode()) > OBSERVATION_BYTES:
        return "an observation beyond its limit"
    try:
        is_object = isinstance(json.loads(result.info_json, parse_constant=float), dict)
    except ValueError:
        is_object = False
    return "" if is_object else f"an info that is no object: {result.info_json[:80]}"


def problem(case: Case, outcome: Outcome) -> str:
    """Say how an outcome differs from what must come of a case; "" if it does not."""
    if outcome.trouble:
        return outcome.trouble
    if case.gates and outcome.gate not in case.gates:
        return f"{outcome.gate} instead of {' or '.join(sorted(case.gates))}: {outcome.message}"
    if case.gates and case.says not in outcome.message:
        return f"the gate {outcome.gate} does not say {case.says!r}: {outcome.message}"
    for kind, message in outcome.endings:
        if case.finds is not None or PLAYS in case.ends:
            if kind:
                return f"an episode ended with {kind}: {message}"
        elif CLAIM not in case.ends and kind not in case.ends:
            return f"an episode ended with {kind or 'no fault'} instead of {' or '.join(sorted(case.ends))}: {message}"
    if case.finds is not None and any(found != case.finds for found in outcome.observations):
        return f"found {outcome.observations} instead of {case.finds}"
    return ""
