"""A tiny random policy with a tokenizer and chat template of its own, and an engine on it."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import torch
from spade_rl.agent.engine.transformers_engine import TransformersEngine
from spade_rl.agent.server import serve
from spade_rl.config import Endpoints, EngineSection, load_config
from spade_rl.errors import SandboxError
from spade_rl.models import ChatTokenizer
from spade_rl.rpc import Server, open_channel
from spade_rl.v1 import sandbox_pb2, sandbox_pb2_grpc
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

MakePolicy = Callable[..., Path]
OpenEngine = Callable[..., Awaitable[TransformersEngine]]


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["user assistant system the box is left of the door, go right then up"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )


@pytest.fixture(scope="session")
def make_policy(tmp_path_factory: pytest.TempPathFactory) -> MakePolicy:
    """Return a function that writes a random policy and returns its folder."""

    def make(seed: int = 0, *, tied: bool = False, complete: bool = True, broken: bool = False) -> Path:
        torch.manual_seed(seed)
        tokenizer = _tokenizer()
        config = Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=512,
            tie_word_embeddings=tied,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            initializer_range=0.2,
        )
        folder = tmp_path_factory.mktemp("policy")
        model = Qwen3ForCausalLM(config)
        if broken:
            torch.nn.init.constant_(model.get_output_embeddings().weight, float("nan"))
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if complete:
            (folder / "COMPLETE").touch()
        return folder

    return make


@pytest.fixture(scope="session")
def policy(make_policy: MakePolicy) -> Path:
    """Return the folder of one random policy."""
    return make_policy()


@pytest.fixture(scope="session")
def tokenizer(policy: Path) -> ChatTokenizer:
    """Return its tokenizer."""
    return ChatTokenizer(str(policy))


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]:
    """Return a function that waits until a condition holds, at most 30 seconds."""

    async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(30):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    return wait


@pytest.fixture
async def open_engine() -> AsyncIterator[OpenEngine]:
    """Return a function that opens engines; they are closed after the test."""
    engines: list[TransformersEngine] = []

    async def opened(folder: Path, *, dtype: str = "float32", **settings: int) -> TransformersEngine:
        section = EngineSection(**{"slots": 4, "context_tokens": 128, "threads": 1, **settings})
        engine = await TransformersEngine.open(str(folder), ChatTokenizer(str(folder)), section, dtype=dtype)
        engines.append(engine)
        return engine

    yield opened
    for engine in engines:
        await engine.close()


class _Sandbox(sandbox_pb2_grpc.SandboxServiceServicer):
    """The wire of the sandbox, for environments that the tests wrote themselves: they run in this process."""

    async def Episode(self, requests, context):
        environment = None
        async for request in requests:
            try:
                if request.WhichOneof("request") == "reset":
                    namespace: dict = {}
                    exec(request.reset.source, namespace)
                    environment = next(v for v in namespace.values() if isinstance(v, type))()
                    observation, info = environment.reset(request.reset.seed)
                    reset = sandbox_pb2.ResetResponse(observation=observation, info_json=json.dumps(info))
                    yield sandbox_pb2.EpisodeResponse(reset=reset)
                    continue
                results = []
                for action in request.step.actions:
                    observation, reward, terminated, truncated, info = environment.step(action)
                    results.append(
                        sandbox_pb2.StepResult(
                            observation=observation, reward=reward, terminated=terminated, truncated=truncated
                        )
                    )
                yield sandbox_pb2.EpisodeResponse(step=sandbox_pb2.StepResponse(results=results))
            except SandboxError:
                raise
            except Exception as error:
                fault = sandbox_pb2.EpisodeFault(
                    origin=sandbox_pb2.FAULT_ORIGIN_ENVIRONMENT, kind="exception", message=repr(error)
                )
                yield sandbox_pb2.EpisodeResponse(fault=fault)
                return


@pytest.fixture
async def sandbox_address(tmp_path: Path) -> AsyncIterator[str]:
    """Return where a sandbox listens."""
    server = Server(
        address=f"unix:{tmp_path}/sandbox.sock",
        services=["spade_rl.v1.SandboxService"],
        register=lambda s: sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(_Sandbox(), s),
    )
    await server.start()
    yield server.address
    await server.stop(0)


@pytest.fixture
async def serve_agent(policy: Path, tmp_path: Path, sandbox_address: str):
    """Return a function that serves the agent with overrides of the configuration, and returns a channel to it."""
    async with AsyncExitStack() as stack:

        async def served(*overrides: str, folder: Path = policy, **endpoints: str):
            index = len(list(tmp_path.glob("agent-*"))) + 1
            address = f"unix:{tmp_path}/agent-{index}.sock"
            config = load_config(
                overrides=[
                    f"model={{name: {folder}, prompts: compact}}",
                    "designer.max_tokens=8",
                    "agent={max_tokens: 8, max_turns: 6, history_turns: 0, concurrency: 8, reply_seconds: 60}",
                    "agent.engine={slots: 8, context_tokens: 256, threads: 1}",
                    *overrides,
                ]
            )
            await stack.enter_async_context(
                serve(
                    config,
                    run_dir=tmp_path,
                    address=address,
                    endpoints=Endpoints(**{"sandbox": sandbox_address, "agent": address, **endpoints}),
                )
            )
            return await stack.enter_async_context(open_channel(address))

        yield served
