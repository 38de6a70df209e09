"""Metrics of the designer service."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

ATTEMPTS = Counter("spade_designer_attempts_total", "Sources written, by verdict (admitted or refused).", ["verdict"])
REFUSALS = Counter("spade_designer_refusals_total", "Refused attempts, by the gate that refused.", ["gate"])
HINTS = Counter("spade_designer_hints_total", "Hints written, by outcome (kept, leaked, empty, no_room).", ["outcome"])
SHORTENED = Counter("spade_designer_shortened_total", "Prompts that lost something, by what.", ["part"])
ROUND_SECONDS = Histogram(
    "spade_designer_round_seconds",
    "Duration of one round of attempts, by stage.",
    ["stage"],
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
)
