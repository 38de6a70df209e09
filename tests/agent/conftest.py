"""A tiny random policy with a tokenizer and chat template of its own, and an engine on it."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from spade_rl.agent.engine.transformers_engine import TransformersEngine
from spade_rl.config import EngineSection
from spade_rl.models import ChatTokenizer

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

    def make(seed: int = 0, *, tied: bool = False, complete: bool = True, dtype: str = "float32") -> Path:
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
        Qwen3ForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)
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
