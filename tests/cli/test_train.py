from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spade_rl import local
from spade_rl.cli.train import new_run_dir, split_items
from spade_rl.config_files import load_config
from spade_rl.errors import ConfigurationError, EngineError

SUMMARY = {
    "run_id": "x", "cycles": 4, "policy_version": 4, "valid_share": 0.9, "regret": {"mean": 0.1, "se": 0.02},
    "difficulty": {"start": 3.0, "end": 6.0}, "isolation": "gvisor", "minutes": 1.5,
    "held_out_before": {"mean": 0.2, "ci95": [0.17, 0.23], "families": {"count": {"mean": 0.2, "ci95": [0.1, 0.3], "n": 9}}},
    "held_out_after": {"mean": 0.45, "ci95": [0.42, 0.48], "families": {"count": {"mean": 0.5, "ci95": [0.4, 0.6], "n": 9}}},
}  # fmt: skip


def test_a_dry_run_prints_what_was_resolved_and_starts_nothing(
    spade: Callable[..., Any], as_json: Callable[[str], Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text("run: {cycles: 7}\nlearner: {kl: 0.5}\n")
    arguments = (
        "train",
        "mine.yaml",
        "run.minutes=3",
        "--preset",
        "quickstart",
        "--set",
        "learner.kl=0.25",
        "--seed",
        "9",
        "--dry-run",
    )
    text = spade(*arguments)
    assert text.exit_code == 0, text.output
    (tmp_path / "printed.yaml").write_text(text.stdout)
    config = load_config(file=tmp_path / "printed.yaml")
    assert (config.run.cycles, config.run.minutes, config.run.seed, config.learner.kl) == (7, 3.0, 9, 0.25)
    assert config.regret.plays == load_config(preset="quickstart").regret.plays
    printed = as_json(spade(*arguments, "--json").stdout)
    assert printed["config"] == config.model_dump(mode="json")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a configuration file, or --preset"),
        (("--preset", "nonsense"), "there is no preset 'nonsense'; there are"),
        (("--preset", "quickstart", "--set", "learner.speed=3"), "learner.speed"),
        (("--preset", "quickstart", "learner.steps=0"), "learner.steps"),
        (("--preset", "quickstart", "--set", "learner"), "an override looks like"),
        (("missing.yaml",), "cannot read the configuration missing.yaml"),
        (("a.yaml", "b.yaml"), "give one configuration file"),
        (("--preset", "quickstart", "--name", "../up"), "cannot name a run"),
        (("--preset", "quickstart", "--log-level", "LOUD"), "no log level 'LOUD'"),
    ],
)
def test_a_wrong_configuration_ends_with_2_and_one_message(
    spade: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = spade("train", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["run: [", "- a\n- b\n", "run:\n  cycles: many\n", "\x00"])
def test_an_unreadable_file_ends_with_2(spade: Callable[..., Any], tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    done = spade("train", "bad.yaml", "--dry-run")
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")


def test_a_weaker_isolation_is_a_warning_in_every_output(spade: Callable[..., Any]) -> None:
    arguments = ("train", "--preset", "quickstart", "sandbox.isolation=process", "--dry-run")
    for more in ((), ("--json",)):
        assert "Warning: weaker isolation: process" in spade(*arguments, *more).stderr
    assert "isolation" not in spade("train", "--preset", "quickstart", "--dry-run").stderr


def test_a_taken_name_is_refused(spade: Callable[..., Any], finished_run: Any) -> None:
    result = spade("train", "--preset", "quickstart", "--name", "demo")
    assert result.exit_code == 2
    assert "spade resume demo" in result.stderr


def test_names_of_runs_are_free_and_safe(tmp_path: Path) -> None:
    first = new_run_dir(tmp_path, None, "my preset/é", 0.0)
    assert first.name.endswith("-my-preset")
    first.mkdir()
    assert new_run_dir(tmp_path, None, "my preset/é", 0.0).name == f"{first.name}-2"
    with pytest.raises(ConfigurationError):
        new_run_dir(tmp_path, ".hidden", "x", 0.0)


def test_arguments_with_an_equals_sign_are_overrides() -> None:
    assert split_items(["run.cycles=3", "a.yaml"]) == (Path("a.yaml"), ["run.cycles=3"])
    assert split_items([]) == (None, [])


@pytest.fixture
def ended_run(monkeypatch: pytest.MonkeyPatch, make_run: Callable[..., Any]) -> dict[str, Any]:
    """Let ``local.train`` end at once: what a run does is tested with runs, here it is what the command makes of the end."""
    told: dict[str, Any] = {"summary": dict(SUMMARY)}

    def train(config: Any, *, run_dir: Path, listener: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        run = make_run(run_dir.name, config=config) if not (run_dir / "manifest.json").exists() else None
        if run is not None:
            run.start()
            run.cycle(0)
            for event in run.events:
                listener(event)
        if "blocked" in told:
            (run_dir / "report.html").mkdir()
        if "error" in told:
            raise told["error"]
        return dict(told["summary"])

    monkeypatch.setattr(local, "train", train)
    return told


def test_the_last_line_of_a_run_is_one_json_object(
    spade: Callable[..., Any], as_json: Callable[[str], Any], ended_run: dict[str, Any], tmp_path: Path
) -> None:
    result = spade("train", "--preset", "quickstart", "--name", "one", "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    summary = as_json(result.stdout)
    assert set(summary) >= set(SUMMARY) | {"run_dir", "report"}
    assert summary["run_id"] == "one"
    assert (tmp_path / summary["report"]).read_text().startswith("<!doctype html>")
    assert "cycle 0, version 1: valid 75%, regret +0.100 ± 0.020" in result.stderr


def test_a_run_ends_with_its_figures_and_the_way_to_its_report(
    spade: Callable[..., Any], ended_run: dict[str, Any]
) -> None:
    result = spade("train", "--preset", "quickstart", "--name", "one")
    assert "20.0% (17.0% to 23.0%)" in result.stdout
    assert "45.0% (42.0% to 48.0%)" in result.stdout
    assert "difficulty 3.00 → 6.00" in result.stdout
    assert result.stdout.endswith("Report: runs/one/report.html\n")


def test_no_report_is_written_when_none_is_wanted(
    spade: Callable[..., Any], as_json: Callable[[str], Any], ended_run: dict[str, Any], tmp_path: Path
) -> None:
    assert as_json(spade("train", "-p", "quickstart", "-n", "one", "--no-report", "--json").stdout)["report"] is None
    assert not (tmp_path / "runs/one/report.html").exists()


def test_a_report_that_cannot_be_written_does_not_lose_the_summary(
    spade: Callable[..., Any], as_json: Callable[[str], Any], ended_run: dict[str, Any]
) -> None:
    ended_run["blocked"] = True
    result = spade("train", "-p", "quickstart", "-n", "one", "--json")
    assert result.exit_code == 2
    assert as_json(result.stdout)["report"] is None
    assert "cannot write the report runs/one/report.html: Is a directory" in result.stderr


def test_a_failed_run_says_how_to_go_on(spade: Callable[..., Any], ended_run: dict[str, Any]) -> None:
    ended_run["error"] = EngineError("the engine gave up")
    result = spade("train", "-p", "quickstart", "-n", "one", "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "spade resume one" in result.stderr
    assert "Error: the engine gave up" in result.stderr


def test_a_stopped_run_is_no_failure(spade: Callable[..., Any], ended_run: dict[str, Any]) -> None:
    ended_run["summary"] |= {"stopped": True, "held_out_after": None}
    result = spade("train", "-p", "quickstart", "-n", "one")
    assert result.exit_code == 0
    assert "spade resume one" in result.stdout


def test_resume_goes_on_with_the_newest_run(
    spade: Callable[..., Any], as_json: Callable[[str], Any], ended_run: dict[str, Any], make_run: Callable[..., Any]
) -> None:
    run = make_run("stopped")
    run.start()
    run.event("run_stopped", summary={})
    result = spade("resume", "--json")
    assert result.exit_code == 0, result.output
    assert as_json(result.stdout)["run_id"] == "stopped"


def test_resume_of_a_finished_run_tells_its_end_again(
    spade: Callable[..., Any], as_json: Callable[[str], Any], finished_run: Any
) -> None:
    result = spade("resume", "--json")
    assert result.exit_code == 0, result.output
    assert "has finished" in result.stderr
    summary = as_json(result.stdout)
    assert (summary["run_id"], summary["cycles"], summary["held_out_after"]["mean"]) == ("demo", 4, 0.45)
    assert (finished_run.run_dir / "report.html").exists()


def test_a_run_that_was_cut_off_ends_with_130_and_says_how_to_go_on(
    spade: Callable[..., Any], ended_run: dict[str, Any]
) -> None:
    ended_run["error"] = CancelledError()
    result = spade("train", "-p", "quickstart", "-n", "one", "--json")
    assert result.exit_code == 130
    assert "spade resume one" in result.stderr


def test_resume_without_a_run_says_how_to_start_one(process: Callable[..., Any]) -> None:
    done = process("resume")
    assert done.returncode == 2
    assert "there is no run in runs yet; start one with `spade train --preset quickstart`" in done.stderr


def test_presets_are_listed(spade: Callable[..., Any], as_json: Callable[[str], Any]) -> None:
    assert "quickstart" in spade("presets").stdout
    assert as_json(spade("presets", "--json").stdout)["presets"]["quickstart"]["model"]["name"] == "nano"
