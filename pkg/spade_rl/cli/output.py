"""What a command prints: text for people, one JSON object for programs, and one message for a failure.

Results go to standard output, everything else to standard error. With ``--json`` the last line of standard output is
one JSON object, whatever came before it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ParamSpec, TextIO, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spade_rl.errors import SpadeError
from spade_rl.report.text import visible

P = ParamSpec("P")
R = TypeVar("R")

DEBUG_VARIABLE = "SPADE_DEBUG"
INTERRUPTED = 130

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


# Where no terminal says how wide it is: wide enough for every table.
PIPE_WIDTH = 160


def _console(stream: TextIO, *, stderr: bool) -> Console:
    if stream.isatty() or "COLUMNS" in os.environ:
        return Console(stderr=stderr, highlight=False)
    return Console(stderr=stderr, highlight=False, soft_wrap=True, width=PIPE_WIDTH)


def out() -> Console:
    """Return the console of results."""
    return _console(sys.stdout, stderr=False)


def err() -> Console:
    """Return the console of everything else."""
    return _console(sys.stderr, stderr=True)


def emit(value: dict[str, Any]) -> None:
    """Print one JSON object on one line."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()


def shown(text: object, style: str = "") -> Text:
    """Return text that may be untrusted, so that it neither acts on the terminal nor is read as markup."""
    return Text(visible(str(text)), style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """Return a plain table; the columns named in ``right`` are aligned there."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else shown(cell) for cell in row))
    return made


def warn(message: str) -> None:
    """Print a warning to standard error."""
    err().print(Text("Warning: ", style="bold yellow") + shown(message))


def warn_isolation(level: str) -> None:
    """Warn if generated code ran, or would run, under less than gVisor."""
    if level != "gvisor":
        warn(f"weaker isolation: {level}. Generated code is not kept apart from this machine as it is under gVisor.")


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share in percent, or a dash."""
    return "–" if value is None else f"{value:.{digits}%}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"


def debugging() -> bool:
    """Whether failures show their traceback."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def fail(message: str, exit_code: int) -> typer.Exit:
    """Print a failure and return what ends the command."""
    if debugging() and sys.exc_info()[0] is not None:
        err().print(shown(traceback.format_exc()))
    err().print(Text("Error: ", style="bold red") + shown(message))
    return typer.Exit(exit_code)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Return a command whose failures end it with one message and the right exit code.

    A SpadeError says itself what to do and has its code; anything unexpected is ours and ends with 1; an
    interruption that left nothing to save ends with 130.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except SpadeError as error:
            raise fail(str(error), error.exit_code) from error
        except (KeyboardInterrupt, CancelledError) as error:
            raise fail("interrupted", INTERRUPTED) from error
        except Exception as error:
            raise fail(
                f"unexpected {type(error).__name__}: {error}. This is a defect of Spade; set {DEBUG_VARIABLE}=1 or "
                "give --debug to see where it happened",
                1,
            ) from error

    return run
