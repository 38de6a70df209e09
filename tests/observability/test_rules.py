"""The alert rules: tried by promtool, every alert in both directions, each explained in the documentation."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from live import program

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "spade" / "rules" / "spade.yaml"
CASES = Path(__file__).parent / "rules_test.yaml"
PAGE = ROOT / "docs" / "alerts.md"


def alerts() -> list[dict]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def promtool(*arguments: object) -> None:
    result = subprocess.run(
        [program("promtool"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=CASES.parent,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_rules_are_valid():
    promtool("check", "rules", RULES)


def test_the_cases_hold():
    promtool("test", "rules", CASES)


@pytest.mark.parametrize("name", [alert["alert"] for alert in alerts()])
def test_every_alert_is_tried_where_it_fires_and_where_it_does_not(name):
    fires = quiet = False
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for expected in case.get("alert_rule_test", []):
            if expected["alertname"] == name:
                fires |= bool(expected["exp_alerts"])
                # One alert expected where several releases are told of means that the others are quiet.
                quiet |= not expected["exp_alerts"] or len(case["input_series"]) > 1
        fires |= any(f'alertname="{name}"' in expected["expr"] for expected in case.get("promql_expr_test", []))
    assert fires
    assert quiet


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_every_alert_says_what_is_wrong_and_where_to_read_on(alert):
    annotations = alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert annotations["summary"].endswith(".")
    path, anchor = annotations["runbook_url"].split("#")
    headings = re.findall(r"^## (\w+)$", (ROOT / path).read_text(), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


def test_the_page_explains_no_alert_that_does_not_exist():
    headings = re.findall(r"^## (Spade\w+)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [alert["alert"] for alert in alerts()]
