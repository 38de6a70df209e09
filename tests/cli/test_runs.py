from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spade_rl.cli.runs import age, find_run
from spade_rl.errors import ConfigurationError


@pytest.fixture
def three_runs(make_run: Callable[..., Any]) -> list[Path]:
    import os

    folders = []
    for moment, name in enumerate(("alpha-1", "alpha-2", "beta")):
        run = make_run(name)
        run.start()
        os.utime(run.run_dir / "events.jsonl", (1e9 + moment, 1e9 + moment))
        folders.append(run.run_dir)
    return folders


def test_runs_are_found_by_name_beginning_path_or_age(three_runs: list[Path]) -> None:
    runs_dir = three_runs[0].parent
    assert find_run(runs_dir, "alpha-1") == three_runs[0]
    assert find_run(runs_dir, "be") == three_runs[2]
    assert find_run(Path("/nowhere"), str(three_runs[1])) == three_runs[1]
    assert find_run(runs_dir, None) == three_runs[2]


def test_a_whole_name_wins_over_a_beginning(make_run: Callable[..., Any]) -> None:
    shorter, longer = make_run("a"), make_run("ab")
    assert find_run(longer.run_dir.parent, "a") == shorter.run_dir


@pytest.mark.parametrize(
    ("name", "message"), [("alpha", "could be alpha-1, alpha-2"), ("gamma", "no run 'gamma'.*there are")]
)
def test_what_means_none_or_several_is_refused(three_runs: list[Path], name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        find_run(three_runs[0].parent, name)


def test_no_runs_yet(spade: Callable[..., Any], as_json: Callable[[str], Any]) -> None:
    result = spade("runs")
    assert result.exit_code == 0
    assert "spade train --preset quickstart" in result.stdout
    assert as_json(spade("runs", "--json").stdout) == {"runs": [], "unreadable": {}}
    for command in (("report",), ("envs", "list"), ("episodes", "list")):
        failed = spade(*command)
        assert failed.exit_code == 2
        assert "there is no run in runs yet" in failed.stderr


def test_the_list_of_runs(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any, make_run: Callable[..., Any]
) -> None:
    make_run("fresh")
    weaker = make_run("weaker")
    weaker.start(isolation="process")
    text = spade("runs")
    assert text.exit_code == 0
    assert "Warning: weaker isolation: process" in text.stderr
    rows = {row["run_id"]: row for row in as_json(spade("runs", "--json").stdout)["runs"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "demo": "finished",
        "fresh": "not started",
        "weaker": "unfinished",
    }
    demo = rows["demo"]
    assert (demo["cycles"], demo["policy_version"], demo["held_out_before"], demo["held_out_after"]) == (
        4,
        4,
        0.2,
        0.45,
    )
    assert demo["isolation"] == "gvisor"
    assert demo["age_seconds"] >= 0


def test_a_run_whose_folder_is_held_is_running(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    with (finished_run.run_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert as_json(spade("runs", "--json").stdout)["runs"][0]["state"] == "running"
        refused = spade("resume")
    assert refused.exit_code == 2
    assert "another process" in refused.stderr
    assert as_json(spade("runs", "--json").stdout)["runs"][0]["state"] == "finished"


def test_an_unreadable_run_does_not_hide_the_others(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any, make_run: Callable[..., Any]
) -> None:
    broken = make_run("broken")
    (broken.run_dir / "events.jsonl").write_text("no json\n")
    (make_run("foreign").run_dir / "manifest.json").write_text('{"format": 99, "run_id": "foreign"}')
    found = as_json(spade("runs", "--json").stdout)
    assert [row["run_id"] for row in found["runs"]] == ["demo"]
    assert len(found["unreadable"]) == 2
    text = spade("runs")
    assert "demo" in text.stdout
    assert "another version of Spade" in text.stderr
    assert spade("report", "foreign").exit_code == 2


def test_the_runs_folder_may_come_from_the_environment(process: Callable[..., Any], finished_run: Any) -> None:
    done = process("runs", SPADE_RUNS_DIR=str(finished_run.run_dir.parent))
    assert "demo" in done.stdout


def test_the_report_command_prints_where_the_page_is(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    printed = as_json(spade("report", "--json").stdout)
    assert Path(printed["report"]).name == "report.html"
    assert (finished_run.run_dir / "report.html").exists()
    assert spade("report", "de").stdout == "runs/demo/report.html\n"


def test_ages_have_one_unit() -> None:
    assert [age(seconds) for seconds in (5, 90, 7200, 200_000)] == ["5 s", "2 min", "2 h", "2 d"]
