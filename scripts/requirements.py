"""Print what the project and some of its extras need, one requirement a line, without the project itself.

    python scripts/requirements.py dev

The set-up installs these before the project, so that a changed source never touches the packages below it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(project: dict[str, object], extra: str) -> list[str]:
    """Return the project's dependencies and those of ``extra``; extras that name the project's own are unfolded."""
    name = str(project["name"])
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    found: list[str] = list(project["dependencies"])  # type: ignore[call-overload]
    for requirement in extras[extra]:
        own = re.fullmatch(rf"{re.escape(name)}\[([\w,\s-]+)\]", requirement.strip())
        if own is None:
            found.append(requirement)
            continue
        for other in own[1].split(","):
            found += requirements(project, other.strip())
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    found = [one for extra in sys.argv[1:] for one in requirements(project, extra)] or project["dependencies"]
    print("\n".join(dict.fromkeys(found)))
