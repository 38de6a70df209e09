"""Weights by name: what engines share about the parameters of a transformers model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from spade_rl.config import LearnerSection


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return AdamW's parameter groups: matrices decay, norms and biases do not."""
    matrices = [parameter for parameter in module.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in module.parameters() if parameter.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def adamw(module: nn.Module, settings: LearnerSection) -> torch.optim.AdamW:
    """Return the optimizer of both engines."""
    return torch.optim.AdamW(
        parameter_groups(module, settings.weight_decay), lr=settings.learning_rate, betas=settings.betas
    )


def fingerprint(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return a digest of the names and shapes of all parameters."""
    lines = "\n".join(f"{name} {shape}" for name, shape in sorted(shapes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def exported(model: Any, whole: Callable[[Tensor], Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return copies of a model's weights on the host, in ``dtype``, with a head of their own.

    ``whole`` returns the full, unpartitioned value of a parameter. Loaded in place, tied weights give some engines wrong
    logits without a word; so what is published is never tied.
    """
    tensors = {name: whole(parameter).to("cpu", dtype, copy=True) for name, parameter in model.named_parameters()}
    persistent = set(model.state_dict().keys())
    tensors |= {name: buffer.cpu().clone() for name, buffer in model.named_buffers() if name in persistent}
    head = model.get_output_embeddings()
    (name,) = (name for name, module in model.named_modules() if module is head)
    if f"{name}.weight" not in tensors:
        tensors[f"{name}.weight"] = whole(head.weight).to("cpu", dtype, copy=True)
    return tensors
