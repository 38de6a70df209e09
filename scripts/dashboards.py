"""Write the Grafana dashboards of the chart: charts/spade/dashboards/*.json.

python scripts/dashboards.py            write them
python scripts/dashboards.py --check    exit 1 if a file is not what this code says
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dashboards_learning import CURRICULUM, OVERVIEW
from generated import settle
from grafana import Dashboard, Textbox, as_json, curves, stat
from promql import ELSE_NONE, learned, quantile, quantiles, rare, rate

FOLDER = Path(__file__).resolve().parents[1] / "charts" / "spade" / "dashboards"


ENGINES = Dashboard(
    uid="spade-engines",
    title="Spade / Engines and learner",
    about="Sampling and training: how fast, how full, how far apart.",
    rows=(
        (
            "Engines",
            (
                curves(
                    "Tokens",
                    "A second.",
                    (rate("spade_agent_engine_tokens_total"), "sampled"),
                    (rate("spade_agent_engine_prompt_tokens_total"), "prompt"),
                ),
                curves(
                    "Sequences",
                    "That wait or are decoded, and how many can be decoded at once.",
                    ("sum(spade_agent_engine_sequences{FILTER})", "sequences"),
                    ("sum(spade_agent_engine_slots{FILTER})", "places"),
                ),
                curves(
                    "Busy share",
                    "Of the time, an engine had work.",
                    (
                        "avg(rate(spade_agent_engine_busy_seconds_total{FILTER}[$__rate_interval]))",
                        "mean of the engines",
                    ),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
                curves(
                    "Forward passes",
                    "A second, by kind.",
                    (rate("spade_agent_engine_steps_total", "kind"), "{{kind}}"),
                    unit="cps",
                ),
                curves(
                    "Policy versions",
                    "Published by the learner, and sampled from by the engine that is furthest behind.",
                    ("max(spade_learner_policy_version{FILTER})", "published"),
                    ("min(spade_agent_engine_policy_version{FILTER})", "sampled from"),
                ),
                curves(
                    "Engine failures",
                    "Steps that failed in the last hour.",
                    ("sum(increase(spade_agent_engine_failures_total{FILTER}[1h]))", "failures"),
                ),
            ),
        ),
        (
            "Learner",
            (
                curves(
                    "Seconds of an update",
                    "Mean of the last hour, publication included.",
                    (
                        "sum(increase(spade_learner_update_seconds_sum{FILTER}[1h])) / "
                        "sum(increase(spade_learner_update_seconds_count{FILTER}[1h]))",
                        "update",
                    ),
                    unit="s",
                ),
                curves(
                    "Trained tokens",
                    "In the last hour, by role.",
                    ("sum by (role) (increase(spade_learner_tokens_total{FILTER}[1h]))", "{{role}}"),
                ),
                curves("Tokens a second", "Of the last update.", (learned("tokens_per_second"), "{{name}}")),
                curves("Loss", "Of the last update, by role.", (learned("loss_.*"), "{{name}}")),
                curves(
                    "Gradient norm", "Of the last update: mean and largest.", (learned("gradient_norm.*"), "{{name}}")
                ),
                curves("Entropy", "Nats a token, of the last update.", (learned("entropy_.*"), "{{name}}")),
                curves(
                    "Clipped share and largest ratio",
                    "How far the policy moved from the one that sampled.",
                    (learned("clip_share_.*"), "{{name}}"),
                    (learned("ratio_max_.*"), "{{name}}"),
                ),
                curves("Staleness", "Updates since the tokens were sampled.", (learned("staleness_.*"), "{{name}}")),
                curves(
                    "Groups without signal",
                    "Dropped in the last hour, by role: all their plays ended the same.",
                    ("sum by (role) (increase(spade_learner_groups_dropped_total{FILTER}[1h]))", "{{role}}"),
                ),
            ),
        ),
    ),
)

SANDBOX = Dashboard(
    uid="spade-sandbox",
    title="Spade / Sandbox",
    about="Where generated code runs.",
    rows=(
        (
            "Room",
            (
                curves(
                    "Workers",
                    "Wanted by the run, in use, waiting for the next episode, and allowed at most.",
                    ("sum(spade_coordinator_wanted_workers{FILTER})", "wanted"),
                    ("sum(spade_sandbox_workers{FILTER})", "in use"),
                    ("sum(spade_sandbox_workers_ahead{FILTER})", "ahead"),
                    ("sum(spade_sandbox_worker_limit{FILTER})", "limit"),
                ),
                curves(
                    "Waiting",
                    "Episodes and admissions that wait for room.",
                    ("sum(spade_sandbox_waiting{FILTER})", "waiting"),
                ),
                curves(
                    "Pods",
                    "Sandbox services that answer.",
                    ("count(spade_sandbox_worker_limit{FILTER})", "pods"),
                    low=0,
                ),
                curves(
                    "Sandboxes",
                    "Live ones, by what they do.",
                    ("sum by (state) (spade_sandbox_sandboxes{FILTER})", "{{state}}"),
                    stacked=True,
                ),
                curves(
                    "Workers that ought to be gone",
                    "Processes that are neither in use nor kept ahead. More than a few for long are leaked.",
                    (
                        "sum(spade_sandbox_worker_processes{FILTER} - spade_sandbox_workers{FILTER} - "
                        "spade_sandbox_workers_ahead{FILTER})",
                        "workers",
                    ),
                ),
                curves(
                    "Episodes",
                    "A second, by how they ended.",
                    (f"{rate('spade_sandbox_episodes_total', 'end')}{ELSE_NONE}", "{{end}}"),
                    unit="cps",
                    stacked=True,
                ),
            ),
        ),
        (
            "Speed",
            (
                quantiles("Start of a sandbox", "Until its zygote answers.", "spade_sandbox_start_seconds"),
                quantiles(
                    "Start of a worker", "From asking until it says hello.", "spade_sandbox_worker_start_seconds"
                ),
                quantiles("Admission", "All gates of one source.", "spade_sandbox_admission_seconds"),
                curves(
                    "Calls, 95 % are faster",
                    "Of an episode, by operation.",
                    (quantile(0.95, "spade_sandbox_call_seconds", "operation"), "{{operation}}"),
                    unit="s",
                    width=24,
                ),
            ),
        ),
        (
            "Trust",
            (
                curves(
                    "Isolation",
                    "Pods by level; anything but gvisor is weaker.",
                    ("sum by (level) (spade_sandbox_isolation{FILTER} > 0)", "{{level}}"),
                ),
                curves(
                    "Limits that held in the self-test",
                    "1: it held when a pod started; 0: it is not promised.",
                    ("min by (limit) (spade_sandbox_limit_held{FILTER})", "{{limit}}"),
                    low=0,
                    high=1,
                ),
                curves(
                    "Replays",
                    "Episodes played again in another worker in the last hour, by what came of it.",
                    rare("spade_sandbox_replays_total", "outcome"),
                ),
                curves(
                    "Admissions",
                    "In the last hour: admitted, or the gate that refused.",
                    rare("spade_sandbox_admissions_total", "gate"),
                    stacked=True,
                ),
                curves("Faults", "In the last hour, by kind.", rare("spade_sandbox_faults_total", "kind")),
                curves(
                    "Kills",
                    "In the last hour, by the limit that was broken.",
                    rare("spade_sandbox_kills_total", "reason"),
                ),
            ),
        ),
    ),
)

# Cores of service processes, and of sandbox pods by what they hold: their children's time is not their own.
CORES = (
    'sum(rate(process_cpu_seconds_total{FILTER,component!="",component!="sandbox"}[5m])) + '
    "(count(spade_sandbox_worker_limit{FILTER}) or on () vector(0)) * $sandbox_cores"
)
COST = f"(({CORES}) * $price_core + sum(spade_gpus{{FILTER}}) * $price_gpu)"
ADMITTED = 'sum(increase(spade_designer_attempts_total{FILTER,verdict="admitted"}[1h]))'

COSTS = Dashboard(
    uid="spade-cost",
    title="Spade / Cost",
    about="What a run uses, and what that costs at the prices given above.",
    textboxes=(
        Textbox("price_core", "Price of a core for an hour", "0.04"),
        Textbox("price_gpu", "Price of a GPU for an hour", "2.50"),
        Textbox("sandbox_cores", "Cores of a sandbox pod", "1"),
    ),
    rows=(
        (
            "Now",
            (
                stat("An hour", "At the present use.", (COST, "price"), width=6),
                stat("GPUs", "Held by engines and learner.", ("sum(spade_gpus{FILTER})", "GPUs"), width=6),
                stat("Cores", "Used by services, held by sandbox pods.", (CORES, "cores"), width=6),
                stat(
                    "A thousand environments",
                    "Price of the last hour over the environments admitted in it.",
                    (f"1000 * {COST} / ({ADMITTED} > 0)", "price"),
                    width=6,
                ),
            ),
        ),
        (
            "Use",
            (
                curves(
                    "Cores by service",
                    "Used by the services' own processes; a sandbox's children are not in it.",
                    ('sum by (component) (rate(process_cpu_seconds_total{FILTER,component!=""}[5m]))', "{{component}}"),
                    stacked=True,
                ),
                curves(
                    "Memory by service",
                    "Resident, of the services' own processes.",
                    ('sum by (component) (process_resident_memory_bytes{FILTER,component!=""})', "{{component}}"),
                    unit="bytes",
                    stacked=True,
                ),
                curves("Price of an hour", "At the present use.", (COST, "price")),
            ),
        ),
        (
            "Got for it",
            (
                curves(
                    "Environments and episodes",
                    "In the last hour.",
                    (ADMITTED, "environments admitted"),
                    ("sum(increase(spade_coordinator_episodes_total{FILTER}[1h]))", "episodes recorded"),
                ),
                curves(
                    "Tokens",
                    "In the last hour.",
                    ("sum(increase(spade_agent_engine_tokens_total{FILTER}[1h]))", "sampled"),
                    ("sum(increase(spade_learner_tokens_total{FILTER}[1h]))", "trained"),
                ),
                curves(
                    "For one admitted environment",
                    "In the last hour.",
                    (f"sum(increase(spade_coordinator_episodes_total{{FILTER}}[1h])) / ({ADMITTED} > 0)", "episodes"),
                    (
                        f"sum(increase(spade_agent_engine_tokens_total{{FILTER}}[1h])) / ({ADMITTED} > 0)",
                        "tokens sampled",
                    ),
                ),
            ),
        ),
    ),
)

DASHBOARDS = {"overview": OVERVIEW, "curriculum": CURRICULUM, "engines": ENGINES, "sandbox": SANDBOX, "cost": COSTS}


def files() -> dict[Path, str]:
    """Return the text of every file."""
    return {
        FOLDER / f"{name}.json": json.dumps(as_json(dashboard), indent=1) + "\n"
        for name, dashboard in DASHBOARDS.items()
    }


if __name__ == "__main__":
    sys.exit(settle(files(), present=set(FOLDER.glob("*.json"))))
