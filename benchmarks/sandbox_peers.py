"""The virtual environment of the peers that are Python packages: made when it is not there, and reused.

Each package of ``sandbox_peers.txt`` is installed on its own, so that one that cannot be had does not take the others
with it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("sandbox_peers.txt")
VENV_SECONDS = 60.0
# openenv-core brings about ninety packages along.
INSTALL_SECONDS = 600.0
# What installs in seconds, and so may be installed by a quick run too.
LIGHT = ("gvisor",)


def requirement(package: str) -> str:
    """Return the line of the requirements that names a package."""
    for line in REQUIREMENTS.read_text().splitlines():
        if line.startswith(package):
            return line
    raise KeyError(package)


def interpreter(folder: Path) -> Path:
    """Return where the peers' interpreter lies."""
    return folder / "bin" / "python"


def ensure(folder: Path, package: str, module: str, *, install: bool) -> str:
    """Make sure that a peer can be imported; return "" or why it cannot."""
    python = interpreter(folder)
    if not python.exists():
        if not install:
            return f"{package} is not installed in {folder}; a run without --quick installs it"
        problem = _run([sys.executable, "-m", "venv", str(folder)], VENV_SECONDS)
        if problem:
            return f"no virtual environment could be made in {folder}: {problem}"
    if not _run([str(python), "-c", f"import importlib.util as u; assert u.find_spec({module!r})"], VENV_SECONDS):
        return ""
    if not install:
        return f"{package} is not installed in {folder}; a run without --quick installs it"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement(package)]
    problem = _run(command, INSTALL_SECONDS)
    return f"pip could not install {package}: {problem}" if problem else ""


def _run(command: list[str], seconds: float) -> str:
    """Run a command; return "" or the last line that it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"not done within {seconds:.0f} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:300]
