"""Sampling from the fused model: whole batches of prompts, tokens in and out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import PreTrainedTokenizerFast

from spade_rl.nano.model import NanoModel
from spade_rl.prompts import Message

PAD_ID, END_ID = 0, 1


class Sampler:
    """A model and its tokenizer."""

    def __init__(self, model: NanoModel, tokenizer: PreTrainedTokenizerFast) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._core = tokenizer.backend_tokenizer
        self._prompts: dict[tuple[str, ...], list[int]] = {}

    def encode_prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return a conversation's token ids up to where the reply begins."""
        key = tuple(part for message in messages for part in (message["role"], message["content"]))
        ids = self._prompts.get(key)
        if ids is None:
            text = self.tokenizer.apply_chat_template(
                [{"role": message["role"], "content": message["content"]} for message in messages],
                tokenize=False,
                add_generation_prompt=True,
            )
            ids = self._core.encode(text, add_special_tokens=False).ids
            if len(self._prompts) > 200_000:
                self._prompts.clear()
            self._prompts[key] = ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply, without its end token."""
        return str(self._core.decode([token for token in ids if token != END_ID], skip_special_tokens=False))

    @torch.no_grad()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        limit: int,
        temperature: float,
        generator: torch.Generator,
        batch: int = 512,
    ) -> list[tuple[list[int], list[float]]]:
        """Return for each prompt the sampled ids (closed by the end token unless ``limit`` came first) and their log-probabilities."""
        replies: list[tuple[list[int], list[float]]] = [([], [])] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            for index, reply in zip(
                chosen, self._batch([prompts[i] for i in chosen], limit, temperature, generator), strict=True
            ):
                replies[index] = reply
        return replies

    def _batch(
        self, prompts: list[Sequence[int]], limit: int, temperature: float, generator: torch.Generator
    ) -> list[tuple[list[int], list[float]]]:
        positions = torch.tensor([len(prompt) for prompt in prompts])
        longest = int(positions.max())
        ids = torch.tensor([list(prompt) + [PAD_ID] * (longest - len(prompt)) for prompt in prompts])
        logits, caches = self.model.prefill(ids, positions, longest + limit + 1)
        alive = torch.arange(len(prompts))
        tokens = torch.full((len(prompts), limit), END_ID)
        scores = torch.zeros(len(prompts), limit)
        for step in range(limit):
            scaled = F.log_softmax(logits / temperature, -1)
            drawn = torch.multinomial(scaled.exp(), 1, generator=generator)[:, 0]
            tokens[alive, step], scores[alive, step] = drawn, scaled.gather(1, drawn[:, None])[:, 0]
            going = drawn != END_ID
            if step + 1 == limit or not going.any():
                break
            if going.float().mean() < 0.8:  # drop the finished rows once they cost something
                kept = going.nonzero()[:, 0]
                alive, drawn, positions, caches = (
                    alive[kept],
                    drawn[kept],
                    positions[kept],
                    [cache[:, kept] for cache in caches],
                )
            logits = self.model.decode(drawn, positions, caches)
            positions = positions + 1
        replies = []
        for row, score in zip(tokens.tolist(), scores.tolist(), strict=True):
            length = row.index(END_ID) + 1 if END_ID in row else limit
            replies.append((row[:length], score[:length]))
        return replies
