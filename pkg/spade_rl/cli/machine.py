"""What ``spade doctor`` looks at, and what it makes of it.

``examine`` reads the machine; ``checks`` is a pure function of what was read, so that every advice can be tested.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from spade_rl.config import SandboxSection
from spade_rl.errors import SpadeError
from spade_rl.health import Check, Health

# Distribution and extra by import name: what a run on one machine imports.
NEEDED = {
    "grpc": ("grpcio", ""),
    "protovalidate": ("protovalidate", ""),
    "torch": ("torch", "model"),
    "transformers": ("transformers", "model"),
    "safetensors": ("safetensors", "model"),
    "datasets": ("datasets", "grounding"),
    "pyarrow": ("pyarrow", "grounding"),
    "sqlalchemy": ("SQLAlchemy", "memory"),
    "alembic": ("alembic", "memory"),
    "jinja2": ("jinja2", "model"),
}
OPTIONAL = {"deepspeed": ("deepspeed", "deepspeed"), "psycopg": ("psycopg", "postgresql")}
LEAST_PYTHON = (3, 11)
LEAST_MEMORY_GB, GOOD_MEMORY_GB = 2.0, 4.0
LEAST_DISK_GB, GOOD_DISK_GB = 0.5, 3.0
GOOD_CORES = 2
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class Gvisor:
    """What was found of gVisor.

    ``platforms`` holds why each one does not work, "" where it does; ``limits``, what is wrong with each limit that was
    exceeded in it, "" where it held.
    """

    path: str | None
    version: str = ""
    platforms: dict[str, str] = field(default_factory=dict)
    rootless: bool = False
    bubblewrap: str | None = None
    advice: tuple[str, ...] = ()
    limits: dict[str, str] = field(default_factory=dict)

    @property
    def working(self) -> list[str]:
        """The platforms that start a container."""
        return [name for name, problem in self.platforms.items() if not problem]


@dataclass(frozen=True, slots=True)
class Machine:
    """What was read off the machine."""

    python: tuple[int, int, int]
    packages: dict[str, str | None]
    gvisor: Gvisor
    cores: int
    memory_gb: float
    disk_gb: float
    disk_path: str
    model_folder: str
    missing_model_files: tuple[str, ...]


def _installed(distribution: str, module: str) -> str | None:
    # Without importing: torch alone takes seconds.
    if importlib.util.find_spec(module) is None:
        return None
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "installed"


def _memory_gb() -> float:
    """Return the memory that this process may use: the machine's, or its control group's where that is less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    return min(whole, int(limit) / 2**30) if limit.isdigit() else whole


def _gvisor() -> Gvisor:
    from spade_rl.sandbox.runtime import describe_runtime

    found = describe_runtime()
    return Gvisor(
        found.runsc,
        found.runsc_version,
        dict(found.platforms),
        found.rootless,
        found.bubblewrap,
        found.advice,
        _limits() if found.usable else {},
    )


def _limits() -> dict[str, str]:
    """Return what is wrong with each limit of a default run's sandbox; "" where it holds."""
    from spade_rl.sandbox.opening import limits_here

    try:
        return {check.name: check.message for check in asyncio.run(limits_here(SandboxSection()))}
    except SpadeError as error:
        return {"self-test": str(error)}


def examine(runs_dir: Path) -> Machine:
    """Read the machine; starts a container on every platform of gVisor, and exceeds the sandbox's limits on purpose."""
    from spade_rl.models import model_location

    folder = Path(model_location("nano"))
    existing = next(path for path in (runs_dir.absolute(), *runs_dir.absolute().parents) if path.exists())
    return Machine(
        python=sys.version_info[:3],
        packages={name: _installed(name, module) for module, (name, _) in {**NEEDED, **OPTIONAL}.items()},
        gvisor=_gvisor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=_memory_gb(),
        disk_gb=shutil.disk_usage(existing).free / 2**30,
        disk_path=str(existing),
        model_folder=str(folder),
        missing_model_files=tuple(name for name in MODEL_FILES if not (folder / name).is_file()),
    )


def checks(machine: Machine) -> list[Check]:
    """Return every finding in the order in which to mend them."""
    return [
        _python(machine),
        *_packages(machine),
        _isolation(machine.gvisor),
        *(
            Check("isolation", Health.WARNING, "remark", advice)
            for advice in machine.gvisor.advice
            if machine.gvisor.working
        ),
        *_sandbox_limits(machine.gvisor),
        _model(machine),
        _amount(
            "memory", machine.memory_gb, LEAST_MEMORY_GB, GOOD_MEMORY_GB, "stop other programs, or use a smaller model"
        ),
        _cores(machine.cores),
        _amount(
            f"free disk ({machine.disk_path})",
            machine.disk_gb,
            LEAST_DISK_GB,
            GOOD_DISK_GB,
            "make room, or set --runs-dir",
        ),
    ]


def _python(machine: Machine) -> Check:
    found = f"{'.'.join(map(str, machine.python))} on {platform.machine()}"
    if machine.python[:2] < LEAST_PYTHON:
        return Check("python", Health.BAD, found, "install Python 3.11 or newer")
    return Check("python", Health.GOOD, found)


def _packages(machine: Machine) -> list[Check]:
    found = []
    for name, extra in NEEDED.values():
        if machine.packages.get(name) is None:
            wanted = f"spade-rl[{extra}]" if extra else "spade-rl"
            found.append(Check(name, Health.BAD, "not installed", f"pip install '{wanted}'"))
        else:
            found.append(Check(name, Health.GOOD, str(machine.packages[name])))
    for name, extra in OPTIONAL.values():
        known = machine.packages.get(name)
        found.append(
            Check(name, Health.GOOD, known or f"not installed (only for some runs: pip install 'spade-rl[{extra}]')")
        )
    return found


def _isolation(gvisor: Gvisor) -> Check:
    if gvisor.working:
        mode = ", rootless" if gvisor.rootless else ""
        return Check("isolation", Health.GOOD, f"gvisor: runsc {gvisor.version}, platform {gvisor.working[0]}{mode}")
    weaker = "bubblewrap or process" if gvisor.bubblewrap else "process"
    advice = " ".join(gvisor.advice) or "install gVisor (`apt-get install runsc`)"
    if gvisor.path is None:
        found = "gvisor: runsc is not installed"
    else:
        reasons = "; ".join(f"{name}: {problem}" for name, problem in gvisor.platforms.items()) or "not tried"
        found = f"gvisor: runsc {gvisor.version} starts no container ({reasons})"
    return Check(
        "isolation", Health.BAD, f"{found}; a default run refuses to start, {weaker} can be asked for by name", advice
    )


def _sandbox_limits(gvisor: Gvisor) -> list[Check]:
    if not gvisor.limits:
        return []
    broken = "; ".join(f"{name}: {problem}" for name, problem in gvisor.limits.items() if problem)
    if broken:
        advice = (
            "a sandbox that does not hold its limits does not serve: install a current gVisor, and see docs/sandbox.md"
        )
        return [Check("sandbox limits", Health.BAD, f"do not hold: {broken}", advice)]
    return [Check("sandbox limits", Health.GOOD, f"hold when exceeded: {', '.join(gvisor.limits)}")]


def _model(machine: Machine) -> Check:
    if machine.missing_model_files:
        missing = ", ".join(machine.missing_model_files)
        return Check(
            "nano model",
            Health.BAD,
            f"{machine.model_folder} lacks {missing}",
            "install spade-rl again, or build one: `spade nano build --out FOLDER`, and set model.name to it",
        )
    return Check("nano model", Health.GOOD, machine.model_folder)


def _cores(cores: int) -> Check:
    if cores < GOOD_CORES:
        return Check(
            "cores", Health.WARNING, str(cores), "the quickstart is made for two cores and will do less on one"
        )
    return Check("cores", Health.GOOD, str(cores))


def _amount(name: str, value: float, least: float, good: float, advice: str) -> Check:
    health = Health.BAD if value < least else Health.WARNING if value < good else Health.GOOD
    return Check(
        name, health, f"{value:.1f} GiB", "" if health is Health.GOOD else f"{good:.0f} GiB are comfortable; {advice}"
    )


def run_isolation(gvisor: Gvisor) -> str:
    """Return the isolation level that a run gets without asking for a weaker one; "none" if it would not start."""
    return "gvisor" if gvisor.working else "none"
