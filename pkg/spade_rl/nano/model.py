"""The nano model's mathematics, fused for two cores.

The same function as ``transformers.Qwen3ForCausalLM`` (RMSNorm, norms on queries and keys, rotary positions,
SwiGLU) with fewer and larger kernels, for supervised training and for evaluation in this package.
``export`` and ``load`` convert to and from the Hugging Face folder that everything else reads; a test holds
the two equal. Shapes: B sequences, T positions, H heads, D head size, C hidden size, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from spade_rl.nano.tokenizer import CONTEXT, VOCABULARY

HIDDEN, LAYERS, HEAD, INTERMEDIATE = 128, 3, 32, 384
HEADS = HIDDEN // HEAD
EPSILON = 1e-6
THETA = 1_000_000.0


class Block(nn.Module):
    """The parameters of one transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.Parameter(torch.ones(HIDDEN))
        self.norm2 = nn.Parameter(torch.ones(HIDDEN))
        self.qk_norm = nn.Parameter(torch.ones(2, HEAD))
        self.qkv = nn.Parameter(torch.randn(3 * HIDDEN, HIDDEN) * 0.02)
        self.out = nn.Parameter(torch.randn(HIDDEN, HIDDEN) * 0.02)
        self.gate_up = nn.Parameter(torch.randn(2 * INTERMEDIATE, HIDDEN) * 0.02)
        self.down = nn.Parameter(torch.randn(HIDDEN, INTERMEDIATE) * 0.02)


class NanoModel(nn.Module):
    """A causal language model; ``hidden`` for training, ``prefill`` and ``decode`` for sampling."""

    cos: Tensor
    sin: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, HIDDEN) * 0.02)
        self.head = nn.Parameter(self.embedding.detach().clone())
        self.final_norm = nn.Parameter(torch.ones(HIDDEN))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        frequency = 1.0 / THETA ** (torch.arange(0, HEAD, 2).float() / HEAD)
        angle = torch.arange(CONTEXT).float()[:, None] * frequency
        sin = angle.sin()
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([-sin, sin], -1), persistent=False)

    @property
    def layers(self) -> list[Block]:
        """The blocks, in order."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def hidden(self, ids: Tensor) -> Tensor:
        """Return the normed hidden states, B T C, of right-padded token ids, B T."""
        positions = torch.arange(ids.shape[1])
        x = F.embedding(ids, self.embedding)
        for block in self.layers:
            q, k, v = self._project(block, x, positions[None])
            x = self._finish(block, x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return F.rms_norm(x, (HIDDEN,), self.final_norm, EPSILON)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits over the vocabulary."""
        return F.linear(hidden, self.head)

    def prefill(self, ids: Tensor, lengths: Tensor, room: int) -> tuple[Tensor, list[Tensor]]:
        """Read prompts, B T right-padded; return the next token's logits, B V, and a cache of ``room`` positions a layer."""
        rows, length = ids.shape
        positions = torch.arange(length)
        x = F.embedding(ids, self.embedding)
        caches = []
        for block in self.layers:
            q, k, v = self._project(block, x, positions[None])
            cache = torch.zeros(2, rows, HEADS, room, HEAD)
            cache[0, :, :, :length], cache[1, :, :, :length] = k, v
            caches.append(cache)
            x = self._finish(block, x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        last = x[torch.arange(rows), lengths - 1]
        return self.logits(F.rms_norm(last, (HIDDEN,), self.final_norm, EPSILON)), caches

    def decode(self, tokens: Tensor, positions: Tensor, caches: list[Tensor]) -> Tensor:
        """Append one token a row, B, at ``positions``, B; return the next logits, B V."""
        window = int(positions.max()) + 1
        rows = torch.arange(len(tokens))
        mask = (torch.arange(window)[None] <= positions[:, None])[:, None, None]
        x = F.embedding(tokens, self.embedding)[:, None]
        for block, cache in zip(self.layers, caches, strict=True):
            q, k, v = self._project(block, x, positions[:, None])
            cache[0][rows, :, positions], cache[1][rows, :, positions] = k[:, :, 0], v[:, :, 0]
            attended = F.scaled_dot_product_attention(
                q, cache[0][:, :, :window], cache[1][:, :, :window], attn_mask=mask
            )
            x = self._finish(block, x, attended)
        return self.logits(F.rms_norm(x[:, 0], (HIDDEN,), self.final_norm, EPSILON))

    def _project(self, block: Block, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rotated queries and keys and the values, each B H T D."""
        rows, length, _ = x.shape
        mixed = F.linear(F.rms_norm(x, (HIDDEN,), block.norm1, EPSILON), block.qkv).view(rows, length, 3, HEADS, HEAD)
        qk = F.rms_norm(mixed[:, :, :2], (HEAD,), None, EPSILON) * block.qk_norm[:, None]
        cos, sin = self.cos[positions][:, :, None, None], self.sin[positions][:, :, None, None]
        qk = (qk * cos + torch.roll(qk, HEAD // 2, -1) * sin).transpose(1, 3)
        return qk[:, :, 0], qk[:, :, 1], mixed[:, :, 2].transpose(1, 2)

    def _finish(self, block: Block, x: Tensor, attended: Tensor) -> Tensor:
        rows, length, _ = x.shape
        x = x + F.linear(attended.transpose(1, 2).reshape(rows, length, HIDDEN), block.out)
        gate, up = F.linear(F.rms_norm(x, (HIDDEN,), block.norm2, EPSILON), block.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, block.down)


def _config() -> Qwen3Config:
    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HEAD,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=False,
        attention_dropout=0.0,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )


def _pairs(model: NanoModel) -> dict[str, Tensor]:
    """Name the fused parameters (as views) the way Hugging Face does."""
    named = {
        "model.embed_tokens.weight": model.embedding.data,
        "model.norm.weight": model.final_norm.data,
        "lm_head.weight": model.head.data,
    }
    for index, block in enumerate(model.layers):
        prefix = f"model.layers.{index}."
        named |= {
            prefix + "input_layernorm.weight": block.norm1.data,
            prefix + "post_attention_layernorm.weight": block.norm2.data,
            prefix + "self_attn.q_norm.weight": block.qk_norm.data[0],
            prefix + "self_attn.k_norm.weight": block.qk_norm.data[1],
            prefix + "self_attn.o_proj.weight": block.out.data,
            prefix + "mlp.gate_proj.weight": block.gate_up.data[:INTERMEDIATE],
            prefix + "mlp.up_proj.weight": block.gate_up.data[INTERMEDIATE:],
            prefix + "mlp.down_proj.weight": block.down.data,
        }
        for part, name in enumerate("qkv"):
            named[f"{prefix}self_attn.{name}_proj.weight"] = block.qkv.data[part * HIDDEN : (part + 1) * HIDDEN]
    return named


def export(model: NanoModel) -> Qwen3ForCausalLM:
    """Return the Hugging Face model that computes the same."""
    exported = Qwen3ForCausalLM(_config())
    exported.load_state_dict({name: value.clone() for name, value in _pairs(model).items()}, strict=True)
    exported.generation_config.update(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=1, pad_token_id=0
    )
    return exported


def load(folder: Path) -> NanoModel:
    """Read a nano model from a Hugging Face folder that ``export`` made; a model of another shape is refused."""
    saved = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ours, theirs = _config().to_dict(), saved.config.to_dict()
    fields = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "rope_parameters")
    differing = [field for field in fields if ours[field] != theirs.get(field)]
    if differing:
        raise ValueError(f"{folder} is no nano model of this version: its {', '.join(differing)} differ")
    source = saved.state_dict()
    model = NanoModel()
    with torch.no_grad():
        for name, view in _pairs(model).items():
            view.copy_(source[name])
    return model
