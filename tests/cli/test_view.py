from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from spade_rl.cli.progress import LiveProgress, PlainProgress, clock, panel
from spade_rl.cli.view import RunView, Stage, event_line

CYCLE: dict[str, Any] = {
    "event": "cycle", "cycle": 0, "policy_version": 1, "valid_share": 0.9, "regret": {"mean": 0.1, "se": 0.02}, "plain_return": 0.3,
    "hinted_return": 0.4, "difficulty": 3.0, "learnable_share": 0.5, "seconds": {"design": 2.0, "play": 4.0},
}  # fmt: skip


def _view(*events: dict[str, Any], **options: Any) -> RunView:
    view = RunView(**{"cycles": 10, **options})
    for event in events:
        view = view.after(event)
    return view


def _started(time: float = 100.0) -> dict[str, Any]:
    return {"event": "run_started", "time": time, "run_id": "r", "isolation": "process", "model": "nano"}


def test_a_view_follows_the_events() -> None:
    view = _view(_started(), {"event": "progress", "time": 101.0, "cycle": 0, "stage": "play", "done": 3, "total": 20})
    assert (view.cycle, view.stage, view.finished_cycles) == (0, Stage("play", 3, 20), 0)
    view = view.after({**CYCLE, "time": 106.0})
    assert (view.finished_cycles, view.stage, view.elapsed) == (1, None, 6.0)
    view = view.after({"event": "evaluation", "time": 107.0, "when": "before", "mean": 0.2, "ci95": [0.1, 0.3]})
    assert view.held_out == {"before": 0.2}


def test_figures_that_a_cycle_did_not_measure_are_kept() -> None:
    view = _view(
        _started(),
        {**CYCLE, "time": 106.0},
        {**CYCLE, "cycle": 1, "time": 112.0, "valid_share": None, "regret": None, "plain_return": 0.5},
    )
    assert (view.figures["valid_share"], view.figures["plain_return"]) == (0.9, 0.5)


def test_time_left_is_the_nearer_of_deadline_and_pace() -> None:
    assert _view(_started()).seconds_left is None
    assert _view(_started(), minutes=2.0).seconds_left == 120.0
    assert _view(_started(), {**CYCLE, "time": 106.0}).seconds_left == 54.0
    assert _view(_started(), {**CYCLE, "time": 106.0}, minutes=0.5).seconds_left == 24.0
    assert _view(_started(), {"event": "other", "time": 500.0}, minutes=0.5).seconds_left == 0.0


def test_a_resumed_run_counts_what_it_spent_before() -> None:
    view = _view(
        {"event": "resumed", "time": 100.0, "cycle": 4, "policy_version": 4},
        {**CYCLE, "cycle": 4, "time": 106.0},
        spent=60.0,
    )
    assert (view.elapsed, view.finished_cycles) == (66.0, 5)


def test_every_event_worth_a_line_has_one() -> None:
    assert event_line({"event": "progress", "cycle": 0, "stage": "play", "done": 1, "total": 2}) is None
    assert event_line({"event": "checkpoint", "cycle": 1}) is None
    line = event_line(CYCLE)
    assert (
        line
        == "cycle 0, version 1: valid 90%, regret +0.100 ± 0.020, return 0.30 / 0.40 hinted, difficulty 3.00, learnable 50%, 6.0 s"
    )
    empty = event_line({"event": "cycle", "cycle": 3, "policy_version": 3})
    assert empty == "cycle 3, version 3: valid –, regret –, return – / – hinted, difficulty –, learnable –, 0.0 s"
    assert (
        event_line({"event": "evaluation", "when": "before", "mean": 0.2, "ci95": [0.1, 0.3]})
        == "held-out before: 20.0% (10.0% to 30.0%)"
    )


def _printed(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=160, force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_panel_says_how_it_goes() -> None:
    progress = {"event": "progress", "time": 107.0, "cycle": 1, "stage": "play", "done": 3, "total": 20}
    before = {"event": "evaluation", "time": 108.0, "when": "before", "mean": 0.2, "ci95": [0.1, 0.3]}
    text = _printed(panel(_view(_started(), before, {**CYCLE, "time": 106.0}, progress, minutes=2.0)))
    for part in (
        "r · cycle 1",
        "play",
        "3/20",
        "valid 90%",
        "regret +0.100",
        "held-out 20.0% → –",
        "Weaker isolation: process",
        "left",
        "Ctrl-C",
    ):
        assert part in text
    assert _printed(panel(RunView(cycles=1)))


def test_live_progress_renders_what_it_was_told() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    live = LiveProgress(RunView(cycles=10), console)
    with live.live:
        live({**_started(), "time": 1e9})
        live({**CYCLE, "time": 1e9 + 6})
        live.live.refresh()
    assert "version 1" in console.file.getvalue()  # type: ignore[attr-defined]


def test_plain_progress_prints_a_line_an_event() -> None:
    console = Console(file=io.StringIO(), width=40)
    plain = PlainProgress(console)
    for event in (_started(), {"event": "checkpoint"}, {**CYCLE, "time": 106.0}):
        plain(event)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 2
    assert lines[0].endswith("run r started: model nano, seed None, isolation process")


def test_clock() -> None:
    assert [clock(seconds) for seconds in (5, 65, 3600, 7260)] == ["0:05", "1:05", "1 h 00 min", "2 h 01 min"]
