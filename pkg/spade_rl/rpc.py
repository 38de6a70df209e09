"""gRPC, the same for every service.

A server validates what arrives (``protovalidate``), turns errors of ``spade_rl.errors`` into status codes, counts
and times every call, and answers health checks and reflection. A client call has a deadline, and an error that a
Spade service raised comes back as the class that it was.

Addresses are gRPC targets: ``unix:/run/spade/memory.sock``, ``127.0.0.1:7001``, ``dns:///spade-memory:7001``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import protovalidate
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from spade_rl.errors import BY_BOUNDARY, ConfigurationError, DeadlineError, SpadeError
from spade_rl.telemetry import ERRORS, RPC_SECONDS, get_logger

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
BOUNDARY_KEY = "spade-boundary"
CHANNEL_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.max_pings_without_data", 0),
)
# Without this two servers could share a port, and each would get a part of the calls.
# Clients ping while a call is quiet, however long that is; by default a server takes that for abuse and ends the connection
# after about two minutes.
SERVER_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)
SERVICE_CONFIG = '{"loadBalancingConfig": [{"round_robin": {}}]}'

_log = get_logger(__name__)


async def _abort(context: grpc.aio.ServicerContext, error: SpadeError) -> None:
    """End a call with an error's status; its boundary travels as trailing metadata."""
    ERRORS.labels(error.boundary).inc()
    await context.abort(error.code, str(error), trailing_metadata=((BOUNDARY_KEY, error.boundary),))


def _checked(request: Message) -> Message:
    try:
        protovalidate.validate(request)
    except protovalidate.ValidationError as error:
        raise ConfigurationError(f"{request.DESCRIPTOR.name} is not valid: {str(error)[:1000]}") from error
    return request


async def _checked_stream(requests: AsyncIterator[Message]) -> AsyncIterator[Message]:
    async for request in requests:
        yield _checked(request)


class _Interceptor(grpc.aio.ServerInterceptor):
    """Validation, error mapping and metrics around every handler but health's and reflection's."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        handler = await continuation(details)
        if handler is None or not details.method.startswith("/spade_rl."):
            return handler
        service, method = details.method.rsplit("/", 2)[-2:]
        kwargs = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        def checked(request: Any) -> Any:
            return _checked_stream(request) if handler.request_streaming else _checked(request)

        @asynccontextmanager
        async def around(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
            start, status = time.monotonic(), "OK"
            try:
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

    def __init__(self, *, address: str, services: Sequence[str], register: Callable[[grpc.aio.Server], None]) -> None:
        self.address = address
        self._services = tuple(services)
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(interceptors=[_Interceptor()], options=list(SERVER_OPTIONS))
        register(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.port = 0

    async def start(self) -> None:
        """Bind and serve; a port in use is the user's to mend."""
        try:
            self.port = self._server.add_insecure_port(self.address)
        except RuntimeError as error:
            raise ConfigurationError(
                f"cannot listen on {self.address}: {error}. Is another run using it? Choose another address or stop it."
            ) from error
        await self._server.start()
        for name in ("", *self._services):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float = 5.0) -> None:
        """Refuse new calls, give the running ones ``grace`` seconds, then end them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    async def wait(self) -> None:
        """Return when the server has stopped."""
        await self._server.wait_for_termination()


def open_channel(address: str) -> grpc.aio.Channel:
    """Return a channel that balances over all addresses that a name resolves to."""
    return grpc.aio.insecure_channel(
        address, options=[*CHANNEL_OPTIONS, ("grpc.service_config", SERVICE_CONFIG), ("grpc.enable_retries", 1)]
    )


def as_spade_error(error: grpc.aio.AioRpcError, service: str) -> SpadeError:
    """Return the error that a service raised, as the class that it was there."""
    boundary = dict(error.trailing_metadata() or ()).get(BOUNDARY_KEY)
    details = error.details() or error.code().name
    if isinstance(boundary, str) and boundary in BY_BOUNDARY:
        return BY_BOUNDARY[boundary](details)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineError(f"the {service} service did not answer in time: {details}")
    return SpadeError(f"the {service} service failed ({error.code().name}): {details}")


@asynccontextmanager
async def calling(service: str) -> AsyncIterator[None]:
    """Around a client call: errors come out as ``SpadeError`` and name the service."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise as_spade_error(error, service) from error
