"""Metrics of the sandbox service."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SANDBOXES = Gauge("spade_sandbox_sandboxes", "Live sandboxes, by what they do.", ["state"])
WORKERS = Gauge("spade_sandbox_workers", "Live workers.")
WORKERS_AHEAD = Gauge("spade_sandbox_workers_ahead", "Workers that wait in a sandbox for its next episode.")
WORKER_LIMIT = Gauge("spade_sandbox_worker_limit", "Workers that may live at once.")
WORKER_PROCESSES = Gauge(
    "spade_sandbox_worker_processes", "Workers that were begun and have not been seen to end, used, ahead or ending."
)
WAITING = Gauge("spade_sandbox_waiting", "Episodes and admissions that wait for room.")
ISOLATION = Gauge("spade_sandbox_isolation", "1 for the isolation level in use.", ["level"])
MEMORY = Gauge("spade_sandbox_memory_bytes", "Memory of all sandboxes that hold a program, as the watchdog sees it.")
MEMORY_HELD_BY = Gauge(
    "spade_sandbox_memory_held_by", "1 for what bounds the memory of a whole sandbox: watchdog, cgroup.", ["by"]
)
EVICTIONS = Counter(
    "spade_sandbox_evictions_total",
    "Idle sandboxes ended for others: too many, too much memory, or too old.",
    ["reason"],
)
SANDBOX_START_SECONDS = Histogram(
    "spade_sandbox_start_seconds",
    "From the start of a sandbox until its zygote answers.",
    buckets=(0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30),
)
WORKER_START_SECONDS = Histogram(
    "spade_sandbox_worker_start_seconds",
    "From asking for a worker until it says hello.",
    buckets=(0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3, 1, 3, 10, 30),
)
CALL_SECONDS = Histogram(
    "spade_sandbox_call_seconds",
    "Calls of an episode, by operation.",
    ["operation"],
    buckets=(0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
ADMISSION_SECONDS = Histogram(
    "spade_sandbox_admission_seconds",
    "Duration of an admission.",
    buckets=(0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30),
)
VERDICTS = Counter("spade_sandbox_admissions_total", "Sources by the gate that refused them, or admitted.", ["gate"])
FAULTS = Counter("spade_sandbox_faults_total", "Episodes that broke, by origin and kind.", ["origin", "kind"])
KILLS = Counter("spade_sandbox_kills_total", "Workers and whole sandboxes killed, by the limit they broke.", ["reason"])
EPISODES = Counter("spade_sandbox_episodes_total", "Episodes, by how they ended.", ["end"])
REPLAYS = Counter("spade_sandbox_replays_total", "Episodes played again, by what came of it.", ["outcome"])
QUARANTINED = Gauge("spade_sandbox_quarantined", "Environments under quarantine.")
LIMITS = Gauge(
    "spade_sandbox_limit_held", "1 for a limit that held in the self-test, 0 for one not promised.", ["limit"]
)
