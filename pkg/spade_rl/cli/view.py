"""The state of a run as its events tell it: a value that each event turns into the next one.

Progress displays are functions of this value, so that they can be tested without a run or a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

STAGES = ("evaluate", "design", "play", "score", "learn", "publish", "record", "checkpoint")


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a stage is."""

    name: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RunView:
    """What is known of a run in progress; ``spent`` are the seconds that its earlier processes took.

    Fields that the latest cycle did not measure keep the value of the cycle that did.
    """

    cycles: int
    minutes: float | None = None
    spent: float = 0.0
    begun: float | None = None
    now: float = 0.0
    run_id: str = ""
    isolation: str = ""
    model: str = ""
    cycle: int | None = None
    finished_cycles: int = 0
    cycle_seconds: tuple[float, ...] = ()
    stage: Stage | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, float] = field(default_factory=dict)

    def after(self, event: dict[str, Any]) -> RunView:
        """Return the view after an event; unknown events change only the time."""
        now = float(event.get("time", self.now))
        view = replace(self, now=now, begun=self.begun if self.begun is not None else now)
        match event.get("event"):
            case "run_started":
                return replace(
                    view, run_id=event["run_id"], isolation=event.get("isolation", ""), model=event.get("model", "")
                )
            case "resumed":
                return replace(view, cycle=event["cycle"], finished_cycles=event["cycle"])
            case "progress":
                stage = Stage(event["stage"], int(event["done"]), int(event["total"]))
                return replace(view, cycle=event["cycle"], stage=stage)
            case "evaluation":
                return replace(view, held_out={**self.held_out, event["when"]: float(event["mean"])}, stage=None)
            case "cycle":
                measured = {name: value for name, value in event.items() if value is not None}
                taken = sum(event.get("seconds", {}).values())
                return replace(
                    view,
                    figures={**self.figures, **measured},
                    finished_cycles=event["cycle"] + 1,
                    cycle_seconds=(*self.cycle_seconds, taken)[-10:],
                    stage=None,
                )
        return view

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken, earlier processes included."""
        return self.spent + (self.now - self.begun if self.begun is not None else 0.0)

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end of the last cycle, by its deadline and by the pace so far; None if neither is known."""
        limits = []
        if self.minutes is not None:
            limits.append(max(self.minutes * 60 - self.elapsed, 0.0))
        if self.cycle_seconds:
            pace = sum(self.cycle_seconds) / len(self.cycle_seconds)
            limits.append(pace * max(self.cycles - self.finished_cycles, 0))
        return min(limits) if limits else None


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def figures_line(figures: dict[str, Any]) -> str:
    """Return the figures of a cycle in one line."""
    regret = figures.get("regret")
    parts = [
        f"valid {_share(figures.get('valid_share'))}",
        "regret –" if not regret else f"regret {regret['mean']:+.3f} ± {regret['se']:.3f}",
        f"return {number(figures.get('plain_return'))} / {number(figures.get('hinted_return'))} hinted",
        f"difficulty {number(figures.get('difficulty'))}",
        f"learnable {_share(figures.get('learnable_share'))}",
    ]
    return ", ".join(parts)


def number(value: float | None) -> str:
    """Return a figure with two decimals, or a dash."""
    return "–" if value is None else f"{value:.2f}"


def event_line(event: dict[str, Any]) -> str | None:
    """Return the line that a plain log has for an event, or None if it has none."""
    match event.get("event"):
        case "run_started":
            return f"run {event['run_id']} started: model {event.get('model')}, seed {event.get('seed')}, isolation {event.get('isolation')}"
        case "resumed":
            return f"resumed at cycle {event['cycle']} with policy version {event['policy_version']}"
        case "evaluation":
            low, high = event["ci95"]
            return f"held-out {event['when']}: {event['mean']:.1%} ({low:.1%} to {high:.1%})"
        case "cycle":
            taken = sum(event.get("seconds", {}).values())
            return f"cycle {event['cycle']}, version {event['policy_version']}: {figures_line(event)}, {taken:.1f} s"
        case "run_failed":
            return f"failed: {event.get('error')}"
        case "run_stopped":
            return "stopped after a checkpoint"
        case "run_finished":
            return "finished"
    return None
