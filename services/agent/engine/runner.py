"""Forward passes of one model: prompts in, logits out.

Prompts are padded on the right: a causal model never looks at what comes after a token, so no mask is needed and the
padding's keys and values are overwritten or masked later. Logits are float32, computed by a float32 head, because
log-probabilities of rounded logits are what sampler and learner disagree about.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from spade_rl.agent.engine.cache import SlotCache, Step
from spade_rl.errors import ConfigurationError


def check_supported(config: Any, context_tokens: int) -> None:
    """Refuse models whose layers do not all attend to everything before them."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention"}
    window = getattr(text, "sliding_window", None)
    if kinds == {"sliding_attention"} and window and window >= context_tokens:
        kinds = set()
    if kinds:
        raise ConfigurationError(
            f"the transformers engine needs full attention in every layer; {text.model_type} has "
            f"{', '.join(sorted(kinds))}. Lower agent.engine.context_tokens below its window, or choose another model"
        )
    longest = getattr(text, "max_position_embeddings", None)
    if longest is not None and longest < context_tokens:
        raise ConfigurationError(
            f"agent.engine.context_tokens is {context_tokens}, but {text.model_type} reaches only {longest}"
        )


def _with_float_head(model: Any) -> None:
    """Give the model an output head in float32 of its own, whatever the dtype of the rest."""
    head = model.get_output_embeddings()
    if head.weight.dtype is torch.float32:
        return
    head.weight = torch.nn.Parameter(head.weight.detach().float(), requires_grad=False)
    head.register_forward_pre_hook(lambda _module, inputs: (inputs[0].float(), *inputs[1:]))


class ModelRunner:
    """A model with its slot cache. Not thread-safe: one thread owns it."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model = model.to(device).eval()
        _with_float_head(self._model)
        self._device = device
        parameters = inspect.signature(type(model).forward).parameters
        # transformers renamed the argument in 5.2x.
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._cache = SlotCache(model.config.get_text_config().num_hidden_layers)
        self.vocabulary: int = model.get_input_embeddings().weight.shape[0]

    @torch.inference_mode()
    def prefill(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Write prompts into rows and return the logits after each prompt; shape [n, vocabulary]."""
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        span = int(lengths.max())
        tokens = torch.tensor([[*prompt, *[0] * (span - len(prompt))] for prompt in prompts], device=self._device)
        self._cache.begin(Step(rows=torch.tensor(rows, device=self._device), positions=None, span=span))
        last, which = torch.unique(lengths - 1, return_inverse=True)
        logits = self._forward(
            tokens,
            position_ids=torch.arange(span, device=self._device).expand(len(prompts), span),
            attention_mask=None,
            logits_to_keep=last.to(self._device),
        )
        return logits[torch.arange(len(prompts)), which.to(self._device)]

    @torch.inference_mode()
    def decode(self, tokens: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
        """Append one token at its position to each of the first rows; return the next logits, [n, vocabulary]."""
        span = max(positions) + 1
        where = torch.tensor(positions, device=self._device)
        rows = torch.arange(len(tokens), device=self._device)
        self._cache.begin(Step(rows=rows, positions=where, span=span))
        dtype = self._model.dtype
        mask = torch.zeros((len(tokens), 1, 1, span), dtype=dtype, device=self._device)
        seen = torch.arange(span, device=self._device) <= where[:, None]
        mask.masked_fill_(~seen[:, None, None, :], torch.finfo(dtype).min)
        logits = self._forward(
            torch.tensor(tokens, device=self._device)[:, None], position_ids=where[:, None], attention_mask=mask
        )
        return logits[:, -1]

    @torch.inference_mode()
    def move(self, moves: Sequence[tuple[int, int]], span: int) -> None:
        """Copy the first ``span`` positions of rows of the cache: (from, to)."""
        self._cache.move(moves, span)

    def _forward(self, tokens: torch.Tensor, **arguments: Any) -> torch.Tensor:
        logits: torch.Tensor = self._model(
            input_ids=tokens, use_cache=True, **{self._cache_name: self._cache}, **arguments
        ).logits
        return logits.float()
