"""The coordinator as a client: every call has a deadline, and a connection that broke is made again.

Repeating any of the calls changes nothing, so one that nobody answered is repeated for ``patience`` seconds; then the last
reason is the error. A coordinator that never answered is an error at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

import grpc

from spade_rl.cluster.certificates import ClientCertificate
from spade_rl.errors import SpadeError, UnavailableError
from spade_rl.rpc import BOUNDARY_KEY, CHANNEL_OPTIONS, as_spade_error
from spade_rl.v1 import coordinator_pb2 as pb
from spade_rl.v1 import coordinator_pb2_grpc

CALL_SECONDS = 30.0
# Making a run's folder reads its whole archive.
LIST_SECONDS = 1800.0
CHUNK_SECONDS = 60.0
PATIENCE_SECONDS = 60.0
_PAUSE = 0.5
# While a run is watched the coordinator may have nothing to say for as long as a cycle takes.
_WATCH_SECONDS = 3600.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run, as a line of its log."""

    number: int
    fields: dict[str, Any]


def open_channel(address: str, certificate: ClientCertificate | None) -> grpc.aio.Channel:
    """Return a channel to a coordinator."""
    options: list[tuple[str, Any]] = list(CHANNEL_OPTIONS)
    if certificate is None:
        return grpc.aio.insecure_channel(address, options=options)
    if certificate.server_name is not None:
        options.append(("grpc.ssl_target_name_override", certificate.server_name))
    credentials = grpc.ssl_channel_credentials(certificate.authority, certificate.key, certificate.certificate)
    return grpc.aio.secure_channel(address, credentials, options=options)


class Coordinator:
    """Calls a coordinator. ``trouble`` says why the way to it broke, as far as somebody knows."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        name: str,
        trouble: Callable[[], SpadeError | None] = lambda: None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
        self._name, self._trouble, self._patience = name, trouble, patience
        self._answered = False

    async def status(self, run_id: str = "") -> pb.GetRunResponse:
        """Return how a run goes."""
        return await self._call(lambda: self._stub.GetRun(pb.GetRunRequest(run_id=run_id), timeout=CALL_SECONDS))

    async def runs(self) -> pb.ListRunsResponse:
        """Return how all runs go, and the services' configuration."""
        return await self._call(lambda: self._stub.ListRuns(pb.ListRunsRequest(), timeout=CALL_SECONDS))

    async def start(self, run_id: str, config: str) -> pb.StartRunResponse:
        """Begin a run."""
        request = pb.StartRunRequest(run_id=run_id, config=config)
        return await self._call(lambda: self._stub.StartRun(request, timeout=CALL_SECONDS))

    async def resume(self, run_id: str) -> pb.ResumeRunResponse:
        """Go on with a run."""
        request = pb.ResumeRunRequest(run_id=run_id)
        return await self._call(lambda: self._stub.ResumeRun(request, timeout=CALL_SECONDS))

    async def stop(self, run_id: str) -> pb.StopRunResponse:
        """Have a run stop after its cycle."""
        request = pb.StopRunRequest(run_id=run_id)
        return await self._call(lambda: self._stub.StopRun(request, timeout=CALL_SECONDS))

    async def artifacts(self, run_id: str, *, weights: bool) -> pb.ListArtifactsResponse:
        """Have a run's files made up to now, and return their list."""
        request = pb.ListArtifactsRequest(run_id=run_id, weights=weights)
        return await self._call(lambda: self._stub.ListArtifacts(request, timeout=LIST_SECONDS))

    async def data(self, run_id: str, artifact: pb.Artifact, offset: int) -> AsyncGenerator[bytes, None]:
        """Yield a file's bytes from an offset on; raises UnavailableError where the connection breaks."""
        request = pb.FetchArtifactRequest(run_id=run_id, path=artifact.path, sha256=artifact.sha256, offset=offset)
        call = self._stub.FetchArtifact(request)
        try:
            while (message := await asyncio.wait_for(call.read(), CHUNK_SECONDS)) is not grpc.aio.EOF:
                yield message.data
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        except TimeoutError as error:
            raise UnavailableError(f"nothing came of {artifact.path} for {CHUNK_SECONDS:.0f} s") from error
        finally:
            call.cancel()

    async def events(self, run_id: str, first: int = 0) -> AsyncGenerator[Event, None]:
        """Yield a run's events from a number on until the run ends, over as many connections as it takes.

        A run that went back to a checkpoint cuts its log, and events come again from there with numbers that were told
        before. That is noticed even when it happened between two connections: a new one begins at the last event that was
        told, and if another stands there now, at the first. Raises the last reason when the coordinator cannot be reached
        for ``patience`` seconds.
        """
        # What was told, from ``first`` on.
        told: list[bytes] = []
        begin = first
        while True:
            anything = False
            try:
                async with aclosing(self._watch(run_id, begin)) as watched:
                    async for number, line in watched:
                        place, digest = number - first, blake2b(line.encode(), digest_size=16).digest()
                        known = place < len(told) and told[place] == digest
                        if not anything and begin > first and not known:
                            break
                        anything = True
                        if not known:
                            told[place:] = [digest]
                            yield Event(number, json.loads(line))
                    else:
                        if anything or begin == first:
                            return
                begin = first
            except UnavailableError:
                begin = first + max(0, len(told) - 1)
                await asyncio.sleep(_PAUSE)
                # Waits until somebody answers, or gives up.
                await self.status(run_id)

    async def _watch(self, run_id: str, first: int) -> AsyncGenerator[tuple[int, str], None]:
        request = pb.WatchRunRequest(run_id=run_id, first_event=first)
        call = self._stub.WatchRun(request, timeout=_WATCH_SECONDS)
        try:
            async for response in call:
                yield response.number, response.event_json
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise UnavailableError("the connection is renewed") from error
            raise self._error(error) from error
        finally:
            call.cancel()

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                answer = await call()
                self._answered = True
                return answer
            except grpc.aio.AioRpcError as error:
                failure = self._error(error)
                again = self._answered and isinstance(failure, UnavailableError) and time.monotonic() < deadline
                if not again:
                    raise failure from error
            await asyncio.sleep(_PAUSE)

    def _error(self, error: grpc.aio.AioRpcError) -> SpadeError:
        """Return what a failed call means; that nobody answers is explained by what is known of the way there."""
        if error.code() is not grpc.StatusCode.UNAVAILABLE or BOUNDARY_KEY in dict(error.trailing_metadata() or ()):
            return as_spade_error(error, "coordinator")
        trouble = self._trouble()
        if trouble is not None:
            return trouble
        details = " ".join((error.details() or "").split())[:300]
        if any(word in details.lower() for word in ("ssl", "certificate", "handshak", "verification")):
            return UnavailableError(
                f"the coordinator of {self._name} and this client do not accept each other's certificates ({details}): both "
                "must be of one authority and not over, and the connection protected on both sides or on none"
            )
        return UnavailableError(f"the coordinator of {self._name} does not answer: {details}")
