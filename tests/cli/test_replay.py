from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spade_rl.cli.replay import Replay
from spade_rl.cli.turns import ShownTurn
from spade_rl.memory.archive import Archive
from spade_rl.memory.records import Environment, Provenance, Record, Trajectory, TrajectoryHeader, Turn
from spade_rl.seeds import source_digest

SOURCE = """
import random


class Echo:
    def reset(self, seed):
        draw = random.Random(seed)
        self.words = [draw.choice(["pear", "plum", "fig"]) + str(draw.randint(10, 99)) for _ in range(3)]
        self.at = 0
        return f"say {self.words[0]}", {}

    def step(self, action):
        if action != self.words[self.at]:
            return "wrong", 0.0, True, False, {}
        self.at += 1
        if self.at == 3:
            return "well said", 1.0, True, False, {}
        return f"say {self.words[self.at]}", 0.0, False, False, {}

    def solution(self):
        return list(self.words)
"""
DIGEST = source_digest(SOURCE)
WEAKER = ("--isolation", "process")


def _words(seed: int) -> list[str]:
    draw = random.Random(seed)
    return [draw.choice(["pear", "plum", "fig"]) + str(draw.randint(10, 99)) for _ in range(3)]


@pytest.fixture
def played(make_run: Callable[..., Any]) -> str:
    """A run with one environment and two episodes: one as it was played, one with an observation that it never showed."""
    run = make_run("played")
    run.start()
    provenance = Provenance(run.run_id, 0, "document", "text", (), (), 0, 1)
    words = _words(7)
    turns = tuple(Turn(f"say {word}", word, word, float(word == words[-1])) for word in words)
    head = TrajectoryHeader("played/c0/true", DIGEST, 0, "plain", 7, 0, 1.0, "terminated", 3, 9, 30, 0.1, "")
    true = Trajectory(head, (), turns, "well said")
    false = Trajectory(
        replace(head, id="played/c0/false", play=1),
        (),
        (turns[0], replace(turns[1], observation="say nothing"), turns[2]),
        "well said",
    )
    with Archive.open(run.run_dir) as archive:
        archive.record(
            Record(
                run.run_id,
                0,
                environments=(Environment(DIGEST, SOURCE, "game", "echo", "", provenance),),
                trajectories=(true, false),
            )
        )
    return DIGEST[:12]


def test_a_solution_is_played_turn_by_turn(
    spade: Callable[..., Any], as_json: Callable[[str], Any], played: str
) -> None:
    result = spade("envs", "replay", played, *WEAKER, "--json")
    assert result.exit_code == 0, result.output
    assert "Warning: weaker isolation: process" in result.stderr
    found = as_json(result.stdout)
    assert (found["episode_return"], found["terminated"], found["differs"], found["isolation"]) == (
        1.0,
        True,
        None,
        "process",
    )
    assert [turn["reply"] for turn in found["turns"]] == _words(found["seed"])
    other = as_json(spade("envs", "replay", played, "--seed", "5", *WEAKER, "--json").stdout)
    assert other["seed"] != found["seed"]


def test_a_recorded_episode_repeats_itself(spade: Callable[..., Any], played: str) -> None:
    result = spade("envs", "replay", played, "--episode", "c0/true", *WEAKER)
    assert result.exit_code == 0, result.output
    assert "seed 7, 3 actions, return +1.00, terminated" in result.stdout
    assert result.stdout.index("turn 1") < result.stdout.index(_words(7)[0]) < result.stdout.index("well said")


def test_an_episode_that_does_not_repeat_itself_ends_with_1(
    spade: Callable[..., Any], as_json: Callable[[str], Any], played: str
) -> None:
    result = spade("envs", "replay", played, "--episode", "c0/false", *WEAKER, "--json")
    assert result.exit_code == 1
    assert as_json(result.stdout)["differs"] == 2
    assert "observation 2 is not the recorded one" in result.stderr


def test_an_environment_that_is_no_program_is_its_own_fault(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    digest = as_json(spade("envs", "list", "--json").stdout)["environments"][0]["digest"]
    result = spade("envs", "replay", digest, *WEAKER)
    assert result.exit_code == 1
    assert "is not admitted with seed 0: the gate" in result.stderr


def test_an_episode_of_another_environment_is_refused(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    digests = [one["digest"] for one in as_json(spade("envs", "list", "--json").stdout)["environments"]]
    episode = as_json(spade("episodes", "list", "--env", digests[0], "--json").stdout)["episodes"][0]["id"]
    result = spade("envs", "replay", digests[1], "--episode", episode)
    assert result.exit_code == 2
    assert "was played in" in result.stderr


def test_a_truncated_replay_earns_nothing() -> None:
    turn = ShownTurn("a", "b", 0.7)
    assert Replay(1, (turn,), "", terminated=True, truncated=False).episode_return == 0.7
    assert Replay(1, (turn,), "", terminated=False, truncated=True).episode_return == 0.0
    assert Replay(1, (), "", terminated=False, truncated=False).episode_return == 0.0
