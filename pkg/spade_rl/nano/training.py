"""Supervised training of the nano model on demonstrations.

Three parts make a step: plays, designs (with hints) and copying drills; each part's loss is its own mean over
tokens. The first share of the time is drills alone: copying from a document is learned fastest where nothing
else is asked, and designs then use it. Tokens copied from the document weigh more, because a class holds only a
few of them. The weights that are kept are an exponential average over the last quarter.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from spade_rl.nano.demos import Demo, Demonstrator
from spade_rl.nano.model import NanoModel
from spade_rl.nano.sampling import END_ID, PAD_ID, Sampler

# Of AdamW. More for the embeddings drives those of rare words together, and what looks alike cannot be copied.
HEAD_RATE, NORM_RATE, EMBEDDING_RATE = 3e-3, 3e-3, 1e-3
MATRIX_RATE = 7e-3  # of Muon, for the blocks' matrices: about twice the progress a step of AdamW alone
COPY_WEIGHT = 3.0
DRILL_SHARE = 0.02  # of the time, at the start
AVERAGED_SHARE = 0.25  # of the time, at the end
PLAYS, DESIGNS, HINTS, DRILLS = 120, 13, 2, 4  # sequences a step
FIRST_DRILLS = 40


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids, and the weight of each in the loss (0 for the prompt)."""

    ids: list[int]
    weights: list[float]


@dataclass(frozen=True, slots=True)
class Progress:
    """What a step reports: seconds trained, the share of the time that is over, and the parts' losses in nats a token."""

    seconds: float
    share: float
    step: int
    losses: dict[str, float]
    tokens_per_second: float


def encode(demo: Demo, sampler: Sampler) -> Example:
    """Tokenize a demonstration."""
    prompt = sampler.encode_prompt(demo.messages)
    reply = sampler.tokenizer.backend_tokenizer.encode(demo.reply, add_special_tokens=False)
    start, stop = demo.copied
    weights = [COPY_WEIGHT if begin < stop and end > start else 1.0 for begin, end in reply.offsets]
    return Example([*prompt, *reply.ids, END_ID], [0.0] * len(prompt) + weights + [1.0])


class Pools:
    """Demonstrations drawn once; a step samples from them."""

    def __init__(self, demonstrator: Demonstrator, sampler: Sampler, size: float) -> None:
        self.plays = [encode(demo, sampler) for _ in range(round(20_000 * size)) for demo in demonstrator.plays()]
        self.designs = [encode(demonstrator.design(), sampler) for _ in range(round(30_000 * size))]
        self.hints = [encode(demonstrator.hint(), sampler) for _ in range(round(1_500 * size))]
        self.drills = [encode(demonstrator.drill(), sampler) for _ in range(round(15_000 * size))]


def loss_of(model: NanoModel, examples: Sequence[Example], chunk: int) -> Tensor:
    """Return the weighted mean negative log-likelihood in nats a token, gradients already accumulated."""
    total = sum(sum(example.weights) for example in examples)
    ordered = sorted(examples, key=lambda example: len(example.ids))
    loss = torch.zeros(())
    for start in range(0, len(ordered), chunk):
        part = ordered[start : start + chunk]
        longest = len(part[-1].ids)
        ids = torch.tensor([example.ids + [PAD_ID] * (longest - len(example.ids)) for example in part])
        weights = torch.tensor([example.weights + [0.0] * (longest - len(example.ids)) for example in part])[:, 1:]
        trained = weights > 0
        logits = model.logits(model.hidden(ids)[:, :-1][trained])
        piece = (F.cross_entropy(logits, ids[:, 1:][trained], reduction="none") * weights[trained]).sum() / total
        piece.backward()
        loss = loss + piece.detach()
    return loss


def train(
    model: NanoModel,
    pools: Pools,
    *,
    seconds: float,
    rng: random.Random,
    progress: Callable[[Progress], None] | None = None,
) -> int:
    """Train ``model`` in place for about ``seconds`` and leave the averaged weights in it; return the number of steps."""
    matrices = [value for block in model.layers for value in (block.qkv, block.out, block.gate_up, block.down)]
    norms = [model.final_norm] + [
        value for block in model.layers for value in (block.norm1, block.norm2, block.qk_norm)
    ]
    optimizers: list[tuple[torch.optim.Optimizer, float]] = [
        (torch.optim.Muon(matrices, weight_decay=0.02, momentum=0.95, adjust_lr_fn="match_rms_adamw"), MATRIX_RATE),
        (torch.optim.AdamW(norms, weight_decay=0.0, betas=(0.9, 0.98)), NORM_RATE),
        (torch.optim.AdamW([model.head], weight_decay=0.0, betas=(0.9, 0.98)), HEAD_RATE),
        (torch.optim.AdamW([model.embedding], weight_decay=0.0, betas=(0.9, 0.98)), EMBEDDING_RATE),
    ]
    average: dict[str, Tensor] = {}
    started = time.monotonic()
    step = tokens = 0
    while (share := (time.monotonic() - started) / seconds) < 1.0:
        step += 1
        schedule = min(1.0, step / 60) * max(0.03, 1.0 - share)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule
        parts: dict[str, list[Example]]
        if share < DRILL_SHARE:
            parts = {"drill": rng.sample(pools.drills, FIRST_DRILLS)}
        else:
            parts = {
                "play": rng.sample(pools.plays, PLAYS),
                "design": rng.sample(pools.designs, DESIGNS) + rng.sample(pools.hints, HINTS),
                "drill": rng.sample(pools.drills, DRILLS),
            }
        model.zero_grad(set_to_none=True)
        losses = {
            name: float(loss_of(model, examples, 80 if name == "play" else 8)) for name, examples in parts.items()
        }
        tokens += sum(len(example.ids) for examples in parts.values() for example in examples)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
        if share > 1.0 - AVERAGED_SHARE:
            for name, value in model.named_parameters():
                if name in average:
                    average[name].lerp_(value.detach(), 0.02)
                else:
                    average[name] = value.detach().clone()
        if progress and step % 50 == 0:
            elapsed = time.monotonic() - started
            progress(Progress(elapsed, share, step, losses, tokens / elapsed))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name in average:
                value.copy_(average[name])
    return step
