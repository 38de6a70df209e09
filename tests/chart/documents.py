"""Reading what the chart renders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SCENARIOS = {
    path.name.removesuffix("-values.yaml"): path for path in sorted((ROOT / "charts/spade/ci").glob("*-values.yaml"))
}
SERVICES = ("agent", "coordinator", "designer", "learner", "memory", "regret", "sandbox")
Document = dict[str, Any]


class Refused(Exception):
    """Helm refused the values; the message is what a user reads."""


def values_of(scenario: str) -> Document:
    """Return a scenario's values."""
    return dict(yaml.safe_load(SCENARIOS[scenario].read_text()))


def pick(documents: list[Document], kind: str, name: str) -> Document:
    """Return the only document of a kind and name."""
    (found,) = (one for one in documents if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def pods(documents: list[Document]) -> dict[str, Document]:
    """Return the pod template of everything that runs, by the name of its first container."""
    found = {}
    for one in documents:
        template = one.get("spec", {}).get("template") or one.get("spec", {}).get("podTemplate")
        if one["kind"] == "Pod":
            template = one
        if template and "spec" in template and "containers" in template["spec"]:
            found[template["spec"]["containers"][0]["name"]] = template
    return found
