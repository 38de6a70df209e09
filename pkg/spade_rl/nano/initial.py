"""The model's first weights: random, but for one pair of heads that already copies.

Copying a word of a document is the one ability that every design and nearly every action needs, and a model of
this size takes long to discover it: two heads in two layers have to fit each other before either is of use
(Olsson et al. 2022, "In-context learning and induction heads"). So the first layer starts with a head that looks
at the previous token, the second with a head that looks for a place where the previous token was the present
one and passes on what stands there. Training changes both like all other weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from spade_rl.nano.model import HEAD, HIDDEN, INTERMEDIATE, THETA, NanoModel

CONSTANT = 0  # the residual dimension that is the same for every token
IDENTITY = slice(1, 96)  # where a token's embedding lies at first
PREVIOUS = slice(96, 128)  # where the first layer writes the previous token
SLOW_PAIR = 6  # rotary pairs from here on turn by less than about a radian over a prompt
SHARPNESS = 1.8  # gain of the norms of queries and keys in both layers
# Energy of the fastest rotary pairs in the head that looks one token back: next-door positions score 4 nats less.
BACK_ENERGY = (0.45, 0.25, 0.15, 0.15)


def initialise(model: NanoModel) -> None:
    """Write the first weights into ``model``; random parts come from torch's generator."""
    half = HEAD // 2
    pairs = torch.arange(half)
    frequency = THETA ** (-2.0 * pairs / HEAD)
    slow = torch.cat([pairs[SLOW_PAIR:], pairs[SLOW_PAIR:] + half])
    with torch.no_grad():
        model.embedding.zero_()
        model.embedding[:, IDENTITY] = torch.randn(model.embedding.shape[0], IDENTITY.stop - IDENTITY.start) * 0.05
        model.embedding[:, CONSTANT] = 0.4
        model.final_norm.fill_(2.0)
        for block in model.layers:
            for matrix, fan_in in (
                (block.qkv, HIDDEN),
                (block.out, HIDDEN),
                (block.gate_up, HIDDEN),
                (block.down, INTERMEDIATE),
            ):
                torch.nn.init.normal_(matrix, std=0.4 / math.sqrt(fan_in))
            block.out.mul_(0.1)
            block.down.mul_(0.1)
        first, second = model.layers[:2]
        names = _orthonormal(len(slow), IDENTITY.stop - IDENTITY.start)

        # Layer 1, head 1: attend one position back, write that token's name.
        query, key, value = _head(first.qkv)
        amplitude = torch.zeros(half)
        amplitude[: len(BACK_ENERGY)] = torch.tensor(BACK_ENERGY).sqrt()
        query.zero_()
        key.zero_()
        value.zero_()
        query[:, CONSTANT] = torch.cat([amplitude * frequency.cos(), -amplitude * frequency.sin()])
        key[:, CONSTANT] = torch.cat([amplitude, torch.zeros(half)])
        value[: len(slow), IDENTITY] = names
        first.out[:, :HEAD] = 0.0
        first.out[PREVIOUS, :HEAD] = torch.eye(HEAD) * 0.1
        first.qk_norm.fill_(SHARPNESS)

        # Layer 2, head 1: attend where the previous token has the present token's name, pass on what stands there.
        query, key, value = _head(second.qkv)
        query.zero_()
        key.zero_()
        value.zero_()
        query[slow, IDENTITY] = names
        key[slow, PREVIOUS] = torch.eye(HEAD)[: len(slow)]
        copied = _orthonormal(HEAD, IDENTITY.stop - IDENTITY.start)
        value[:, IDENTITY] = copied
        second.out[:, :HEAD] = 0.0
        second.out[IDENTITY, :HEAD] = copied.T * 0.5
        second.qk_norm.fill_(SHARPNESS)


def _head(qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first head's query, key and value rows, as views."""
    return qkv[:HEAD], qkv[HIDDEN : HIDDEN + HEAD], qkv[2 * HIDDEN : 2 * HIDDEN + HEAD]


def _orthonormal(rows: int, columns: int) -> Tensor:
    """Return orthonormal rows in random directions."""
    return torch.linalg.qr(torch.randn(columns, rows)).Q.T
