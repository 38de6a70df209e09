"""A tiny random Qwen3 with a tokenizer, its configuration, and samples for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spade_rl.config import RunConfig
from spade_rl.config_files import validate_config
from spade_rl.learner.samples import Role, Sample
from spade_rl.v1 import learner_pb2, trajectory_pb2

VOCABULARY = 64
TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"


def write_model(folder: Path, *, tied: bool = True, seed: int = 0) -> Path:
    """Write a Qwen3 of some ten thousand parameters with a tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        # Larger than the usual initialisation, so that gradients and probabilities differ clearly between tokens.
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    words = {
        word: index for index, word in enumerate(["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(VOCABULARY - 3))])
    }
    core = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def tiny_config(model: Path, **learner: Any) -> RunConfig:
    """A configuration on the tiny model; keywords go into the learner's section."""
    settings = {"learning_rate": 1e-2, "weight_decay": 0.1, "threads": 1, "micro_tokens": 64, **learner}
    return validate_config(
        {
            "model": {"name": str(model)},
            "agent": {"temperature": 0.8},
            "designer": {"temperature": 1.1},
            "regret": {"window": 2},
            "learner": settings,
        }
    )


def make_sample(
    rng: np.random.Generator,
    *,
    role: Role = Role.AGENT,
    group: str = "g",
    unit: str = "u",
    reward: float = 0.0,
    context: int = 4,
    sampled: int = 3,
) -> Sample:
    """A sequence of random tokens whose last ``sampled`` ones are trained."""
    trained = np.arange(context + sampled) >= context
    log_probs = np.where(trained, -rng.uniform(2.0, 6.0, context + sampled), np.nan).astype(np.float32)
    return Sample(
        role=role,
        group=group,
        unit=unit,
        reward=reward,
        token_ids=rng.integers(3, VOCABULARY, context + sampled),
        trained=trained,
        log_probs=log_probs,
    )


def make_samples(seed: int = 0, *, designer: bool = True) -> list[Sample]:
    """Agent episodes of uneven length in four groups, one of them without signal, and designs of two skills."""
    rng = np.random.default_rng(seed)
    samples: list[Sample] = []
    for group in range(4):
        for unit in range(4):
            reward = 0.5 if group == 3 else float((unit + group) % 2)
            for _ in range(1 + int(rng.integers(3))):
                samples.append(
                    make_sample(
                        rng,
                        group=f"environment{group}/0",
                        unit=f"play{group}-{unit}",
                        reward=reward,
                        context=int(rng.integers(2, 12)),
                        sampled=int(rng.integers(1, 5)),
                    )
                )
    for skill in range(2 if designer else 0):
        for unit in range(3):
            samples.append(
                make_sample(
                    rng,
                    role=Role.DESIGNER,
                    group=f"skill{skill}",
                    unit=f"attempt{skill}-{unit}",
                    reward=float(rng.random()),
                    context=20,
                    sampled=int(rng.integers(5, 30)),
                )
            )
    return samples


def share_apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Return the share of weights that differ by more than rounding.

    Adam moves a weight by a whole step even where its gradient is nothing but rounding, so a few may part in equal
    updates that sum in another order.
    """
    assert one.keys() == other.keys()
    return float(torch.cat([(one[name] - other[name]).abs().flatten() > 1e-5 for name in one]).float().mean())


def message(sample: Sample) -> learner_pb2.Sample:
    """A sample as it travels: one segment of context, one that was sampled."""
    ids, split = sample.token_ids.tolist(), int(np.argmax(sample.trained))
    return learner_pb2.Sample(
        sequence=trajectory_pb2.Sequence(
            segments=[
                trajectory_pb2.Segment(token_ids=ids[:split]),
                trajectory_pb2.Segment(
                    token_ids=ids[split:], log_probs=sample.log_probs[split:].tolist(), sampled=True, trained=True
                ),
            ]
        ),
        role=learner_pb2.ROLE_AGENT if sample.role is Role.AGENT else learner_pb2.ROLE_DESIGNER,
        group=sample.group,
        unit=sample.unit,
        reward=sample.reward,
    )


def requests(update: int, samples: list[Sample], size: int = 10) -> Iterator[learner_pb2.TrainRequest]:
    """The stream of one update."""
    for start in range(0, len(samples), size):
        yield learner_pb2.TrainRequest(
            update=update, total=len(samples), samples=[message(s) for s in samples[start : start + size]]
        )
