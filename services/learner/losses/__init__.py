"""Policy-gradient losses, one a file, by the name that the configuration uses."""

from __future__ import annotations

from spade_rl.learner.losses.cispo import cispo
from spade_rl.learner.losses.dppo_tv import dppo_tv
from spade_rl.learner.losses.gspo import gspo
from spade_rl.learner.losses.ppo import ppo
from spade_rl.learner.losses.reinforce import reinforce
from spade_rl.learner.losses.terms import Bounds, Loss, Terms, Tokens

LOSSES: dict[str, Loss] = {"ppo": ppo, "dppo_tv": dppo_tv, "cispo": cispo, "gspo": gspo, "reinforce": reinforce}

__all__ = ["LOSSES", "Bounds", "Loss", "Terms", "Tokens"]
