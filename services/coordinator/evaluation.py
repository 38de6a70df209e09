"""The held-out measurement: how many fixed instances the policy wins without a hint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spade_rl.coordinator.clients import Services
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.nano import heldout
from spade_rl.seeds import source_digest
from spade_rl.v1 import agent_pb2, environment_pb2, trajectory_pb2


@dataclass(frozen=True, slots=True)
class Exam:
    """The request of one evaluation; ``plays`` carry instance names as their identifiers."""

    environments: list[environment_pb2.Environment]
    plays: list[agent_pb2.Play]


def nano_exam() -> Exam:
    """Return the nano model's held-out set; instances of one source share an environment."""
    positions: dict[str, int] = {}
    environments: list[environment_pb2.Environment] = []
    plays: list[agent_pb2.Play] = []
    for instance in heldout.instances():
        if instance.source not in positions:
            positions[instance.source] = len(environments)
            environments.append(
                environment_pb2.Environment(
                    digest=source_digest(instance.source),
                    source=instance.source,
                    kind=environment_pb2.ENVIRONMENT_KIND_GAME,
                )
            )
        plays.append(
            agent_pb2.Play(
                trajectory_id=instance.id,
                environment=positions[instance.source],
                arm=trajectory_pb2.ARM_PLAIN,
                seed=instance.seed,
            )
        )
    return Exam(environments, plays)


async def evaluate(
    services: Services,
    *,
    suite: str,
    temperature: float,
    cycle: int,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Play a suite once and return its accuracy: overall, by family and by level, with 95 % intervals.

    Raises SpadeError if an instance could not be played: an accuracy over the rest would be another measure.
    """
    if suite != "nano":
        raise ConfigurationError(f"there is no evaluation suite {suite!r}")
    exam = nano_exam()
    started = time.monotonic()
    request = agent_pb2.RolloutRequest(
        environments=exam.environments, plays=exam.plays, cycle=cycle, temperature=temperature, returns_only=True
    )
    won: dict[str, bool] = {}
    async for trajectory in services.rollout(request):
        if trajectory.error:
            raise SpadeError(f"the held-out instance {trajectory.id} could not be played: {trajectory.error}")
        won[trajectory.id] = trajectory.episode_return > 0
        progress(len(won), len(exam.plays))
    if len(won) != len(exam.plays):
        raise SpadeError(f"the agent service played {len(won)} of {len(exam.plays)} held-out instances")
    summary = heldout.summarise(won)
    return {
        **_figures(summary.overall),
        "families": {name: _figures(accuracy) for name, accuracy in summary.families.items()},
        "levels": {str(level): _figures(accuracy) for level, accuracy in summary.levels.items()},
        "instances": len(won),
        "seconds": time.monotonic() - started,
    }


def _figures(accuracy: heldout.Accuracy) -> dict[str, Any]:
    return {"mean": accuracy.mean, "ci95": [accuracy.low, accuracy.high], "n": accuracy.plays}
