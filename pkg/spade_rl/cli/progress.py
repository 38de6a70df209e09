"""Live progress of a run on standard error: a panel that changes on a terminal, one line a cycle elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from spade_rl.cli.output import err, percent, shown
from spade_rl.cli.view import RunView, event_line, figures_line
from spade_rl.telemetry import configure_logging

Listener = Callable[[dict[str, Any]], None]
BAR_WIDTH = 40
REFRESH = 4


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, or hours and minutes."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60}:{whole % 60:02d}"


def panel(view: RunView) -> RenderableType:
    """Return what a terminal shows of a run."""
    rows = Table.grid(padding=(0, 1))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    finished = min(view.finished_cycles, view.cycles)
    if view.minutes is None:
        share = finished / view.cycles
    else:
        share = max(view.elapsed / (60 * view.minutes), finished / view.cycles)
    left = view.seconds_left
    remaining = "" if left is None else f", about {clock(left)} left"
    rows.add_row(
        "run", ProgressBar(total=1.0, completed=min(share, 1.0), width=BAR_WIDTH), f"{clock(view.elapsed)}{remaining}"
    )
    if view.stage is not None:
        bar = ProgressBar(total=max(view.stage.total, 1), completed=view.stage.done, width=BAR_WIDTH)
        rows.add_row(view.stage.name, bar, f"{view.stage.done}/{view.stage.total}")
    else:
        rows.add_row("…", ProgressBar(total=1.0, completed=0.0, width=BAR_WIDTH), "")
    parts: list[RenderableType] = [rows]
    if view.figures:
        parts.append(Text(f"version {view.figures.get('policy_version', 0)}: {figures_line(view.figures)}"))
    if view.held_out:
        parts.append(Text("held-out " + " → ".join(percent(view.held_out.get(when)) for when in ("before", "after"))))
    if view.isolation not in ("", "gvisor"):
        parts.append(Text(f"Weaker isolation: {view.isolation}", style="bold yellow"))
    cycle = f"cycle {view.cycle}" if view.cycle is not None else "starting"
    return Panel(
        Group(*parts),
        title=shown(f"{view.run_id or 'spade'} · {cycle}"),
        title_align="left",
        subtitle="Ctrl-C: checkpoint and stop",
    )


class LiveProgress:
    """A listener that keeps a panel up to date."""

    def __init__(self, view: RunView, console: Console) -> None:
        self._view = view
        self.live = Live(console=console, refresh_per_second=REFRESH, get_renderable=self._render, transient=True)

    def __call__(self, event: dict[str, Any]) -> None:
        """Take an event; the panel changes at its next refresh."""
        self._view = self._view.after(event)

    def _render(self) -> RenderableType:
        view = self._view
        # The clock goes on between events.
        return panel(view if view.begun is None else view.after({"time": time.time()}))


class PlainProgress:
    """A listener that prints one line for every event worth one."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: dict[str, Any]) -> None:
        """Print the event's line, if it has one."""
        line = event_line(event)
        if line is not None:
            moment = time.strftime("%H:%M:%S", time.localtime(event.get("time")))
            self._console.print(shown(f"{moment} {line}"), soft_wrap=True)


@contextmanager
def progress(view: RunView, log_level: str) -> Iterator[Listener]:
    """Show a run while the block runs; logs of ``log_level`` and above appear above the panel."""
    console = err()
    if not sys.stderr.isatty():
        configure_logging(log_level)
        yield PlainProgress(console)
        return
    shown_live = LiveProgress(view, console)
    with shown_live.live:
        # Inside the block standard error is the panel's own, which keeps logs from tearing it.
        configure_logging(log_level)
        yield shown_live
