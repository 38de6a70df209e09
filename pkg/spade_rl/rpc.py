"""gRPC, the same for every service.

A server validates what arrives (``protovalidate``), turns errors of ``spade_rl.errors`` into status codes, counts
and times every call, and answers health checks and reflection. A client call has a deadline, and an error that a
Spade service raised comes back as the class that it was.

Addresses are gRPC targets: ``unix:/run/spade/memory.sock``, ``127.0.0.1:7001``, ``dns:///spade-memory:7001``. A name
that resolves to several addresses is a service of several processes: calls go to all of them in turn. Servers end
connections of a certain age, once their calls are over, so that clients look again who there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import protovalidate
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from spade_rl.config import TlsSection
from spade_rl.errors import BY_BOUNDARY, ConfigurationError, DeadlineError, SpadeError, UnavailableError
from spade_rl.telemetry import ERRORS, RPC_SECONDS, get_logger
from spade_rl.transport import WaitingChannel, protected, server_credentials

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
BOUNDARY_KEY = "spade-boundary"
FLUSH_SECONDS = 1.0
# Methods that are checked, counted and timed: those of our services, and KEDA's, which we serve.
OURS = ("/spade_rl.", "/externalscaler.")
CHANNEL_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A peer that was just started, or started anew, is found within seconds.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 3_000),
)
# Without this two servers could share a port, and each would get a part of the calls.
# Clients ping while a call is quiet, however long that is; by default a server takes that for abuse and ends the connection
# after about two minutes.
SERVER_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)
# Within one process nobody comes or goes; between processes a connection ends a minute after it was made.
AGE_OPTIONS = (("grpc.max_connection_age_ms", 60_000),)
SERVICE_CONFIG = '{"loadBalancingConfig": [{"round_robin": {}}]}'
LOCAL = TlsSection()

_log = get_logger(__name__)


async def _abort(context: grpc.aio.ServicerContext, error: SpadeError) -> None:
    """End a call with an error's status; its boundary travels as trailing metadata."""
    ERRORS.labels(error.boundary).inc()
    await context.abort(error.code, str(error), trailing_metadata=((BOUNDARY_KEY, error.boundary),))


@dataclass(frozen=True, slots=True)
class _Undecodable:
    """Bytes that are no message of the kind that a method takes, and why."""

    why: str


def _decoder(decode: Callable[[bytes], Message]) -> Callable[[bytes], Message | _Undecodable]:
    """Return ``decode`` as it must be for gRPC, which answers errors in it with UNKNOWN and a traceback in the log."""

    def decoded(data: bytes) -> Message | _Undecodable:
        try:
            return decode(data)
        except DecodeError as error:
            return _Undecodable(str(error))

    return decoded


def _checked(request: Message | _Undecodable) -> Message:
    if isinstance(request, _Undecodable):
        raise ConfigurationError(f"the request cannot be decoded: {request.why[:1000]}")
    try:
        protovalidate.validate(request)
    except protovalidate.ValidationError as error:
        raise ConfigurationError(f"{request.DESCRIPTOR.name} is not valid: {str(error)[:1000]}") from error
    return request


async def _checked_stream(requests: AsyncIterator[Message | _Undecodable]) -> AsyncIterator[Message]:
    async for request in requests:
        yield _checked(request)


class _Calls:
    """The calls in progress, and whether more are taken."""

    def __init__(self) -> None:
        self._draining = False
        self._running = 0
        self._none = asyncio.Event()
        self._none.set()

    def begin(self) -> None:
        """Count a call."""
        self._running += 1
        self._none.clear()

    def end(self) -> None:
        """Count it no more."""
        self._running -= 1
        if not self._running:
            self._none.set()

    def check(self, service: str) -> None:
        """Raise UnavailableError if no more calls are taken."""
        if self._draining:
            raise UnavailableError(
                f"this {service} is shutting down and begins nothing new; ask another instance, or again a little later"
            )

    async def drain(self, seconds: float) -> None:
        """Take no more calls, and return when none runs any more or the time is over."""
        self._draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none.wait()


class _Interceptor(grpc.aio.ServerInterceptor):
    """Validation, error mapping and metrics around every handler but health's and reflection's."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        handler = await continuation(details)
        if handler is None or not details.method.startswith(OURS):
            return handler
        service, method = details.method.rsplit("/", 2)[-2:]
        kwargs = {
            "request_deserializer": _decoder(handler.request_deserializer),
            "response_serializer": handler.response_serializer,
        }
        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        def checked(request: Any) -> Any:
            return _checked_stream(request) if handler.request_streaming else _checked(request)

        @asynccontextmanager
        async def around(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
            start, status = time.monotonic(), "OK"
            self._calls.begin()
            try:
                self._calls.check(service)
                yield
            except SpadeError as error:
                status = error.code.name
                await _abort(context, error)
            except asyncio.CancelledError:
                status = "CANCELLED"
                raise
            except grpc.aio.AbortError:
                status = "ABORTED"
                raise
            except Exception as error:
                status = "INTERNAL"
                _log.error("call failed", method=details.method, exc_info=True)
                await _abort(context, SpadeError(f"{service} failed in {method}: {type(error).__name__}: {error}"))
            finally:
                self._calls.end()
                RPC_SECONDS.labels(service, method, status).observe(time.monotonic() - start)

        async def single(request: Any, context: grpc.aio.ServicerContext) -> Any:
            async with around(context):
                return await behaviour(checked(request), context)

        async def streamed(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            async with around(context):
                async for response in behaviour(checked(request), context):
                    yield response

        if handler.response_streaming:
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
            return make(streamed, **kwargs)
        make = (
            grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
        )
        return make(single, **kwargs)


class Server:
    """A gRPC server with health and reflection.

    ``register`` is called with the server and adds servicers; ``services`` are their full names.
    """

    def __init__(
        self,
        *,
        address: str,
        services: Sequence[str],
        register: Callable[[grpc.aio.Server], None],
        tls: TlsSection = LOCAL,
    ) -> None:
        self.address = address
        self._credentials = server_credentials(tls) if protected(address, tls) else None
        self._services = tuple(services)
        self.health = health.aio.HealthServicer()
        self._calls = _Calls()
        self._server = grpc.aio.server(interceptors=[_Interceptor(self._calls)], options=_server_options(address))
        register(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.port = 0

    async def start(self) -> None:
        """Bind and serve; a port in use is the user's to mend."""
        try:
            self.port = (
                self._server.add_secure_port(self.address, self._credentials)
                if self._credentials
                else self._server.add_insecure_port(self.address)
            )
        except RuntimeError as error:
            raise ConfigurationError(
                f"cannot listen on {self.address}: {error}. Is another run using it? Choose another address or stop it."
            ) from error
        await self._server.start()
        for name in ("", *self._services):
            await self.health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float = 5.0) -> None:
        """Refuse new calls and say so in the health checks, give the running ones ``grace`` seconds, then end them."""
        await self.health.enter_graceful_shutdown()
        try:
            await self._calls.drain(grace)
        finally:
            # A call whose handler has returned may still be on its way; one that watches the health never ends by itself.
            await self._server.stop(min(grace, FLUSH_SECONDS))

    async def give_up(self) -> None:
        """Have health checks say that this process does not serve, so that whoever watches it starts a new one."""
        for name in ("", *self._services):
            await self.health.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)

    async def wait(self) -> None:
        """Return when the server has stopped."""
        await self._server.wait_for_termination()


@asynccontextmanager
async def answering_probes(server: Server, address: str) -> AsyncIterator[int]:
    """Answer health checks, and nothing else, in plain at ``address`` too; yields the port.

    Kubernetes probes speak gRPC but show no certificate.
    """
    probes = grpc.aio.server(options=list(SERVER_OPTIONS))
    health_pb2_grpc.add_HealthServicer_to_server(server.health, probes)
    try:
        port = probes.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigurationError(f"cannot answer health checks at {address}: {error}") from error
    await probes.start()
    try:
        yield port
    finally:
        await probes.stop(None)


def _server_options(address: str) -> list[tuple[str, int | str]]:
    return [*SERVER_OPTIONS, *(() if address.startswith("unix:") else AGE_OPTIONS)]


def open_channel(address: str, tls: TlsSection = LOCAL) -> grpc.aio.Channel:
    """Return a channel that balances over all addresses that a name resolves to.

    Calls to another process wait, up to their deadline, until it is there; within one process nobody has to be waited for.
    """
    options = [*CHANNEL_OPTIONS, ("grpc.service_config", SERVICE_CONFIG), ("grpc.enable_retries", 1)]
    if address.startswith("unix:"):
        return grpc.aio.insecure_channel(address, options=options)
    return WaitingChannel(address, tls if protected(address, tls) else None, options)


def as_spade_error(error: grpc.aio.AioRpcError, service: str) -> SpadeError:
    """Return the error that a service raised, as the class that it was there."""
    boundary = dict(error.trailing_metadata() or ()).get(BOUNDARY_KEY)
    details = error.details() or error.code().name
    if isinstance(boundary, str) and boundary in BY_BOUNDARY:
        return BY_BOUNDARY[boundary](details)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineError(f"the {service} service did not answer in time: {details}")
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return UnavailableError(f"the {service} service cannot be reached, or went away: {details}")
    return SpadeError(f"the {service} service failed ({error.code().name}): {details}")


@asynccontextmanager
async def calling(service: str) -> AsyncIterator[None]:
    """Around a client call: errors come out as ``SpadeError`` and name the service."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise as_spade_error(error, service) from error
