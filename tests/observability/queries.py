"""What the dashboards and rules of the chart ask of Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "charts" / "spade" / "dashboards").glob("*.json"))
RULES = ROOT / "charts" / "spade" / "rules" / "spade.yaml"
# What Grafana puts for the variables, as it does while everything is selected.
VARIABLES = {
    "$__rate_interval": "15s",
    "$namespace": ".*",
    "$release": ".*",
    "$price_core": "0.04",
    "$price_gpu": "2.5",
    "$sandbox_cores": "1",
}


def panels(path: Path) -> list[dict]:
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


def expressions(path: Path) -> list[str]:
    return [target["expr"] for panel in panels(path) for target in panel["targets"]]


def selectors(expression: str) -> list[tuple[str, str]]:
    """Return the metrics that an expression names, each with the labels that select from it."""
    return re.findall(r"\b((?:spade|process)_\w+)(?:\{([^}]*)\})?", re.sub(r"\$\w+", "x", expression))


def concrete(expression: str) -> str:
    """Return an expression with a value for every variable."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression
