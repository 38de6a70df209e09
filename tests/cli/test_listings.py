from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spade_rl.cli.environments import regret_text
from spade_rl.memory.records import Statistics


@pytest.fixture
def digest(spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any) -> str:
    return str(as_json(spade("envs", "list", "--json").stdout)["environments"][0]["digest"])


def test_environments_are_listed(spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any) -> None:
    found = as_json(spade("envs", "list", "demo", "--json").stdout)
    assert (found["run_id"], found["isolation"], found["total"]) == ("demo", "gvisor", 6)
    assert all(one["statistics"]["plain_plays"] == 4 for one in found["environments"])
    text = spade("envs", "list", "--limit", "2").stdout
    assert "the last 2 of 6" in text
    assert as_json(spade("envs", "list", "--skill", "space", "--json").stdout)["total"] == 0


def test_environments_are_sorted_and_filtered(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    by_regret = as_json(spade("envs", "list", "--sort", "regret", "--json").stdout)["environments"]
    regrets = [one["statistics"]["regret"] for one in by_regret]
    assert regrets == sorted(regrets)
    learnable = as_json(spade("envs", "list", "--learnable", "--json").stdout)["environments"]
    expected = [one for one in by_regret if 0.2 <= one["statistics"]["win_rate"] <= 0.8]
    assert {one["digest"] for one in learnable} == {one["digest"] for one in expected}
    assert 0 < len(expected) < len(by_regret)


def test_an_environment_is_shown_with_all_that_is_known(
    spade: Callable[..., Any], as_json: Callable[[str], Any], digest: str
) -> None:
    found = as_json(spade("envs", "show", digest[:10], "--json").stdout)
    assert found["digest"] == digest
    assert found["source"].startswith("class Env")
    assert found["provenance"]["document_id"].startswith("document-")
    assert [gate["gate"] for gate in found["gates"]] == ["parse", "solution"]
    text = spade("envs", "show", digest[:10]).stdout
    for part in ("class Env", "document-", "up · done", "count up", "4 without hint"):
        assert part in text


def test_what_a_model_wrote_does_not_reach_the_terminal_raw(
    spade: Callable[..., Any], as_json: Callable[[str], Any], digest: str
) -> None:
    episode = as_json(spade("episodes", "list", "--json").stdout)["episodes"][0]["id"]
    for output in (spade("envs", "show", digest).stdout, spade("episodes", "show", episode).stdout):
        assert "\x1b[31m" not in output
        assert "\u202e" not in output
        assert "\\x1b[31m\\u202e" in output


def test_an_unknown_environment_is_named(spade: Callable[..., Any], finished_run: Any) -> None:
    result = spade("envs", "show", "ffffffffffff")
    assert result.exit_code == 2
    assert "none" in result.stderr


def test_episodes_are_listed(spade: Callable[..., Any], as_json: Callable[[str], Any], digest: str) -> None:
    everything = as_json(spade("episodes", "list", "--json").stdout)
    assert everything["total"] == 24
    assert as_json(spade("episodes", "list", "--env", digest[:12], "--json").stdout)["total"] == 4
    assert as_json(spade("episodes", "list", "--cycle", "2", "--json").stdout)["total"] == 12
    assert "the newest 5 of 24" in spade("episodes", "list", "--limit", "5").stdout


def test_an_episode_is_shown_turn_by_turn(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    identifier = as_json(spade("episodes", "list", "--json").stdout)["episodes"][0]["id"]
    short = identifier.removeprefix("demo/")
    found = as_json(spade("episodes", "show", identifier, "--json").stdout)
    assert [turn["action"] for turn in found["turns"]] == ["up", "done"]
    text = spade("episodes", "show", short).stdout
    assert text.index("turn 1") < text.index("at 0") < text.index("up") < text.index("turn 2") < text.index("the end")
    assert "action: done" in text
    missing = spade("episodes", "show", "c9/none")
    assert missing.exit_code == 2
    assert "spade episodes list" in missing.stderr


def test_listings_warn_of_a_weaker_isolation(spade: Callable[..., Any], make_run: Callable[..., Any]) -> None:
    run = make_run("weak")
    run.start(isolation="bubblewrap")
    run.cycle(0)
    for command in (("envs", "list"), ("episodes", "list", "--json"), ("report",)):
        assert "Warning: weaker isolation: bubblewrap" in spade(*command).stderr


def test_a_regret_that_was_not_measured_is_a_dash() -> None:
    measured = Statistics("a", 4, 4, 0.5, 0.8, 0.3, 0.1, 0.5, 0, False, "", True)
    assert regret_text(measured) == "+0.300 ± 0.100"
    assert regret_text(replace(measured, hinted_plays=0, regret=0.0)) == "–"
    assert regret_text(None) == "–"
