"""What a run knows between two cycles: all of it, and nothing that a service keeps for itself.

The state is a value. A cycle makes a new one from the old; a checkpoint writes it; a resumed run reads it and goes on
as if nothing had happened.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from spade_rl.errors import ConfigurationError
from spade_rl.v1 import designer_pb2, environment_pb2

STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LiveEnvironment:
    """An environment in its window, with what its plays have shown so far.

    ``plain`` holds the returns of every plain play of the window, ``regret`` was measured in the first cycle of it.
    ``oracle_steps`` is the number of actions with which its own solution wins: the measure of difficulty.
    """

    environment: environment_pb2.Environment
    attempt: designer_pb2.DesignAttempt
    plain: tuple[float, ...] = ()
    hinted: tuple[float, ...] = ()
    regret: float = 0.0
    regret_standard_error: float = 0.0
    void_episodes: int = 0
    quarantine_reason: str = ""

    @property
    def digest(self) -> str:
        """The environment's identity."""
        return self.environment.digest

    @property
    def oracle_steps(self) -> int:
        """Actions of the environment's own solution on the first instance that admission tried."""
        return len(self.attempt.report.solution)

    @property
    def mean_return(self) -> float:
        """Mean plain return over the window so far; 0 before the first play."""
        return sum(self.plain) / len(self.plain) if self.plain else 0.0

    @property
    def mean_hinted_return(self) -> float:
        """Mean hinted return; 0 without a hinted arm."""
        return sum(self.hinted) / len(self.hinted) if self.hinted else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over the run from which its summary is made."""

    attempts: int = 0
    admitted: int = 0
    regrets: tuple[float, ...] = ()
    difficulties: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RunState:
    """The state after ``cycle`` finished cycles.

    ``live`` is the current set and ``age`` the cycles that it has been played; ``refused`` are the set's refused
    attempts, which wait with it for the designer's update. ``sets`` counts the sets begun, ``empty_sets`` those in a row
    that brought no environment, and ``updates`` the updates asked of the learner. ``events`` is the length of the event log.
    """

    run_id: str
    cycle: int = 0
    policy_version: int = 0
    updates: int = 0
    sets: int = 0
    empty_sets: int = 0
    age: int = 0
    grounding_cursor: str = ""
    live: tuple[LiveEnvironment, ...] = ()
    refused: tuple[designer_pb2.DesignAttempt, ...] = ()
    skill_averages: dict[str, float] = field(default_factory=dict)
    figures: Figures = Figures()
    held_out_before: dict[str, Any] | None = None
    seconds: float = 0.0
    events: int = 0


def dump_state(state: RunState) -> str:
    """Return the state as JSON."""
    plain = {
        name: getattr(state, name)
        for name in ("run_id", "cycle", "policy_version", "updates", "sets", "empty_sets", "age", "grounding_cursor")
    }
    plain |= {
        "format": STATE_FORMAT,
        "live": [
            {
                "environment": MessageToDict(one.environment),
                "attempt": MessageToDict(one.attempt),
                "plain": one.plain,
                "hinted": one.hinted,
                "regret": one.regret,
                "regret_standard_error": one.regret_standard_error,
                "void_episodes": one.void_episodes,
                "quarantine_reason": one.quarantine_reason,
            }
            for one in state.live
        ],
        "refused": [MessageToDict(attempt) for attempt in state.refused],
        "skill_averages": state.skill_averages,
        "figures": asdict(state.figures),
        "held_out_before": state.held_out_before,
        "seconds": state.seconds,
        "events": state.events,
    }
    return json.dumps(plain, indent=1)


def load_state(text: str) -> RunState:
    """Return the state that ``dump_state`` wrote; raises ConfigurationError for anything else."""
    try:
        data = json.loads(text)
        if data.pop("format") != STATE_FORMAT:
            raise ConfigurationError(
                "the checkpoint was written by another version of Spade; resume it with that version"
            )
        live = tuple(
            LiveEnvironment(
                environment=ParseDict(one.pop("environment"), environment_pb2.Environment()),
                attempt=ParseDict(one.pop("attempt"), designer_pb2.DesignAttempt()),
                plain=tuple(one.pop("plain")),
                hinted=tuple(one.pop("hinted")),
                **one,
            )
            for one in data.pop("live")
        )
        refused = tuple(ParseDict(one, designer_pb2.DesignAttempt()) for one in data.pop("refused"))
        sums = data.pop("figures")
        figures = Figures(
            attempts=sums["attempts"],
            admitted=sums["admitted"],
            regrets=tuple(sums["regrets"]),
            difficulties=tuple(sums["difficulties"]),
        )
        return RunState(live=live, refused=refused, figures=figures, **data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"the checkpoint's state cannot be read ({type(error).__name__}: {error})") from error
