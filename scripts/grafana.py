"""Grafana's dashboard JSON from a few lines per panel: what `scripts/dashboards.py` is written in.

Queries name metrics without labels that select a release: ``FILTER`` stands where a selector's labels stand, and is
replaced by the dashboard's variables. Panels flow from left to right in rows of 24 units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

WIDTH = 24
FILTER = 'namespace=~"$namespace",release=~"$release"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, ``FILTER`` in it, and what its series are called."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: ``stat`` shows the last value, ``timeseries`` curves. ``unit`` is Grafana's name of one."""

    title: str
    queries: tuple[Query, ...]
    about: str
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Textbox:
    """A number that whoever looks at the dashboard knows."""

    name: str
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard of named rows."""

    uid: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    textboxes: tuple[Textbox, ...] = field(default=())


def curves(title: str, about: str, *queries: Query | tuple[str, str], **options: Any) -> Panel:
    """Return a panel of curves over time."""
    return Panel(title, _queries(queries), about, **options)


def stat(title: str, about: str, *queries: Query | tuple[str, str], **options: Any) -> Panel:
    """Return a panel of last values."""
    return Panel(title, _queries(queries), about, kind="stat", **{"width": 4, "height": 4, **options})


def _queries(queries: Sequence[Query | tuple[str, str]]) -> tuple[Query, ...]:
    return tuple(query if isinstance(query, Query) else Query(*query) for query in queries)


def as_json(dashboard: Dashboard) -> dict[str, Any]:
    """Return what Grafana imports."""
    panels: list[dict[str, Any]] = []
    top = 0
    for name, row in dashboard.rows:
        panels.append(_row(len(panels) + 1, name, top))
        top += 1
        left = height = 0
        for panel in row:
            if left + panel.width > WIDTH:
                top, left, height = top + height, 0, 0
            panels.append(_panel(len(panels) + 1, panel, left, top))
            left, height = left + panel.width, max(height, panel.height)
        top += height
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["spade"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables(dashboard.textboxes)},
        "links": [{"type": "dashboards", "tags": ["spade"], "title": "Spade", "asDropdown": True, "keepTime": True}],
        "annotations": {"list": []},
        "panels": panels,
    }


def _row(number: int, name: str, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": name, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.low is not None:
        defaults["min"] = panel.low
    if panel.high is not None:
        defaults["max"] = panel.high
    options: dict[str, Any]
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "auto", "colorMode": "none"}
    else:
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        custom: dict[str, Any] = {"lineWidth": 1, "showPoints": "auto", "spanNulls": True}
        if panel.stacked:
            custom |= {"stacking": {"mode": "normal"}, "fillOpacity": 30}
        defaults["custom"] = custom
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "editorMode": "code",
                "expr": query.expression.replace("FILTER", FILTER),
                "legendFormat": query.legend or "__auto",
                "instant": panel.kind == "stat",
                "range": panel.kind != "stat",
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _variables(textboxes: tuple[Textbox, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    ]
    for name, query in (
        ("namespace", "label_values(spade_gpus, namespace)"),
        ("release", 'label_values(spade_gpus{namespace=~"$namespace"}, release)'),
    ):
        found.append(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": DATASOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "includeAll": True,
                # Also whatever was scraped without such a label.
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            }
        )
    for box in textboxes:
        current = {"text": box.value, "value": box.value}
        found.append({"name": box.name, "label": box.label, "type": "textbox", "query": box.value, "current": current})
    return found
