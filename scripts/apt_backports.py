"""Derive the entry of Debian's backports from the sources that a machine already has.

The machine knows where it gets its packages from (a mirror, a proxy, a key): an entry that is copied from its own and
differs in the suite alone works wherever the machine does, and no host is written down here.

    python scripts/apt_backports.py CODENAME FOLDER     print "NAME\\nENTRY" for the first fitting source below FOLDER

``FOLDER`` is laid out as ``/etc/apt`` is. Exit status 1: no source offers the release.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ONE_LINE = re.compile(r"^(deb(?:\s+\[[^\]]*\])?\s+\S+)\s+(\S+)\s+(\S.*)$")


def from_one_line(text: str, codename: str) -> str | None:
    """Return the backports entry for a ``.list`` file, or None if it does not offer the release's main archive."""
    for line in text.splitlines():
        found = ONE_LINE.match(line.split("#", 1)[0].strip())
        if found and found[2] == codename and "main" in found[3].split():
            return f"{found[1]} {codename}-backports main\n"
    return None


def _fields(stanza: str) -> dict[str, str]:
    """Return a deb822 stanza's fields, names in lower case, continuation lines kept as they are."""
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and name:
            fields[name] += "\n" + line
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def from_deb822(text: str, codename: str) -> str | None:
    """Return the backports stanza for a ``.sources`` file, or None if it does not offer the release's main archive."""
    for stanza in re.split(r"\n\s*\n", text):
        fields = _fields(stanza)
        offers = (
            "deb" in fields.get("types", "").split()
            and codename in fields.get("suites", "").split()
            and "main" in fields.get("components", "").split()
            and fields.get("enabled", "yes").lower() not in ("no", "false", "0")
        )
        if offers:
            fields |= {"types": "deb", "suites": f"{codename}-backports", "components": "main"}
            return "".join(f"{name.title()}: {value}\n" for name, value in fields.items())
    return None


def backports_entry(folder: Path, codename: str) -> tuple[str, str] | None:
    """Return the file name and the text of a backports entry derived from the sources below ``folder``."""
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        entry = from_deb822(path.read_text(), codename)
        if entry:
            return "spade-backports.sources", entry
    for path in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]:
        entry = from_one_line(path.read_text(), codename) if path.is_file() else None
        if entry:
            return "spade-backports.list", entry
    return None


def main() -> int:
    """Print the entry of the release and folder that were named."""
    found = backports_entry(Path(sys.argv[2]), sys.argv[1])
    if found is None:
        return 1
    print(f"{found[0]}\n{found[1]}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
