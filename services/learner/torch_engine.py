"""The engine of a laptop: one process, plain torch.

The parameters are float32 whatever ``model.dtype`` says; with bfloat16 the forward pass runs under autocast, because steps of 1e-6
vanish in bfloat16 weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError, LearnerError
from spade_rl.learner.batch import MicroBatch, to_device
from spade_rl.learner.engine import StepReport
from spade_rl.learner.objective import Objective, Tally
from spade_rl.learner.policy import load_policy
from spade_rl.learner.weights import adamw, exported, fingerprint
from spade_rl.telemetry import GPUS

STATE = "state.safetensors"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class TorchEngine:
    """See ``engine.Engine``."""

    name = "torch"

    def __init__(self, config: RunConfig, location: str) -> None:
        settings = config.learner
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        GPUS.set(self._device.type == "cuda")
        self._dtype: torch.dtype = getattr(torch, config.model.dtype)
        policy = load_policy(location, "float32").to(self._device)
        reference = load_policy(location, "float32").to(self._device).requires_grad_(False) if settings.kl else None
        self._objective = Objective(policy, settings, reference=reference)
        self._parameters = dict(policy.model.named_parameters())
        self._optimizer = adamw(policy, settings)
        self._clip = settings.gradient_clip
        self.vocabulary = policy.vocabulary

    @property
    def identity(self) -> Mapping[str, str | int]:
        """See ``engine.Engine``."""
        return {"parameters": fingerprint({name: tuple(p.shape) for name, p in self._parameters.items()})}

    def _precision(self) -> AbstractContextManager[Any]:
        if self._dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self._dtype)

    def step(self, batches: Sequence[MicroBatch]) -> StepReport:
        """See ``engine.Engine``."""
        tally = Tally.empty()
        self._optimizer.zero_grad(set_to_none=True)
        for batch in batches:
            with self._precision():
                loss = self._objective(to_device(batch, self._device))
            loss.backward()
            tally += self._objective.tally
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._clip))
        if not math.isfinite(norm):
            self._optimizer.zero_grad(set_to_none=True)
            raise LearnerError(f"the gradient's norm is {norm}; the optimizer step was not taken")
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return StepReport(gradient_norm=norm, tally=tally)

    def export(self) -> dict[str, Tensor]:
        """See ``engine.Engine``."""
        return exported(self._objective.policy.model, torch.Tensor.detach, self._dtype)

    def save(self, folder: Path) -> None:
        """See ``engine.Engine``."""
        tensors = {f"parameter/{name}": p.detach().cpu() for name, p in self._parameters.items()}
        for name, parameter in self._parameters.items():
            state = self._optimizer.state.get(parameter, {})
            tensors |= {f"{moment}/{name}": state[moment].cpu() for moment in _MOMENTS if moment in state}
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / STATE)

    def load(self, folder: Path) -> None:
        """See ``engine.Engine``."""
        try:
            tensors = load_file(folder / STATE)
        except (OSError, SafetensorError) as error:
            raise ConfigurationError(f"cannot read {folder / STATE}: {error}") from error
        moments = {moment: {name for name in self._parameters if f"{moment}/{name}" in tensors} for moment in _MOMENTS}
        complete = list(moments.values()) in ([set()] * 3, [set(self._parameters)] * 3)
        if not complete or any(
            tensors.get(f"parameter/{name}", torch.empty(0)).shape != p.shape for name, p in self._parameters.items()
        ):
            raise ConfigurationError(f"{folder / STATE} does not hold this model's parameters")
        self._optimizer.state.clear()
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(tensors[f"parameter/{name}"])
                if moments["step"]:
                    self._optimizer.state[parameter] = {
                        "step": tensors[f"step/{name}"],
                        **{m: tensors[f"{m}/{name}"].to(self._device) for m in ("exp_avg", "exp_avg_sq")},
                    }

    def close(self) -> None:
        """See ``engine.Engine``."""
        self._optimizer.zero_grad(set_to_none=True)
