"""The engine of many processes: DeepSpeed with ZeRO stages 0 to 3.

The same objective, optimizer and micro-batches as ``torch_engine``, so both take the same steps. DeepSpeed's own arithmetic is
neutralised: one gradient-accumulation step with the boundary set by hand, because ``backward`` divides by their number,
and each loss is multiplied by the number of processes, because their gradients are averaged. Every process runs the same number of
micro-batches, since stages 2 and 3 talk in each; one that has run out runs a filler of weight 0.

A failure in the middle of a step leaves DeepSpeed's buffers in no known state: the engine then refuses everything, and the
processes are to be started again. Its checkpoints are pickles: load only your own.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError, LearnerError, SpadeError
from spade_rl.learner.batch import MicroBatch, filler, to_device
from spade_rl.learner.engine import StepReport
from spade_rl.learner.objective import Objective, Tally
from spade_rl.learner.policy import load_policy
from spade_rl.learner.ranks import Ranks
from spade_rl.learner.weights import adamw, exported, fingerprint
from spade_rl.telemetry import GPUS

_TAG = "state"


def _deepspeed() -> Any:
    """Import DeepSpeed so that it compiles nothing on a CPU and keeps what it compiles in the project's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spade-rl" / "torch_extensions"
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(cache))
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError as error:
        raise ConfigurationError(
            "learner.engine: deepspeed needs the package deepspeed: pip install 'spade-rl[deepspeed]', or set torch"
        ) from error
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    # Its shared-memory collectives take a minute to compile and wait for each other without a deadline; gloo does neither.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


class DeepSpeedEngine:
    """See ``engine.Engine``. The leader's methods run on all processes; the others call ``follow``."""

    name = "deepspeed"

    def __init__(self, config: RunConfig, location: str, ranks: Ranks) -> None:
        settings = config.learner
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self._ranks, self._stage, self._failed = ranks, settings.zero_stage, False
        self._cuda = torch.cuda.is_available()
        self._device = torch.device("cuda", torch.cuda.current_device()) if self._cuda else torch.device("cpu")
        self._dtype: torch.dtype = getattr(torch, config.model.dtype)
        self._module = _deepspeed()
        self._module.init_distributed(dist_backend="nccl" if self._cuda else "gloo")
        GPUS.set(torch.distributed.get_world_size() if self._cuda else 0)
        policy = load_policy(location, config.model.dtype).to(self._device)
        reference = None
        if settings.kl:
            reference = load_policy(location, config.model.dtype).to(self._device).requires_grad_(False)
        self.vocabulary = policy.vocabulary
        self._shapes = {name: tuple(p.shape) for name, p in policy.model.named_parameters()}
        self._objective = Objective(policy, settings, reference=reference)
        self._engine, *_ = self._module.initialize(
            model=self._objective,
            optimizer=adamw(policy, settings),
            config={
                "train_micro_batch_size_per_gpu": 1,
                "gradient_accumulation_steps": 1,
                "gradient_clipping": settings.gradient_clip,
                "zero_optimization": {"stage": self._stage},
                "bf16": {"enabled": self._dtype is torch.bfloat16},
                "zero_allow_untested_optimizer": True,
                "zero_force_ds_cpu_optimizer": False,
                "steps_per_print": 2**31,
            },
        )

    @property
    def identity(self) -> Mapping[str, str | int]:
        """See ``engine.Engine``."""
        return {
            "parameters": fingerprint(self._shapes),
            "processes": self._ranks.world,
            "zero_stage": self._stage,
            "dtype": str(self._dtype),
        }

    def step(self, batches: Sequence[MicroBatch]) -> StepReport:
        """See ``engine.Engine``."""
        return self._together("step", batches)

    def export(self) -> dict[str, Tensor]:
        """See ``engine.Engine``."""
        return self._together("export", None)

    def save(self, folder: Path) -> None:
        """See ``engine.Engine``; ``folder`` must be on storage that all processes share."""
        self._together("save", str(folder))

    def load(self, folder: Path) -> None:
        """See ``engine.Engine``."""
        self._together("load", str(folder))

    def close(self) -> None:
        """See ``engine.Engine``."""
        self._ranks.tell(("close", None))
        self._end()

    def follow(self) -> None:
        """Do what the leader says until it closes; raises when anything failed."""
        while True:
            verb, argument = self._ranks.hear()
            if verb == "close":
                self._end()
                return
            self._carry_out(verb, argument)

    def _end(self) -> None:
        self._engine.destroy()
        self._ranks.leave()

    def _together(self, verb: str, argument: Any) -> Any:
        if self._failed:
            raise LearnerError("the learner's processes failed; start them again and resume from the last checkpoint")
        self._ranks.tell((verb, argument))
        return self._carry_out(verb, argument)

    def _carry_out(self, verb: str, argument: Any) -> Any:
        """Do one command here and hear how it went elsewhere."""
        work: dict[str, Callable[[Any], Any]] = {
            "step": self._step,
            "export": self._export,
            "save": self._save,
            "load": self._load,
        }
        result, fault = None, None
        try:
            result = work[verb](argument)
        except (RuntimeError, OSError, ValueError, AssertionError, SpadeError) as error:
            fault = f"{verb} failed: {type(error).__name__}: {error}"
        try:
            self._ranks.agree(fault)
        except SpadeError:
            self._failed = True
            raise
        return result

    def _step(self, batches: Sequence[MicroBatch]) -> StepReport:
        world = self._ranks.world
        rounds = math.ceil(len(batches) / world)
        mine = list(batches[self._ranks.rank :: world])
        mine += [filler()] * (rounds - len(mine))
        tally, healthy, own = Tally.empty(), 1.0, 0.0
        for number, batch in enumerate(mine, start=1):
            last = number == rounds
            self._engine.set_gradient_accumulation_boundary(last)
            loss = self._engine(to_device(batch, self._device))
            healthy *= float(torch.isfinite(loss.detach()))
            self._engine.backward(loss * world)
            tally += self._objective.tally
            if last and float(self._ranks.reduce(torch.tensor([1.0 - healthy]))) > 0:
                raise LearnerError("the loss is not finite; the optimizer step was not taken")
            # Stage 0 in float32 keeps no norm: its gradients, already averaged, are those of the parameters.
            plain = [p.grad for p in self._objective.policy.parameters() if p.grad is not None] if last else []
            own = float(torch.nn.utils.get_total_norm(plain))
            self._engine.step()
        kept = self._engine.get_global_grad_norm()
        norm = own if kept is None else float(kept)
        if not math.isfinite(norm):
            raise LearnerError(f"the gradient's norm is {norm}; the weights are spoilt")
        total = Tally(self._ranks.reduce(tally.sums), self._ranks.reduce(tally.peaks, largest=True))
        return StepReport(gradient_norm=norm, tally=total)

    def _export(self, _: None) -> dict[str, Tensor]:
        def whole(parameter: Tensor) -> Tensor:
            # Copied while gathered: a view that outlives the gathering is silently corrupt.
            if self._stage < 3:
                return parameter.detach()
            with self._module.zero.GatheredParameters([parameter]):
                leads = self._ranks.rank == 0
                return parameter.detach().clone() if leads else torch.empty(0)

        return exported(self._objective.policy.model, whole, self._dtype)

    def _save(self, folder: str) -> None:
        self._engine.save_checkpoint(folder, tag=_TAG, save_latest=False)

    def _load(self, folder: str) -> None:
        path, _ = self._engine.load_checkpoint(folder, tag=_TAG)
        if path is None:
            raise ConfigurationError(f"DeepSpeed found no checkpoint in {folder}")
