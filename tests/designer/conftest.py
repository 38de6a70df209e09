"""The designer among real services; only the policy's words are scripted, where a policy would sample them."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from spade_rl.config import Endpoints, RunConfig
from spade_rl.config_files import validate_config
from spade_rl.designer.server import serve as serve_designer
from spade_rl.memory.server import serve as serve_memory
from spade_rl.models import ChatTokenizer
from spade_rl.rpc import Server, open_channel
from spade_rl.sandbox.server import serve as serve_sandbox
from spade_rl.v1 import inference_pb2, inference_pb2_grpc, trajectory_pb2
from spade_rl.v1.designer_pb2_grpc import DesignerServiceStub
from spade_rl.v1.memory_pb2_grpc import MemoryServiceStub

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
POLICY_VERSION = 5
CONTEXT = 8192


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer of bytes and a model's configuration, but no weights."""
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(tokens[:3])
    folder = tmp_path_factory.mktemp("policy")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    ).save_pretrained(folder)
    Qwen3Config(vocab_size=len(tokens)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(policy: Path) -> ChatTokenizer:
    return ChatTokenizer(str(policy))


@pytest.fixture(scope="session")
def weights(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tokenizer with a tiny random model."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights")
    shutil.copytree(policy, folder, dirs_exist_ok=True)
    end, pad = 2, 0
    config = Qwen3Config(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=512,
        eos_token_id=end,
        pad_token_id=pad,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    (folder / "COMPLETE").touch()
    return folder


class Script(inference_pb2_grpc.InferenceServiceServicer):
    """Answers each prompt with what ``say(prompt, sampling)`` returns, last prompt first."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self.say: Callable[[str, inference_pb2.Sampling], str] = lambda prompt, sampling: ""
        self.prompts: list[str] = []
        self.context = CONTEXT
        self.silent = 0

    async def GetVersion(self, request, context: grpc.aio.ServicerContext) -> inference_pb2.GetVersionResponse:
        return inference_pb2.GetVersionResponse(policy_version=POLICY_VERSION, context_length=self.context)

    async def Generate(self, request: inference_pb2.GenerateRequest, context: grpc.aio.ServicerContext):
        [end] = self._tokenizer.end_tokens()
        for index in reversed(range(len(request.prompts))):
            sampling = request.prompts[index].sampling
            prompt = self._tokenizer.decode(request.prompts[index].token_ids)
            self.prompts.append(prompt)
            if self.silent:
                self.silent -= 1
                continue
            ids = [*self._tokenizer._ids(self.say(prompt, sampling), control=False), end]
            cut = len(ids) > sampling.max_tokens
            yield inference_pb2.GenerateResponse(
                index=index,
                token_ids=ids[: sampling.max_tokens],
                log_probs=[-0.5] * min(len(ids), sampling.max_tokens),
                finish_reason=trajectory_pb2.FINISH_REASON_LENGTH if cut else trajectory_pb2.FINISH_REASON_STOP,
                policy_version=POLICY_VERSION,
            )


class World:
    """Services around one designer, started with a configuration."""

    def __init__(self, folder: Path, policy: Path, script: Script) -> None:
        self.folder, self.policy, self.script = folder, policy, script
        self._stack = AsyncExitStack()

    def config(self, **sections: Any) -> RunConfig:
        base: dict[str, dict[str, Any]] = {
            "model": {"name": str(self.policy), "prompts": "compact"},
            "sandbox": {"isolation": "process", "self_test": False},
            "grounding": {"corpus": str(self.folder / "corpus.jsonl"), "words": 12},
            "designer": {"skills": ["count", "space"], "active_skills": 1, "environments": 1, "attempts": 2,
                         "max_tokens": 2000, "hint_max_tokens": 100},
            "agent": {"max_tokens": 16, "engine": {"context_tokens": CONTEXT}},
        }  # fmt: skip
        return validate_config({name: {**base.get(name, {}), **sections.get(name, {})} for name in base | sections})

    def _address(self, name: str) -> str:
        return f"unix:{self.folder}/{name}.sock"

    async def start(self, config: RunConfig, *, sandbox: bool = True, engine: Callable[..., Any] | None = None) -> None:
        names = ("inference", "sandbox", "memory", "designer")
        endpoints = Endpoints(**{name: self._address(name) for name in names})
        if engine is None:
            server = Server(
                address=self._address("inference"),
                services=["spade_rl.v1.InferenceService"],
                register=lambda s: inference_pb2_grpc.add_InferenceServiceServicer_to_server(self.script, s),
            )
            await server.start()
            self._stack.push_async_callback(server.stop)
        serving = [("inference", engine)] if engine else []
        serving += [("sandbox", serve_sandbox)] if sandbox else []
        for name, serve in [*serving, ("memory", serve_memory), ("designer", serve_designer)]:
            # Who is told where the engine is does not open one.
            told = endpoints.model_copy(update={"inference": None}) if serve is engine else endpoints
            await self._stack.enter_async_context(
                serve(config, run_dir=self.folder, address=self._address(name), endpoints=told)
            )
        channels = [
            await self._stack.enter_async_context(open_channel(self._address(name))) for name in ("designer", "memory")
        ]
        self.designer, self.memory = DesignerServiceStub(channels[0]), MemoryServiceStub(channels[1])

    async def close(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def world(tmp_path: Path, policy: Path, tokenizer: ChatTokenizer) -> AsyncIterator[World]:
    documents = [{"id": f"doc{n}", "text": f"Sentence {n} holds words of the document number {n}."} for n in range(6)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    world = World(tmp_path, policy, Script(tokenizer))
    yield world
    await world.close()
