"""The dashboards of what is learned: overview and curriculum."""

from __future__ import annotations

from grafana import Dashboard, Query, curves, stat
from promql import ELSE_NONE, quantile, rare, rate

FAILED_CALLS = rate("spade_rpc_seconds_count", "status", 'status!="OK"') + ELSE_NONE

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
                    (rate("spade_agent_episodes_total", "stop_reason"), "{{stop_reason}}"),
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
                    (quantile(0.95, "spade_rpc_seconds", "service"), "{{service}}"),
                    unit="s",
                ),
            ),
        ),
        (
            "Failures",
            (
                curves(
                    "Errors", "In the last hour, by the boundary that failed.", rare("spade_errors_total", "boundary")
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
                    rare("spade_regret_evaluations_total", "outcome"),
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
                    rare("spade_designer_attempts_total", "verdict"),
                    stacked=True,
                ),
                curves(
                    "Refusals by gate",
                    "In the last hour: the gate that refused.",
                    rare("spade_designer_refusals_total", "gate"),
                    stacked=True,
                ),
                curves(
                    "Hints",
                    "In the last hour, by outcome.",
                    rare("spade_designer_hints_total", "outcome"),
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
                    rare("spade_memory_seeds_total", "kind"),
                ),
                curves(
                    "Shortened prompts",
                    "Parts of prompts that did not fit, in the last hour.",
                    rare("spade_designer_shortened_total", "part"),
                ),
            ),
        ),
    ),
)
