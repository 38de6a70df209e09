from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_rl.errors import ConfigurationError
from spade_rl.report.events import RunState, read_log


def _write(folder: Path, *events: dict[str, object], tail: str = "") -> None:
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + tail)


START = {"event": "run_started", "time": 100.0, "run_id": "r", "isolation": "gvisor"}


def _cycle(number: int, time: float, **fields: object) -> dict[str, object]:
    return {"event": "cycle", "time": time, "cycle": number, "policy_version": number + 1, **fields}


def test_a_killed_run_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    _write(tmp_path, START, _cycle(0, 110.0), tail='{"event": "cycle", "ti')
    log = read_log(tmp_path)
    assert [cycle.cycle for cycle in log.cycles] == [0]
    assert log.state is RunState.UNFINISHED


def test_a_cycle_played_again_counts_once(tmp_path: Path) -> None:
    resumed = {"event": "resumed", "time": 1000.0, "cycle": 1}
    _write(tmp_path, START, _cycle(0, 110.0), _cycle(1, 120.0, episodes=1), resumed, _cycle(1, 1010.0, episodes=2))
    log = read_log(tmp_path)
    assert [(cycle.cycle, cycle.episodes) for cycle in log.cycles] == [(0, 0), (1, 2)]
    assert log.resumes == 1
    assert log.active_seconds == 30.0
    assert log.policy_version == 2


def test_the_version_of_the_last_flush_counts(tmp_path: Path) -> None:
    finished = {"event": "run_finished", "time": 120.0, "summary": {"policy_version": 2}}
    _write(tmp_path, START, _cycle(0, 110.0), finished)
    assert read_log(tmp_path).policy_version == 2


def test_the_last_ending_holds(tmp_path: Path) -> None:
    failed = {"event": "run_failed", "time": 101.0, "error": "engine: out of memory"}
    _write(tmp_path, START, failed)
    assert (read_log(tmp_path).state, read_log(tmp_path).error) == (RunState.FAILED, "engine: out of memory")
    _write(
        tmp_path,
        START,
        failed,
        {"event": "resumed", "time": 200.0},
        {"event": "run_finished", "time": 201.0, "summary": {"cycles": 1}},
    )
    log = read_log(tmp_path)
    assert (log.state, log.error, log.summary) == (RunState.FINISHED, "", {"cycles": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json\n", "line 1 .* is not JSON"),
        ("[1]\n", "is not an event"),
        ('{"event": "cycle", "time": 1, "cycle": 0}\n', "does not say that a run began"),
        (
            '{"event": "run_started", "time": 1, "run_id": "r"}\n{"event": "cycle", "time": 1, "cycle": "x"}\n',
            "cannot read.*cycle",
        ),
    ],
)
def test_a_foreign_log_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "events.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match=f"(?s){message}"):
        read_log(tmp_path)


def test_a_missing_log_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="folder of a run"):
        read_log(tmp_path)
