"""The engine on Hugging Face transformers, on a CPU or one GPU: continuous batching in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from spade_rl.agent import metrics
from spade_rl.agent.engine.interface import EngineStatus, Generation, Prompt
from spade_rl.agent.engine.loop import EngineLoop, Exchange, Job
from spade_rl.agent.engine.runner import ModelRunner, check_supported
from spade_rl.agent.engine.scheduler import Scheduler
from spade_rl.config import EngineSection
from spade_rl.errors import ConfigurationError, DeadlineError, EngineError
from spade_rl.models import ChatTokenizer, load_model
from spade_rl.telemetry import GPUS

COMPLETE = "COMPLETE"
CLOSE_SECONDS = 30.0


def stop_ids(model: Any, tokenizer: ChatTokenizer) -> frozenset[int]:
    """Return the ids that end a reply, by the tokenizer or by the model's own generation settings."""
    ids = model.generation_config.eos_token_id
    own = () if ids is None else ids if isinstance(ids, list) else (ids,)
    return tokenizer.end_tokens() | frozenset(own)


class TransformersEngine:
    """Implements ``Engine``. Made by ``open``, freed by ``close``."""

    def __init__(self, loop: EngineLoop, settings: EngineSection, *, name: str, dtype: str) -> None:
        self._loop = loop
        self._settings = settings
        self._name = name
        self._dtype = dtype
        self._loading = asyncio.Lock()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="engine-loader")

    @classmethod
    async def open(
        cls, location: str, tokenizer: ChatTokenizer, settings: EngineSection, *, dtype: str, version: int = 0
    ) -> TransformersEngine:
        """Load the model at ``location`` as ``version`` and start the thread."""

        def make() -> EngineLoop:
            model = load_model(location, dtype)
            check_supported(model.config, settings.context_tokens)
            device = _device()
            GPUS.set(device.type == "cuda")
            metrics.SLOTS.set(settings.slots)
            return EngineLoop(
                runner=ModelRunner(model, device),
                version=version,
                scheduler=Scheduler(settings.slots, stop_ids(model, tokenizer)),
                threads=settings.threads,
            )

        with ThreadPoolExecutor(1) as opener:
            loop = await asyncio.get_running_loop().run_in_executor(opener, make)
        loop.start()
        return cls(loop, settings, name=location, dtype=dtype)

    async def close(self) -> None:
        """Stop after the step in progress; callers that still wait get EngineError."""
        await asyncio.get_running_loop().run_in_executor(self._loader, self._loop.close, CLOSE_SECONDS)
        self._loader.shutdown(wait=False)

    @property
    def context_length(self) -> int:
        """Longest sequence, prompt and sampled tokens together."""
        return self._settings.context_tokens

    async def generate(self, prompts: Sequence[Prompt], *, seconds: float) -> AsyncGenerator[Generation, None]:
        """See ``Engine.generate``."""
        results: asyncio.Queue[Generation | EngineError] = asyncio.Queue()
        deliver = _threadsafe(results.put_nowait)
        jobs = [self._job(index, prompt, deliver) for index, prompt in enumerate(prompts)]
        deadline = asyncio.get_running_loop().time() + seconds
        self._loop.submit(jobs)
        try:
            for _ in jobs:
                try:
                    async with asyncio.timeout_at(deadline):
                        result = await results.get()
                except TimeoutError:
                    raise DeadlineError(f"the engine did not finish its replies within {seconds:g} s") from None
                if isinstance(result, EngineError):
                    raise result
                yield result
        finally:
            for job in jobs:
                job.cancelled = True

    def _job(self, index: int, prompt: Prompt, done: Callable[[Generation | EngineError], None]) -> Job:
        room = self._settings.context_tokens - len(prompt.token_ids)
        if not prompt.token_ids or room < 1:
            raise ConfigurationError(
                f"prompt {index} has {len(prompt.token_ids)} tokens; it must have at least 1 and leave room for a "
                f"reply in agent.engine.context_tokens ({self._settings.context_tokens})"
            )
        if max(prompt.token_ids) >= self._loop.runner.vocabulary or min(prompt.token_ids) < 0:
            raise ConfigurationError(
                f"prompt {index} holds the token {max(prompt.token_ids)}, but the policy knows "
                f"{self._loop.runner.vocabulary}: are prompt and policy of the same tokenizer?"
            )
        return Job(
            prompt=prompt.token_ids,
            temperature=prompt.temperature,
            seed=prompt.seed,
            limit=min(prompt.max_tokens, room),
            index=index,
            done=done,
        )

    async def load(self, version: int, uri: str, *, seconds: float) -> None:
        """See ``Engine.load``."""
        running = asyncio.get_running_loop()
        done: asyncio.Future[EngineError | None] = running.create_future()
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(seconds), self._loading:
                model = await running.run_in_executor(self._loader, self._read, uri)
                exchange = Exchange(
                    version=version,
                    make=lambda: ModelRunner(model, _device()),
                    done=_threadsafe(lambda error: None if done.done() else done.set_result(error)),
                )
                self._loop.submit(exchange)
                error = await done
        except TimeoutError:
            raise DeadlineError(f"the engine did not load version {version} within {seconds:g} s") from None
        finally:
            if exchange is not None:
                exchange.cancelled = True
        if error is not None:
            raise error

    def _read(self, uri: str) -> Any:
        if not (Path(uri) / COMPLETE).is_file():
            raise EngineError(f"{uri} holds no file {COMPLETE}: its weights were never published completely")
        try:
            model = load_model(uri, self._dtype)
            check_supported(model.config, self._settings.context_tokens)
        except Exception as error:
            # Readers of weights raise whatever they like; all of it is one failure.
            raise EngineError(f"the weights in {uri} cannot be loaded: {error}") from error
        return model

    async def status(self) -> EngineStatus:
        """See ``Engine.status``."""
        totals = self._loop.totals
        return EngineStatus(
            policy_version=self._loop.version,
            model=self._name,
            engine="transformers",
            context_length=self._settings.context_tokens,
            in_flight=totals.in_flight,
            generated_tokens=totals.generated_tokens,
            busy_seconds=totals.busy_seconds,
        )


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _threadsafe(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return ``callback`` for use from other threads; it runs on the event loop that is running now."""
    loop = asyncio.get_running_loop()

    def call(argument: Any) -> None:
        try:
            loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:
            # The event loop is closed: nobody waits any more.
            return

    return call
