"""A real Prometheus scrapes the real services of a run, and everything that we ask of it has an answer.

An expression that is empty or not a number is a defect: it names what is not there, or divides by what never happens.
"""

from __future__ import annotations

import re

import pytest
import yaml
from live import live, until
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
    with live(folder) as prometheus:
        learned = "sum(spade_coordinator_cycles_total) > 3 and on () sum(spade_learner_updates_total) > 2"
        until(lambda: prometheus.values(learned), 400, "the run did not get going", folder)
        yield prometheus, folder


def unanswered(prometheus, wanted):
    return [one for one in wanted if not prometheus.answered(concrete(one))]


def test_every_service_is_scraped(running):
    prometheus, folder = running
    until(lambda: not prometheus.targets_down(), 60, "a service is not scraped", folder)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_answers(running, path):
    prometheus, folder = running
    wanted = expressions(path)
    try:
        # Rates need a second scrape, and stages that come once a cycle their turn.
        until(lambda: not unanswered(prometheus, wanted), 90, "", folder)
    except AssertionError:
        missing = unanswered(prometheus, wanted)
        assert missing == []


def test_every_rule_is_evaluated_and_every_record_answers(running):
    prometheus, folder = running
    rules = prometheus.rules()
    assert rules
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    recorded = [rule["name"] for rule in rules if rule["type"] == "recording"]
    until(lambda: not unanswered(prometheus, recorded), 60, f"of {recorded} not all answer", folder)


def test_what_alerts_compare_is_there(running):
    """An alert is empty while all is well; what it is computed from is not."""
    prometheus, folder = running
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            for metric in {metric for metric, _ in selectors(rule["expr"])} - UNSEEN:
                until(lambda metric=metric: prometheus.answered(metric), 60, f"{metric} is not there", folder)


def test_a_healthy_run_raises_no_alert_that_needs_no_patience(running):
    prometheus, _ = running
    assert prometheus.firing() == set()


def test_panels_of_what_a_healthy_run_lacks_show_nothing_as_0():
    for path in FILES:
        for expression in expressions(path):
            for metric, _labels in selectors(expression):
                if metric in UNSEEN:
                    assert re.search(r"or on \(\) vector\(0\)$", expression), expression
