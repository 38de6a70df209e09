"""The engine that the configuration names."""

from __future__ import annotations

from spade_rl.config import RunConfig
from spade_rl.learner.engine import Engine


def make_engine(config: RunConfig, location: str) -> Engine:
    """Load the policy at ``location`` into an engine; in a group of processes, on the leading one."""
    if config.learner.engine == "deepspeed":
        from spade_rl.learner.deepspeed_engine import DeepSpeedEngine
        from spade_rl.learner.ranks import join

        return DeepSpeedEngine(config, location, join(config.learner.collective_seconds))
    from spade_rl.learner.torch_engine import TorchEngine

    return TorchEngine(config, location)
