"""Files that are written from code: written, or with ``--check`` compared with what the code says."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path


def settle(wanted: Mapping[Path, str], present: Collection[Path] | None = None) -> int:
    """Write the files ``wanted``, or compare them; return the exit status.

    ``present``: all files that there are, where those not wanted are to go; by default those wanted.
    """
    there = {path: path.read_text() for path in (wanted if present is None else present) if path.exists()}
    if "--check" in sys.argv[1:]:
        wrong = sorted(path.name for path in wanted.keys() | there.keys() if there.get(path) != wanted.get(path))
        if wrong:
            print(f"not what the code says: {', '.join(wrong)}; run `make docs`", file=sys.stderr)
        return int(bool(wrong))
    for path in there.keys() - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0
