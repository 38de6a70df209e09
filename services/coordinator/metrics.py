"""The coordinator's metrics."""

from __future__ import annotations

import math
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

CYCLES = Counter("spade_coordinator_cycles_total", "Finished cycles.")
POLICY_VERSION = Gauge("spade_coordinator_policy_version", "Policy version that the engine samples from.")
STAGE_SECONDS = Histogram(
    "spade_coordinator_stage_seconds",
    "Duration of a cycle's stages.",
    ["stage"],
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000),
)
LAST_CYCLE = Gauge(
    "spade_coordinator_last_cycle_timestamp_seconds", "When the last cycle ended, or the service started."
)
VALID_SHARE = Gauge("spade_coordinator_valid_share", "Share of the last set's attempts that were admitted.")
REGRET = Gauge("spade_coordinator_regret", "Mean regret of the last set.")
RETURN = Gauge("spade_coordinator_return", "Mean return of the last cycle, by arm.", ["arm"])
DIFFICULTY = Gauge("spade_coordinator_difficulty", "Mean number of oracle actions of the live environments.")
LEARNABLE_SHARE = Gauge("spade_coordinator_learnable_share", "Share of environments with a win rate in [0.2, 0.8].")
DISTINCT_SHARE = Gauge("spade_coordinator_distinct_share", "Share of distinct programs in the last set.")
EPISODES = Counter("spade_coordinator_episodes_total", "Episodes recorded.")
VOID_EPISODES = Counter("spade_coordinator_void_episodes_total", "Void episodes.")
WANTED_WORKERS = Gauge("spade_coordinator_wanted_workers", "Workers of the sandbox that the run wants now, had or not.")
RUNNING = Gauge("spade_coordinator_running", "Runs in progress.")
RECOVERIES = Counter("spade_coordinator_recoveries_total", "Returns to the last checkpoint after a service failed.")
# Nothing was measured yet: no number would be true.
for _share in (VALID_SHARE, REGRET, DIFFICULTY, LEARNABLE_SHARE, DISTINCT_SHARE):
    _share.set(math.nan)
LAST_CYCLE.set_to_current_time()


def observe_cycle(figures: dict[str, Any]) -> None:
    """Show a finished cycle in the metrics; figures that were not measured leave theirs as they were."""
    CYCLES.inc()
    LAST_CYCLE.set_to_current_time()
    POLICY_VERSION.set(figures["policy_version"])
    EPISODES.inc(figures["episodes"])
    VOID_EPISODES.inc(figures["void_episodes"])
    for stage, seconds in figures["seconds"].items():
        STAGE_SECONDS.labels(stage).observe(seconds)
    gauges = {
        VALID_SHARE: figures["valid_share"],
        REGRET: figures["regret"] and figures["regret"]["mean"],
        RETURN.labels("plain"): figures["plain_return"],
        RETURN.labels("hinted"): figures["hinted_return"],
        DIFFICULTY: figures["difficulty"],
        LEARNABLE_SHARE: figures["learnable_share"],
        DISTINCT_SHARE: figures["diversity"]["distinct_share"],
    }
    for gauge, value in gauges.items():
        if value is not None:
            gauge.set(value)
