"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, autoincrement=False)


def _real(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "environments",
        *map(_text, ("run_id", "digest")),
        _number("cycle"),
        *map(_text, ("kind", "skill", "source", "hint", "document_id", "provenance")),
        sa.PrimaryKeyConstraint("run_id", "digest"),
    )
    op.create_index("environments_by_skill", "environments", ["run_id", "skill", "cycle"])
    op.create_table(
        "attempts",
        *map(_text, ("run_id", "id")),
        _number("cycle"),
        *map(_text, ("skill", "source")),
        _flag("admitted"),
        *map(_text, ("refusal", "normalised_digest", "reply", "provenance")),
        _text("report", nullable=True),
        _text("sequence"),
        sa.PrimaryKeyConstraint("run_id", "id"),
    )
    op.create_index("attempts_by_cycle", "attempts", ["run_id", "cycle"])
    op.create_index("attempts_by_skill", "attempts", ["run_id", "skill"])
    op.create_table(
        "statistics",
        *map(_text, ("run_id", "digest")),
        *map(_number, ("cycle", "plain_plays", "hinted_plays")),
        *map(_real, ("win_rate", "hinted_win_rate", "regret", "regret_standard_error", "designer_reward")),
        _number("void_episodes"),
        _flag("quarantined"),
        _text("quarantine_reason"),
        _flag("closed"),
        sa.PrimaryKeyConstraint("run_id", "digest", "cycle"),
    )
    op.create_table(
        "trajectories",
        *map(_text, ("run_id", "id", "environment_digest")),
        _number("cycle"),
        _text("arm"),
        *map(_number, ("seed", "play")),
        _real("episode_return"),
        _text("stop_reason"),
        *map(_number, ("turns", "sampled_tokens", "context_tokens")),
        _real("seconds"),
        *map(_text, ("error", "part")),
        sa.PrimaryKeyConstraint("run_id", "id"),
    )
    op.create_index("trajectories_by_cycle", "trajectories", ["run_id", "cycle"])
    op.create_index("trajectories_by_environment", "trajectories", ["run_id", "environment_digest"])


def downgrade() -> None:
    """Drop the tables."""
    for table in ("trajectories", "statistics", "attempts", "environments"):
        op.drop_table(table)
