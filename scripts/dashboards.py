"""Write the Grafana dashboards of the chart: charts/spade/dashboards/*.json.

    python scripts/dashboards.py            write them
    python scripts/dashboards.py --check    exit 1 if a file is not what this code says

Conventions of the queries: everything is summed over the pods of a release; what may never have happened ends in `or on
() vector(0)`, so that a quiet panel shows 0 and an empty one is a defect; quantiles end in `>= 0`, which leaves out
services without a call in the window.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grafana import Dashboard, Panel, Query, Textbox, as_json, curves, stat

FOLDER = Path(__file__).resolve().parents[1] / "charts" / "spade" / "dashboards"


# For what may never have happened: 0 where there is nothing else.
ELSE_NONE = " or on () vector(0)"


def _rate(metric: str, by: str = "", labels: str = "", window: str = "$__rate_interval") -> str:
    selector = f"FILTER,{labels}" if labels else "FILTER"
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{selector}}}[{window}]))"


def _rare(metric: str, by: str) -> Query:
    """Return the events of the last hour by a label; 0 while there are none."""
    return Query(f"sum by ({by}) (increase({metric}{{FILTER}}[1h])){ELSE_NONE}", f"{{{{{by}}}}}")


def _quantile(share: float, metric: str, by: str = "") -> str:
    grouping = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({grouping}) (rate({metric}_bucket{{FILTER}}[$__rate_interval]))) >= 0"


def _quantiles(title: str, about: str, metric: str, **options: int) -> Panel:
    queries = [Query(_quantile(share, metric), f"p{share * 100:g}") for share in (0.5, 0.95)]
    return curves(title, about, *queries, unit="s", **options)


def _learned(name: str) -> str:
    return f'max by (name) (spade_learner_last_update{{FILTER,name=~"{name}"}})'


FAILED_CALLS = _rate("spade_rpc_seconds_count", "status", 'status!="OK"') + ELSE_NONE

SHARES = curves(
    "Valid, learnable and distinct",
    "Shares of the last set: attempts that were admitted, environments with a win rate in [0.2, 0.8], distinct programs.",
    ("max(spade_coordinator_valid_share{FILTER})", "valid"),
    ("max(spade_coordinator_learnable_share{FILTER})", "learnable"),
    ("max(spade_coordinator_distinct_share{FILTER})", "distinct"),
    unit="percentunit",
    low=0,
    high=1,
)
RETURNS = curves(
    "Mean return by arm",
    "Of the last cycle; with a hint and without. Their distance is the regret that pays the designer.",
    ("max by (arm) (spade_coordinator_return{FILTER})", "{{arm}}"),
    ("max(spade_coordinator_regret{FILTER})", "regret"),
)
DIFFICULTY = curves(
    "Difficulty",
    "Mean number of actions with which the live environments' own solutions win.",
    ("max(spade_coordinator_difficulty{FILTER})", "actions"),
)

OVERVIEW = Dashboard(
    uid="spade-overview",
    title="Spade / Overview",
    about="How a run goes, at one glance.",
    rows=(
        (
            "Run",
            (
                stat("Running", "Runs in progress.", ("sum(spade_coordinator_running{FILTER})", "runs")),
                stat(
                    "Cycles",
                    "Since the coordinator started.",
                    ("sum(spade_coordinator_cycles_total{FILTER})", "cycles"),
                ),
                stat(
                    "Policy version",
                    "That is sampled from.",
                    ("max(spade_coordinator_policy_version{FILTER})", "version"),
                ),
                stat(
                    "Since the last update",
                    "Of the learner. Long silence raises SpadeNoLearnerStep.",
                    ("time() - max(spade_learner_last_update_timestamp_seconds{FILTER})", "age"),
                    unit="s",
                ),
                stat(
                    "Isolation",
                    "Sandbox pods by the level at which they isolate.",
                    ("sum by (level) (spade_sandbox_isolation{FILTER} > 0)", "{{level}}"),
                ),
                stat(
                    "Returns to a checkpoint",
                    "After a service failed.",
                    ("sum(spade_coordinator_recoveries_total{FILTER})", "recoveries"),
                ),
            ),
        ),
        ("Learning", (RETURNS, SHARES, DIFFICULTY)),
        (
            "Work",
            (
                curves(
                    "Episodes",
                    "Episodes a second by how they ended.",
                    (_rate("spade_agent_episodes_total", "stop_reason"), "{{stop_reason}}"),
                    unit="cps",
                    stacked=True,
                ),
                curves(
                    "Seconds of a cycle by stage",
                    "Mean over the cycles of the last hour.",
                    (
                        "sum by (stage) (increase(spade_coordinator_stage_seconds_sum{FILTER}[1h])) / on () group_left () "
                        "sum(increase(spade_coordinator_cycles_total{FILTER}[1h]))",
                        "{{stage}}",
                    ),
                    unit="s",
                    stacked=True,
                ),
                curves(
                    "Calls, 95 % are faster",
                    "Of calls that were served, streams of whole episodes and stages included.",
                    (_quantile(0.95, "spade_rpc_seconds", "service"), "{{service}}"),
                    unit="s",
                ),
            ),
        ),
        (
            "Failures",
            (
                curves(
                    "Errors", "In the last hour, by the boundary that failed.", _rare("spade_errors_total", "boundary")
                ),
                curves(
                    "Void and repeated episodes",
                    "In the last hour: void ones count in neither arm.",
                    ("sum(increase(spade_coordinator_void_episodes_total{FILTER}[1h]))", "void"),
                    ("sum(increase(spade_agent_retries_total{FILTER}[1h]))", "failed, played again"),
                    ("sum(increase(spade_agent_replays_total{FILTER}[1h]))", "sandbox went away, played again"),
                ),
                curves(
                    "Calls that failed",
                    "Calls a second that did not end well, by status.",
                    (FAILED_CALLS, "{{status}}"),
                    unit="cps",
                ),
            ),
        ),
    ),
)

CURRICULUM = Dashboard(
    uid="spade-curriculum",
    title="Spade / Curriculum",
    about="What the designer writes and how hard it is for the agent.",
    rows=(
        ("Outcome", (RETURNS, DIFFICULTY, SHARES)),
        (
            "Regret",
            (
                curves(
                    "Distribution of regret",
                    "Of environments evaluated in the last hour: 10, 50 and 90 % are lower.",
                    *(
                        Query(
                            f"histogram_quantile({share}, sum by (le) (increase(spade_regret_value_bucket{{FILTER}}[1h])))",
                            f"{share * 100:g} %",
                        )
                        for share in (0.1, 0.5, 0.9)
                    ),
                    low=-1,
                    high=1,
                ),
                curves(
                    "Evaluations",
                    "Environments evaluated in the last hour, by outcome.",
                    _rare("spade_regret_evaluations_total", "outcome"),
                ),
                curves(
                    "Quarantined environments",
                    "Whose own code failed in play.",
                    ("sum(spade_sandbox_quarantined{FILTER})", "quarantined"),
                ),
            ),
        ),
        (
            "Design",
            (
                curves(
                    "Attempts",
                    "Sources written in the last hour, by verdict.",
                    _rare("spade_designer_attempts_total", "verdict"),
                    stacked=True,
                ),
                curves(
                    "Refusals by gate",
                    "In the last hour: the gate that refused.",
                    _rare("spade_designer_refusals_total", "gate"),
                    stacked=True,
                ),
                curves(
                    "Hints",
                    "In the last hour, by outcome.",
                    _rare("spade_designer_hints_total", "outcome"),
                    stacked=True,
                ),
                curves(
                    "Seconds of a round",
                    "Mean of the last hour, by stage.",
                    (
                        "sum by (stage) (increase(spade_designer_round_seconds_sum{FILTER}[1h])) / "
                        "sum by (stage) (increase(spade_designer_round_seconds_count{FILTER}[1h]))",
                        "{{stage}}",
                    ),
                    unit="s",
                ),
                curves(
                    "Seeds",
                    "Earlier environments that prompts showed in the last hour.",
                    _rare("spade_memory_seeds_total", "kind"),
                ),
                curves(
                    "Shortened prompts",
                    "Parts of prompts that did not fit, in the last hour.",
                    _rare("spade_designer_shortened_total", "part"),
                ),
            ),
        ),
    ),
)

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
                    (_rate("spade_agent_engine_tokens_total"), "sampled"),
                    (_rate("spade_agent_engine_prompt_tokens_total"), "prompt"),
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
                    (_rate("spade_agent_engine_steps_total", "kind"), "{{kind}}"),
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
                curves("Tokens a second", "Of the last update.", (_learned("tokens_per_second"), "{{name}}")),
                curves("Loss", "Of the last update, by role.", (_learned("loss_.*"), "{{name}}")),
                curves(
                    "Gradient norm", "Of the last update: mean and largest.", (_learned("gradient_norm.*"), "{{name}}")
                ),
                curves("Entropy", "Nats a token, of the last update.", (_learned("entropy_.*"), "{{name}}")),
                curves(
                    "Clipped share and largest ratio",
                    "How far the policy moved from the one that sampled.",
                    (_learned("clip_share_.*"), "{{name}}"),
                    (_learned("ratio_max_.*"), "{{name}}"),
                ),
                curves("Staleness", "Updates since the tokens were sampled.", (_learned("staleness_.*"), "{{name}}")),
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
                    (f"{_rate('spade_sandbox_episodes_total', 'end')}{ELSE_NONE}", "{{end}}"),
                    unit="cps",
                    stacked=True,
                ),
            ),
        ),
        (
            "Speed",
            (
                _quantiles("Start of a sandbox", "Until its zygote answers.", "spade_sandbox_start_seconds"),
                _quantiles(
                    "Start of a worker", "From asking until it says hello.", "spade_sandbox_worker_start_seconds"
                ),
                _quantiles("Admission", "All gates of one source.", "spade_sandbox_admission_seconds"),
                curves(
                    "Calls, 95 % are faster",
                    "Of an episode, by operation.",
                    (_quantile(0.95, "spade_sandbox_call_seconds", "operation"), "{{operation}}"),
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
                    _rare("spade_sandbox_replays_total", "outcome"),
                ),
                curves(
                    "Admissions",
                    "In the last hour: admitted, or the gate that refused.",
                    _rare("spade_sandbox_admissions_total", "gate"),
                    stacked=True,
                ),
                curves("Faults", "In the last hour, by kind.", _rare("spade_sandbox_faults_total", "kind")),
                curves(
                    "Kills",
                    "In the last hour, by the limit that was broken.",
                    _rare("spade_sandbox_kills_total", "reason"),
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


def main() -> int:
    """Write the files, or compare them."""
    wanted = files()
    present = {path: path.read_text() for path in FOLDER.glob("*.json")}
    if "--check" in sys.argv[1:]:
        if present == wanted:
            return 0
        print("charts/spade/dashboards is not what scripts/dashboards.py says; run `make docs`", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in present.keys() - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
