"""Metrics of the regret service."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

EVALUATIONS = Counter("spade_regret_evaluations_total", "Environments evaluated, by outcome.", ["outcome"])
VOID_PLAYS = Counter("spade_regret_void_plays_total", "Plays that count in neither arm.")
REGRET = Histogram(
    "spade_regret_value", "Regret of environments with at least one pair.", buckets=[x / 10 for x in range(-10, 11)]
)
