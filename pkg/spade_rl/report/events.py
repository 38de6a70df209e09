"""A run's event log as typed records.

``events.jsonl`` is the account that the coordinator keeps of a run, one JSON object a line. Reading it is strict
about what it needs and indifferent to what it does not know. A last line without an end is one that a killed run
did not finish, and is left out. A cycle that was played again after a resume counts once: the later account holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spade_rl.errors import ConfigurationError

EVENTS_FILE = "events.jsonl"


class RunState(StrEnum):
    """How far a run is."""

    UNFINISHED = "unfinished"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Estimate(_Record):
    """A mean and its standard error."""

    mean: float
    se: float = 0.0


class Measured(_Record):
    """A held-out share, its 95 % interval and how many instances it is of."""

    mean: float
    ci95: tuple[float, float]
    n: int | None = None


class Evaluation(Measured):
    """A held-out measurement of one policy version."""

    when: str = "before"
    policy_version: int = 0
    families: dict[str, Measured] = Field(default_factory=dict)
    levels: dict[str, Measured | float] = Field(default_factory=dict)
    instances: int = 0
    seconds: float = 0.0


class Started(_Record):
    """The beginning of a run."""

    time: float
    run_id: str
    seed: int = 0
    config: dict[str, Any] = Field(default_factory=dict)
    isolation: str = "unknown"
    model: str = "unknown"
    policy_version: int = 0
    versions: dict[str, str] = Field(default_factory=dict)


class Cycle(_Record):
    """One cycle, as the coordinator sums it up."""

    time: float
    cycle: int
    window_first: bool = True
    policy_version: int = 0
    environments: int = 0
    attempts: int = 0
    admitted: int = 0
    valid_share: float | None = None
    verdicts: dict[str, int] = Field(default_factory=dict)
    plain_return: float | None = None
    hinted_return: float | None = None
    regret: Estimate | None = None
    difficulty: float | None = None
    learnable_share: float | None = None
    win_rates: list[float] = Field(default_factory=list)
    void_episodes: int = 0
    quarantined: int = 0
    diversity: dict[str, float | None] = Field(default_factory=dict)
    designer_reward: float | None = None
    tokens: dict[str, float] = Field(default_factory=dict)
    episodes: int = 0
    seconds: dict[str, float] = Field(default_factory=dict)
    learner: dict[str, float] = Field(default_factory=dict)
    engine_busy_share: float | None = None


class RunLog(_Record):
    """Everything that the event log of one run says, in order."""

    started: Started
    resumes: int = 0
    cycles: tuple[Cycle, ...] = ()
    before: Evaluation | None = None
    after: Evaluation | None = None
    state: RunState = RunState.UNFINISHED
    summary: dict[str, Any] = Field(default_factory=dict)
    error: str = ""
    active_seconds: float = 0.0
    last_time: float = 0.0

    @property
    def policy_version(self) -> int:
        """The newest version that the log names."""
        # A window that was cut short is trained after the last cycle: only the summary names that version.
        ended = int(self.summary.get("policy_version", 0))
        return max([self.started.policy_version, ended, *(cycle.policy_version for cycle in self.cycles)])


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the finished lines of an event log.

    Raises ConfigurationError if it cannot be read or holds a line that is not an event.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}. Is {path.parent} the folder of a run?"
        ) from error
    for number, line in enumerate(lines[:-1], start=1):
        try:
            event = json.loads(line)
        except ValueError as error:
            raise ConfigurationError(f"line {number} of {path} is not JSON: the file was changed or damaged") from error
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise ConfigurationError(f"line {number} of {path} is not an event of a run")
        yield event


_ENDINGS = {"run_finished": RunState.FINISHED, "run_stopped": RunState.STOPPED, "run_failed": RunState.FAILED}


def read_log(run_dir: Path) -> RunLog:
    """Return the account of the run in ``run_dir``; raises ConfigurationError if the folder holds none."""
    path = run_dir / EVENTS_FILE
    cycles: dict[int, Cycle] = {}
    found: dict[str, Any] = {}
    active, previous = 0.0, None
    try:
        for event in read_events(path):
            kind, now = event["event"], float(event.get("time", 0.0))
            # Time between the end of one process and the start of the next is not the run's.
            if previous is not None and kind not in ("run_started", "resumed"):
                active += max(now - previous, 0.0)
            previous = now
            if kind == "run_started":
                found["started"] = Started.model_validate(event)
            elif kind == "resumed":
                found["resumes"] = found.get("resumes", 0) + 1
                found.update(state=RunState.UNFINISHED, error="")
            elif kind == "evaluation":
                measured = Evaluation.model_validate(event)
                found["after" if measured.when == "after" else "before"] = measured
            elif kind == "cycle":
                cycle = Cycle.model_validate(event)
                cycles[cycle.cycle] = cycle
            elif kind in _ENDINGS:
                found["state"] = _ENDINGS[kind]
                found["summary"] = event.get("summary") or {}
                found["error"] = str(event.get("error") or "")
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(
            f"{path} holds an event that this version of Spade cannot read "
            f"({'.'.join(map(str, first['loc']))}: {first['msg']}); open it with the version that wrote it"
        ) from error
    if "started" not in found:
        raise ConfigurationError(f"{path} does not say that a run began; is {run_dir} the folder of a run?")
    ordered = tuple(cycles[number] for number in sorted(cycles))
    return RunLog(**found, cycles=ordered, active_seconds=active, last_time=previous or 0.0)
