"""The report of a run: one self-contained HTML page, made of the run's event log and archive."""

from __future__ import annotations

from pathlib import Path


def write_report(run_dir: Path) -> Path:
    """Write the report of the run in ``run_dir`` and return its path; an earlier one is replaced.

    Raises SpadeError if the run's folder cannot be read or the page cannot be written.
    """
    # Imported here: the command line reads events and texts of this package without a database and templates.
    from spade_rl.report.events import read_log
    from spade_rl.report.gallery import collect, open_archive
    from spade_rl.report.page import Gallery, render, write_page

    log = read_log(run_dir)
    if not log.cycles:
        return write_page(run_dir, render(log, Gallery()))
    with open_archive(run_dir) as archive:
        return write_page(run_dir, render(log, collect(archive, log.started.run_id)))
