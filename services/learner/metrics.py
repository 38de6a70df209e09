"""Prometheus metrics of the learner."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

UPDATES = Counter("spade_learner_updates_total", "Updates finished.")
UPDATE_SECONDS = Histogram(
    "spade_learner_update_seconds",
    "Duration of one update with its publication.",
    buckets=(0.3, 1, 3, 10, 30, 100, 300, 1000, 3000),
)
TOKENS = Counter("spade_learner_tokens_total", "Trained tokens, by role.", ["role"])
DROPPED = Counter("spade_learner_groups_dropped_total", "Groups without signal, by role.", ["role"])
UPDATED = Gauge("spade_learner_last_update_timestamp_seconds", "When the last update ended, or the learner started.")
VERSION = Gauge("spade_learner_policy_version", "The newest published version.")
LAST = Gauge("spade_learner_last_update", "What the last update measured, by name.", ["name"])
