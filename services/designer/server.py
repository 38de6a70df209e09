"""The designer service's gRPC edge.

The corpus is opened, and all of it checked, before anything is answered. Drawing documents and building prompts run
in a thread of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import grpc

from spade_rl.config import Endpoints, RunConfig
from spade_rl.designer import wire
from spade_rl.designer.clients import Engine, Memory, Sandbox
from spade_rl.designer.corpus import Document
from spade_rl.designer.design import Designer, Task
from spade_rl.designer.grounding import Grounding, open_grounding
from spade_rl.elastic import ElasticChannel
from spade_rl.errors import ConfigurationError
from spade_rl.kinds import EnvironmentKind
from spade_rl.models import ChatTokenizer, model_location
from spade_rl.rpc import Server, open_channel
from spade_rl.telemetry import identify
from spade_rl.v1 import designer_pb2 as pb
from spade_rl.v1 import designer_pb2_grpc

SERVICE_NAME = "spade_rl.v1.DesignerService"


class DesignerServicer(designer_pb2_grpc.DesignerServiceServicer):
    """Answers with a designer and a corpus."""

    def __init__(
        self, designer: Designer, kind: EnvironmentKind, grounding: Grounding | None, executor: ThreadPoolExecutor
    ) -> None:
        self._designer = designer
        self._kind = kind
        self._grounding = grounding
        self._executor = executor

    async def Design(
        self, request: pb.DesignRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.DesignResponse]:
        """Stream slots as they are done, then the corpus's new cursor."""
        identify(run_id=request.run_id, cycle=request.cycle)
        documents: Sequence[Document | None] = [None] * len(request.skills)
        cursor, grounding = request.grounding_cursor, self._grounding
        if grounding is not None:
            documents, cursor = await asyncio.get_running_loop().run_in_executor(
                self._executor,
                lambda: grounding.draw(len(request.skills), cursor=request.grounding_cursor, run_seed=request.run_seed),
            )
        task = Task(request.run_id, request.run_seed, request.cycle, tuple(request.skills))
        async with aclosing(self._designer.design(task, documents)) as slots:
            async for designed in slots:
                yield pb.DesignResponse(slot=wire.slot_message(designed, self._kind))
        yield pb.DesignResponse(done=pb.DesignDone(grounding_cursor=cursor))


def _target(address: str | None, service: str) -> str:
    if not address:
        raise ConfigurationError(f"the designer needs the {service} service: set endpoints.{service}")
    return address


@asynccontextmanager
async def serve(config: RunConfig, *, run_dir: Path, address: str, endpoints: Endpoints) -> AsyncIterator[Server]:
    """Serve the designer; it calls the engine, the sandbox and memory at ``endpoints``."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        executor = stack.enter_context(ThreadPoolExecutor(max_workers=1, thread_name_prefix="designer"))
        run_dir.mkdir(parents=True, exist_ok=True)
        grounding = await loop.run_in_executor(executor, lambda: open_grounding(config.grounding, run_dir))
        if grounding is not None:
            stack.callback(grounding.close)
        tokenizer = await loop.run_in_executor(executor, lambda: ChatTokenizer(model_location(config.model.name)))
        channels = [
            await stack.enter_async_context(open_channel(_target(target, service), config.tls))
            for service, target in (
                # Without an address of its own, the engine is where the agent is.
                ("inference", endpoints.inference or endpoints.agent),
                ("memory", endpoints.memory),
            )
        ]
        sandbox = ElasticChannel(
            _target(endpoints.sandbox, "sandbox"),
            config.tls,
            service="sandbox",
            reachable_seconds=config.sandbox.reachable_seconds,
            call_seconds=config.sandbox.admission_seconds + config.sandbox.queue_seconds,
        )
        await stack.enter_async_context(sandbox)
        designer = Designer(
            config,
            tokenizer=tokenizer,
            engine=Engine(channels[0], config),
            sandbox=Sandbox(sandbox, config),
            memory=Memory(channels[1]),
            run_in_thread=lambda work: loop.run_in_executor(executor, work),
        )
        servicer = DesignerServicer(designer, config.designer.kind, grounding, executor)
        server = Server(
            address=address,
            services=[SERVICE_NAME],
            register=lambda grpc_server: designer_pb2_grpc.add_DesignerServiceServicer_to_server(servicer, grpc_server),
            tls=config.tls,
        )
        try:
            await server.start()
            yield server
        finally:
            await server.stop()
