"""What the report takes from the archive of a run."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from spade_rl.config_files import archive_url, load_config
from spade_rl.manifest import CONFIG
from spade_rl.memory.archive import Archive
from spade_rl.report.choice import Pair, paired_plays, sampled_cycles
from spade_rl.report.page import Gallery

PAIRS_PER_CYCLE = 5


def open_archive(run_dir: Path) -> Archive:
    """Open a run's archive to read it, wherever its configuration says that it is."""
    url = archive_url(load_config(file=run_dir / CONFIG).memory)
    return Archive.open(run_dir, url=url, read_only=True)


def collect(archive: Archive, run_id: str) -> Gallery:
    """Return all environments and attempts of a run, and sample plays of its first and last paired cycle."""
    headers = archive.trajectory_headers(run_id)
    samples = []
    for cycle in sampled_cycles(headers):
        chosen = paired_plays((head for head in headers if head.cycle == cycle), PAIRS_PER_CYCLE)
        whole = {
            head.id: trajectory
            for head in chain.from_iterable(arms.values() for arms in chosen)
            for page in archive.trajectories(run_id, trajectory_id=head.id, tokens=False)
            for trajectory in page
        }
        pairs = [
            Pair(*(whole[arms[arm].id] if arm in arms else None for arm in ("plain", "hinted"))) for arms in chosen
        ]
        samples.append((cycle, pairs))
    return Gallery(
        environments=archive.environments(run_id),
        attempts=list(chain.from_iterable(archive.attempts(run_id))),
        samples=samples,
    )
