"""A run's folder as a run leaves it: real configuration, manifest, event log and archive, invented content."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.manifest import prepare_run_dir
from spade_rl.memory.archive import Archive
from spade_rl.memory.records import (
    AdmissionReport,
    Attempt,
    Environment,
    GateVerdict,
    Provenance,
    Record,
    Statistics,
    Trajectory,
    TrajectoryHeader,
    Turn,
)
from spade_rl.seeds import source_digest

HOSTILE = "</pre><script>alert('x')</script>\x1b[31m\u202e"
BEGAN = 1_800_000_000.0


def source(number: int) -> str:
    return f"class Env{number}:  # {HOSTILE}\n    def reset(self, seed):\n        return 'at {number}', {{}}\n"


class RunMaker:
    """Writes a run of ``cycles`` cycles with ``per_cycle`` environments each."""

    def __init__(self, run_dir: Path, config: RunConfig | None = None) -> None:
        self.run_dir = run_dir
        self.config = config or load_config(preset="quickstart")
        self.run_id = prepare_run_dir(run_dir, self.config)
        self.events: list[dict[str, Any]] = []
        self.draw = random.Random(4)

    def event(self, name: str, **fields: Any) -> None:
        line = {"number": len(self.events), "time": BEGAN + 5.0 * len(self.events), "event": name, **fields}
        self.events.append(line)
        with (self.run_dir / "events.jsonl").open("a") as out:
            out.write(json.dumps(line) + "\n")

    def start(self, isolation: str = "gvisor") -> None:
        self.event(
            "run_started", run_id=self.run_id, seed=3, config=self.config.model_dump(mode="json"),
            isolation=isolation, model="nano", policy_version=0, versions={"python": "3.11"},
        )  # fmt: skip
        Archive.open(self.run_dir).close()

    def evaluation(self, when: str, mean: float) -> None:
        families = {name: {"mean": mean, "ci95": [mean - 0.1, mean + 0.1], "n": 200} for name in ("count", "space")}
        levels = {str(level): {"mean": mean / level, "ci95": [0.0, mean], "n": 100} for level in (2, 4, 16)}
        self.event(
            "evaluation", when=when, policy_version=0, mean=mean, ci95=[mean - 0.03, mean + 0.03], n=400,
            families=families, levels=levels, instances=400, seconds=3.0,
        )  # fmt: skip

    def cycle(self, number: int, per_cycle: int = 3) -> None:
        first = number % 2 == 0
        self.event(
            "cycle", cycle=number, window_first=first, policy_version=number + 1, environments=per_cycle,
            attempts=per_cycle + 1 if first else 0, admitted=per_cycle if first else 0,
            valid_share=0.75 if first else None, verdicts={"solution": 1} if first else {},
            plain_return=0.2 + 0.01 * number, hinted_return=0.4 if first else None,
            regret={"mean": 0.1, "se": 0.02} if first else None, difficulty=3.0 + number, learnable_share=0.5,
            win_rates=[0.2, 0.4, 0.6], void_episodes=1, quarantined=0, diversity={"distinct_share": 1.0},
            designer_reward=None if first else 0.6, tokens={"agent": 900, "designer": 100 if first else 0}, episodes=48,
            seconds={"design": 1.0, "play": 2.0, "score": 0.1, "learn": 1.5, "publish": 0.1, "record": 0.2},
            learner={"loss_agent": -0.1, "gradient_norm": 0.7}, engine_busy_share=0.6,
        )  # fmt: skip
        if first:
            with Archive.open(self.run_dir) as archive:
                archive.record(self.record(number, per_cycle))

    def record(self, cycle: int, per_cycle: int) -> Record:
        numbers = range(cycle * per_cycle, (cycle + 1) * per_cycle)
        environments = tuple(self.environment(number, cycle, per_cycle) for number in numbers)
        return Record(
            self.run_id,
            cycle,
            attempts=(*(self.attempt(one, cycle, slot) for slot, one in enumerate(environments)), self.refused(cycle)),
            environments=environments,
            trajectories=tuple(
                self.trajectory(one, cycle, arm, play)
                for one in environments
                for arm in ("plain", "hinted")
                for play in range(2)
            ),
            statistics=tuple(self.statistics(one) for one in environments),
        )

    def environment(self, number: int, cycle: int, per_cycle: int) -> Environment:
        text, parent = source(number), source(number - 2 * per_cycle)
        seeds = (source_digest(parent),) if cycle else ()
        provenance = Provenance(
            self.run_id, cycle, f"document-{number}", f"pears & <b>plums</b> {HOSTILE}", seeds, (), cycle, 1
        )
        return Environment(source_digest(text), text, "game", "count", f"count up {HOSTILE}", provenance)

    def attempt(self, one: Environment, cycle: int, slot: int) -> Attempt:
        verdicts = (GateVerdict("parse", "passed", ""), GateVerdict("solution", "passed", ""))
        report = AdmissionReport(one.digest, True, verdicts, "gvisor", 0.1, ("up", "done"), "at 0")
        identifier = f"{self.run_id}/c{cycle}/s{slot}/a0"
        return Attempt(identifier, cycle, one.skill, one.provenance, one.source, report, one.digest, (), one.source)

    def refused(self, cycle: int) -> Attempt:
        text = f"class Refused{cycle}: pass  # {HOSTILE}\n"
        verdicts = (GateVerdict("parse", "passed", ""), GateVerdict("solution", "failed", f"it loses: {HOSTILE}"))
        report = AdmissionReport(source_digest(text), False, verdicts, "gvisor", 0.1, (), "")
        provenance = Provenance(self.run_id, cycle, "document-x", "text", (), (), cycle, 1)
        return Attempt(f"{self.run_id}/c{cycle}/s9/a0", cycle, "count", provenance, text, report, "", (), text)

    def trajectory(self, one: Environment, cycle: int, arm: str, play: int) -> Trajectory:
        won = float(arm == "hinted")
        head = TrajectoryHeader(
            f"{self.run_id}/c{cycle}/{one.digest[:16]}/{arm}/{play}", one.digest, cycle, arm, 7, play, won,
            "terminated", 2, 4, 20, 0.1, "",
        )  # fmt: skip
        turns = (Turn(f"at 0 {HOSTILE}", "up", "up", 0.0), Turn("at 1", f"done {HOSTILE}", "done", won))
        return Trajectory(head, (), turns, f"the end {HOSTILE}")

    def statistics(self, one: Environment) -> Statistics:
        rate = round(self.draw.uniform(0, 1), 3)
        return Statistics(one.digest, 4, 4, rate, 0.8, 0.8 - rate, 0.1, 0.5, 0, False, "", True)

    def finish(self) -> None:
        measured = {one["when"]: one for one in self.events if one["event"] == "evaluation"}
        cycles = [one for one in self.events if one["event"] == "cycle"]
        self.event(
            "run_finished",
            summary={
                "run_id": self.run_id, "cycles": len(cycles), "policy_version": len(cycles), "valid_share": 0.75,
                "regret": {"mean": 0.1, "se": 0.02}, "difficulty": {"start": 3.0, "end": 6.0}, "minutes": 1.5,
                "held_out_before": measured.get("before"), "held_out_after": measured.get("after"),
                "isolation": self.events[0]["isolation"],
            },
        )  # fmt: skip


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunMaker]:
    """Return a maker of runs under ``tmp_path/runs``."""
    return lambda name="demo", **options: RunMaker(tmp_path / "runs" / name, **options)


@pytest.fixture
def finished_run(make_run: Callable[..., RunMaker]) -> RunMaker:
    """A whole run of four cycles."""
    run = make_run()
    run.start()
    run.evaluation("before", 0.2)
    for number in range(4):
        run.cycle(number)
    run.evaluation("after", 0.45)
    run.finish()
    return run
