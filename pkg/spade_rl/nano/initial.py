"""The model's first weights: random, but for a few heads that already copy.

Copying a word of a document is the one ability that every design and nearly every action needs, and a model of
this size takes long to discover it: two heads in two layers have to fit each other before either is of use
(Olsson et al. 2022, "In-context learning and induction heads"). So the first layer starts with a head that looks
at the previous token, the second with a head that looks for a place where the previous token was the present
one and passes on what stands there; a second such pair looks two tokens back ("a > b": after a comes b),
and a third head of the second layer wants both to agree. Training changes
them like all other weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from spade_rl.nano.model import HEAD, HIDDEN, INTERMEDIATE, THETA, Block, NanoModel

CONSTANT = 0  # the residual dimension that is the same for every token
IDENTITY = slice(1, 88)  # where a token's embedding lies at first
BACK = (slice(88, 108), slice(108, 128))  # where the first layer writes the tokens one and two places back
SLOW_PAIR = 6  # rotary pairs from here on turn by less than about a radian over a prompt
NAME_SCALE = 0.55  # brings what the first layer wrote to the size of a token's own embedding
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
        model.head.copy_(model.embedding)
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

        amplitude = torch.zeros(half)
        amplitude[: len(BACK_ENERGY)] = torch.tensor(BACK_ENERGY).sqrt()
        for head, target in enumerate(BACK):
            # First layer: attend one (two) places back, write that token's name.
            query, key, value = _cleared_head(first, head)
            turn = (head + 1) * frequency
            query[:, CONSTANT] = torch.cat([amplitude * turn.cos(), -amplitude * turn.sin()])
            key[:, CONSTANT] = torch.cat([amplitude, torch.zeros(half)])
            value[: len(slow), IDENTITY] = names
            first.out[target, head * HEAD : head * HEAD + len(slow)] = torch.eye(len(slow)) * 0.1

            # Second layer: attend where that place holds the present token's name, pass on what stands there.
            query, key, value = _cleared_head(second, head)
            query[slow, IDENTITY] = names
            key[slow, target] = torch.eye(len(slow))
            copied = _orthonormal(HEAD, IDENTITY.stop - IDENTITY.start)
            value[:, IDENTITY] = copied
            second.out[IDENTITY, head * HEAD : (head + 1) * HEAD] = copied.T * (0.3, 0.15)[head]

        # Second layer, third head: attend where the present token and the one before stand one and two places back.
        # Twice the score of a place where only one agrees, so that words in common do not lead astray.
        query, key, value = _cleared_head(second, len(BACK))
        for part, (mine, theirs) in enumerate(((IDENTITY, BACK[0]), (BACK[0], BACK[1]))):
            dimensions = slow[part::2]
            if part == 0:
                query[dimensions, mine] = names[: len(dimensions)]
            else:
                query[dimensions, mine] = torch.eye(len(slow))[: len(dimensions)] * NAME_SCALE
            key[dimensions, theirs] = torch.eye(len(slow))[: len(dimensions)]
        copied = _orthonormal(HEAD, IDENTITY.stop - IDENTITY.start)
        value[:, IDENTITY] = copied
        second.out[IDENTITY, len(BACK) * HEAD : (len(BACK) + 1) * HEAD] = copied.T * 0.5
        first.qk_norm.fill_(SHARPNESS)
        second.qk_norm.fill_(SHARPNESS)


def _cleared_head(block: Block, head: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a head's query, key and value rows, as views, all zero like its output."""
    rows = [block.qkv[start + head * HEAD : start + (head + 1) * HEAD] for start in (0, HIDDEN, 2 * HIDDEN)]
    for part in rows:
        part.zero_()
    block.out[:, head * HEAD : (head + 1) * HEAD] = 0.0
    return rows[0], rows[1], rows[2]


def _orthonormal(rows: int, columns: int) -> Tensor:
    """Return orthonormal rows in random directions."""
    return torch.linalg.qr(torch.randn(columns, rows)).Q.T
