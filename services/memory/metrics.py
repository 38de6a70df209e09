"""Metrics of the memory service."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

RECORDED = Counter("spade_memory_recorded_total", "What was not in the archive before, by kind.", ["kind"])
SECONDS = Histogram(
    "spade_memory_seconds",
    "Duration of the archive's work, without waiting for its turn.",
    ["operation"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)
SEEDS = Counter("spade_memory_seeds_total", "Examples that were given to the designer.", ["kind"])
