"""``spade check-env``: every admission gate on a file of the user's own, by the same code that admits designs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade_rl.cli.output import JsonOption, emit, guarded, out, shown, table, warn_isolation
from spade_rl.cli.sandbox import IsolationOption, sandbox_config, served
from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError

if TYPE_CHECKING:
    from spade_rl.v1 import environment_pb2

STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}
MOST_BYTES = 262_144


def read_source(file: Path) -> str:
    """Return the source in a file; raises ConfigurationError if it is none that could be checked."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not UTF-8 text") from error
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    if not text.strip():
        raise ConfigurationError(f"{file} is empty")
    if len(text.encode()) > MOST_BYTES:
        raise ConfigurationError(
            f"{file} is larger than {MOST_BYTES // 1024} KiB, the most that an environment may have"
        )
    return text


async def _admit(config: RunConfig, source: str, seed: int) -> tuple[environment_pb2.AdmissionReport, str]:
    async with served(config) as sandbox:
        return await sandbox.admit(source, seed), await sandbox.isolation()


@guarded
def check_env(
    file: Annotated[Path, typer.Argument(help="A Python file that holds one environment class.")],
    isolation: IsolationOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seeds the instances that the gates try.")] = 0,
    json: JsonOption = False,
) -> None:
    """Check an environment; ends with 0 if it is admitted, with 1 if a gate refuses it, with 2 if it cannot be checked."""
    source = read_source(file)
    report, level = asyncio.run(_admit(sandbox_config(isolation), source, seed))
    from spade_rl.v1 import environment_pb2

    verdicts = [
        (one.gate, environment_pb2.Verdict.Name(one.verdict).removeprefix("VERDICT_").lower(), one.message)
        for one in report.verdicts
    ]
    failed = next(((gate, message) for gate, verdict, message in verdicts if verdict == "failed"), None)
    warn_isolation(level)
    if json:
        emit(
            {
                "admitted": report.admitted,
                "gate": failed[0] if failed else None,
                "message": failed[1] if failed else None,
                "digest": report.digest,
                "isolation": level,
                "seconds": report.seconds,
                "solution": list(report.solution),
                "gates": [
                    {"gate": gate, "verdict": verdict, "message": message} for gate, verdict, message in verdicts
                ],
            }
        )
    else:
        rows = [(gate, shown(verdict, STYLES.get(verdict, "")), message) for gate, verdict, message in verdicts]
        out().print(table(("GATE", "VERDICT", "MESSAGE"), rows))
        if failed:
            out().print(shown(f"Rejected by the gate {failed[0]}: {failed[1]}", "bold red"))
        else:
            out().print(shown(f"Admitted: {report.digest}", "bold green"))
    if not report.admitted:
        raise typer.Exit(1)
