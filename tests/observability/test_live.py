"""A real Prometheus scrapes the real services of a run, and everything that we ask of it has an answer.

An expression that is empty or not a number is a defect: it names what is not there, or divides by what never happens.
"""

from __future__ import annotations

import re

import pytest
import yaml
from live import live
from queries import FILES, RULES, concrete, expressions, selectors

from spade_rl.sandbox.runtime import describe_runtime

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# What a healthy run of this kind may lack: metrics whose labels are first seen when something happens. Each has been
# seen otherwise by the tests of its service.
UNSEEN = {
    # Plays end one way or the other; an environment's own failure is rare.
    "spade_sandbox_faults_total",
    "spade_sandbox_kills_total",
    # Every prompt of the nano model fits.
    "spade_designer_shortened_total",
    "spade_errors_total",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    report = describe_runtime()
    if not report.usable:
        pytest.skip(f"gVisor does not run here: {report.advice}")
    folder = tmp_path_factory.mktemp("live")
    with live(folder) as started:
        learned = "sum(spade_coordinator_cycles_total) > 3 and on () sum(spade_learner_updates_total) > 2"
        started.until(lambda: started.prometheus.values(learned), 400, "the run did not get going")
        yield started


def unanswered(prometheus, wanted):
    return [one for one in wanted if not prometheus.answered(concrete(one))]


def test_every_service_is_scraped(running):
    prometheus = running.prometheus
    running.until(lambda: not prometheus.targets_down(), 60, "a service is not scraped")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_answers(running, path):
    prometheus = running.prometheus
    wanted = expressions(path)
    try:
        # Rates need a second scrape, and stages that come once a cycle their turn.
        running.until(lambda: not unanswered(prometheus, wanted), 90, "")
    except AssertionError:
        missing = unanswered(prometheus, wanted)
        assert missing == []


def test_every_rule_is_evaluated_and_every_record_answers(running):
    prometheus = running.prometheus
    rules = prometheus.rules()
    assert rules
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    recorded = [rule["name"] for rule in rules if rule["type"] == "recording"]
    running.until(lambda: not unanswered(prometheus, recorded), 60, f"of {recorded} not all answer")


def test_what_alerts_compare_is_there(running):
    """An alert is empty while all is well; what it is computed from is not."""
    prometheus = running.prometheus
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            for metric in {metric for metric, _ in selectors(rule["expr"])} - UNSEEN:
                running.until(lambda metric=metric: prometheus.answered(metric), 60, f"{metric} is not there")


def test_a_healthy_run_raises_no_alert_that_needs_no_patience(running):
    prometheus = running.prometheus
    assert prometheus.firing() == set()


def test_panels_of_what_a_healthy_run_lacks_show_nothing_as_0():
    for path in FILES:
        for expression in expressions(path):
            for metric, _labels in selectors(expression):
                if metric in UNSEEN:
                    assert re.search(r"or on \(\) vector\(0\)$", expression), expression


def total(prometheus, metric):
    return sum(prometheus.values(f"sum({metric})"))


def outage(running):
    """Kill the sandbox while it is used; start another once somebody noticed; return when the run went on."""
    prometheus = running.prometheus
    cycles = total(prometheus, "spade_coordinator_cycles_total")
    running.until(lambda: prometheus.values("sum(spade_sandbox_workers) > 0"), 60, "nothing is played")
    running.kill("sandbox")
    wanting = 'sum(spade_coordinator_wanted_workers) > 0 unless on () up{component="sandbox"} == 1'
    running.until(lambda: prometheus.values(wanting), 60, "nobody wants a sandbox")
    running.start("sandbox")
    running.until(
        lambda: total(prometheus, "spade_coordinator_cycles_total") > cycles + 1, 120, "the run does not go on"
    )


def test_a_sandbox_that_is_killed_costs_the_run_nothing(running):
    """What it was doing is done again by the next: the run neither fails nor goes back, and no episode is void.

    Killed at any moment, it may be doing nothing: the more often, the surer that some episode is met.
    """
    watched = ("spade_coordinator_void_episodes_total", "spade_coordinator_recoveries_total")
    before = [total(running.prometheus, metric) for metric in watched]
    for number in range(12):
        outage(running)
        if number >= 2 and total(running.prometheus, "spade_agent_replays_total") > 0:
            break
    assert [total(running.prometheus, metric) for metric in watched] == before
    assert total(running.prometheus, "spade_agent_replays_total") > 0
