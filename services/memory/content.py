"""The content of trajectories: tokens and turns, as Parquet files beside the database.

One file holds what one record brought. Its name depends on the run, the cycle and the identifiers in it, so writing the
same again replaces it by itself. A file is complete under its name or not there; only files that a row of the
database names count, so what a crash left between file and transaction is never read, and the same record or a
rollback clears it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from spade_rl.memory.records import Segment, Trajectory, TrajectoryHeader, Turn

_SEGMENT = pa.struct(
    [
        ("token_ids", pa.list_(pa.int32())),
        ("log_probs", pa.list_(pa.float32())),
        ("trained", pa.bool_()),
        ("policy_version", pa.int64()),
        ("sampled", pa.bool_()),
    ]
)
_TURN = pa.struct(
    [("observation", pa.string()), ("reply", pa.string()), ("action", pa.string()), ("reward", pa.float64())]
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("environment_digest", pa.string()),
        ("cycle", pa.int64()),
        ("arm", pa.string()),
        ("seed", pa.int64()),
        ("play", pa.int32()),
        ("episode_return", pa.float64()),
        ("stop_reason", pa.string()),
        ("turns", pa.list_(_TURN)),
        ("last_observation", pa.string()),
        ("sequences", pa.list_(pa.list_(_SEGMENT))),
    ]
)
ROWS_IN_A_GROUP = 256
_PART = re.compile(r"^c(\d+)-([0-9a-f]{8})-[0-9a-f]{16}\.parquet(\.tmp)?$")


def part_name(run_id: str, cycle: int, ids: Iterable[str]) -> str:
    """Return the name of the file that holds these trajectories."""
    listed = hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]
    return f"c{cycle:06d}-{_run_mark(run_id)}-{listed}.parquet"


def _run_mark(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:8]


class ContentStore:
    """The folder of Parquet files; ``url`` is a path or any URL that fsspec knows. Failures are OSErrors."""

    def __init__(self, url: str) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(url)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write(self, name: str, trajectories: Sequence[Trajectory]) -> None:
        """Write trajectories under ``name``, whole or not at all."""
        self._fs.makedirs(self._root, exist_ok=True)
        table = pa.Table.from_pylist([_row(trajectory) for trajectory in trajectories], schema=SCHEMA)
        temporary = self._path(name + ".tmp")
        try:
            with self._fs.open(temporary, "wb") as file:
                pq.write_table(table, file, compression="zstd", row_group_size=ROWS_IN_A_GROUP)
                file.flush()
                if hasattr(file, "fileno"):
                    os.fsync(file.fileno())
            self._fs.mv(temporary, self._path(name))
        except BaseException:
            self.remove([name + ".tmp"])
            raise

    def read(self, name: str, headers: Sequence[TrajectoryHeader], *, tokens: bool) -> list[Trajectory]:
        """Return the trajectories that ``headers`` name, in their order; without ``tokens``, text only."""
        columns = ["id", "turns", "last_observation"] + (["sequences"] if tokens else [])
        wanted = {header.id: header for header in headers}
        with self._fs.open(self._path(name), "rb") as file:
            table = pq.read_table(file, columns=columns, filters=[("id", "in", list(wanted))])
        rows = {row["id"]: row for row in table.to_pylist()}
        missing = wanted.keys() - rows.keys()
        if missing:
            raise OSError(
                f"{self._path(name)} lacks the trajectory {min(missing)}: the file is not the one that was written"
            )
        return [_trajectory(header, rows[header.id]) for header in headers]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there already are fine."""
        for name in names:
            if self._fs.exists(self._path(name)):
                self._fs.rm_file(self._path(name))

    def parts_after(self, run_id: str, cycle: int) -> list[str]:
        """Return the files of a run's later cycles, unfinished ones too, whether or not a row names them."""
        if not self._fs.exists(self._root):
            return []
        names = (str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False))
        found = ((name, _PART.match(name)) for name in names)
        return sorted(n for n, match in found if match and match[2] == _run_mark(run_id) and int(match[1]) > cycle)


def _row(trajectory: Trajectory) -> dict[str, Any]:
    header = trajectory.header
    return {
        "id": header.id,
        "environment_digest": header.environment_digest,
        "cycle": header.cycle,
        "arm": header.arm,
        "seed": header.seed,
        "play": header.play,
        "episode_return": header.episode_return,
        "stop_reason": header.stop_reason,
        "turns": [
            {"observation": t.observation, "reply": t.reply, "action": t.action, "reward": t.reward}
            for t in trajectory.turns
        ],
        "last_observation": trajectory.last_observation,
        "sequences": [
            [
                {
                    "token_ids": segment.token_ids,
                    "log_probs": segment.log_probs,
                    "trained": segment.trained,
                    "policy_version": segment.policy_version,
                    "sampled": segment.sampled,
                }
                for segment in sequence
            ]
            for sequence in trajectory.sequences
        ],
    }


def _trajectory(header: TrajectoryHeader, row: dict[str, Any]) -> Trajectory:
    return Trajectory(
        header=header,
        sequences=tuple(tuple(map(_segment, sequence)) for sequence in row.get("sequences", ())),
        turns=tuple(Turn(**turn) for turn in row["turns"]),
        last_observation=row["last_observation"],
    )


def _segment(stored: dict[str, Any]) -> Segment:
    return Segment(
        token_ids=tuple(stored["token_ids"]),
        log_probs=tuple(stored["log_probs"]),
        trained=stored["trained"],
        policy_version=stored["policy_version"],
        sampled=stored["sampled"],
    )
