"""Draw what each dashboard's queries say over a run: docs/dashboards/*.svg.

    python scripts/dashboard_pictures.py http://127.0.0.1:9090 --minutes 10

These are no screenshots of Grafana: the queries are those of the dashboards, the curves those of our own report. The
pictures in the documentation were made with `tests/observability/live.py`, which runs everything that is needed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen
from xml.sax.saxutils import escape

from spade_rl.report.charts import HEIGHT, WIDTH, Series, line_chart
from spade_rl.report.scales import label

ROOT = Path(__file__).resolve().parents[1]
DASHBOARDS = ROOT / "charts" / "spade" / "dashboards"
OUT = ROOT / "docs" / "dashboards"
COLUMNS, STAT_WIDTH, STAT_HEIGHT, ROW_HEIGHT, TOP, GAP = 3, 260, 70, 26, 58, 12
POINTS = 120
COLOURS = ("#1f6fb2", "#d1600a", "#2a8a57", "#a3479b", "#a68300", "#00859b", "#c03a4b", "#6b6b6b")
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#5b636d}.legend,.big{fill:#1d2126}.big{font-size:22px;font-weight:700}"
    ".title{font-size:13px;font-weight:600;fill:#1d2126}.row{font-size:15px;font-weight:600;fill:#1d2126}"
    ".end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#d9d6cd;stroke-width:1}.card{fill:#fff;stroke:#d9d6cd}"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}.band{opacity:.22}"
    + "".join(f".line.c{i}{{stroke:{c}}}.fill.c{i}{{fill:{c}}}" for i, c in enumerate(COLOURS))
)


class Source:
    """A Prometheus, asked over one stretch of time."""

    def __init__(self, url: str, minutes: float, variables: dict[str, str]) -> None:
        self._url, self._end = url.rstrip("/"), time.time()
        self._start = self._end - 60 * minutes
        self._step = max(1.0, 60 * minutes / POINTS)
        self._variables = {"__rate_interval": f"{max(15, round(4 * self._step))}s", **variables}

    def _expression(self, expression: str) -> str:
        return re.sub(r"\$(\w+)", lambda found: self._variables.get(found[1], ".*"), expression)

    def series(self, expression: str, legend: str) -> list[Series]:
        """Return an expression's curves over minutes."""
        asked = {"query": self._expression(expression), "start": self._start, "end": self._end, "step": self._step}
        with urlopen(f"{self._url}/api/v1/query_range?{urlencode(asked)}", timeout=60) as response:
            result: list[dict[str, Any]] = json.load(response)["data"]["result"]
        curves = []
        for one in result:
            points = [((float(at) - self._start) / 60, float(value)) for at, value in one["values"]]
            name = re.sub(r"{{(\w+)}}", lambda found, one=one: one["metric"].get(found[1], "none"), legend)  # type: ignore[misc]
            curves.append(Series(name, tuple((x, y) for x, y in points if math.isfinite(y))))
        return [curve for curve in curves if curve.points]


def picture(dashboard: dict[str, Any], source: Source) -> str:
    """Return a dashboard as SVG: rows of charts, stats as their last values."""
    parts: list[str] = []
    left, top, height = GAP, TOP, 0
    wide = COLUMNS * (WIDTH + GAP) + GAP
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            left, top, height = GAP, top + height, 0
            parts.append(f'<text class="row" x="{GAP}" y="{top + 18}">{escape(panel["title"])}</text>')
            top += ROW_HEIGHT
            continue
        curves = [one for t in panel["targets"] for one in source.series(t["expr"], t["legendFormat"])]
        is_stat = panel["type"] == "stat"
        size = (STAT_WIDTH - GAP, STAT_HEIGHT) if is_stat else (WIDTH, HEIGHT + 20)
        if left + size[0] > wide:
            left, top, height = GAP, top + height, 0
        parts.append(f'<rect class="card" x="{left}" y="{top}" width="{size[0]}" height="{size[1]}" rx="6"/>')
        parts.append(f'<text class="title" x="{left + 10}" y="{top + 18}">{escape(panel["title"])}</text>')
        if is_stat:
            shown = ", ".join(f"{label(one.points[-1][1])} {one.name}" for one in curves) or "no value"
            parts.append(f'<text class="big" x="{left + 10}" y="{top + 50}">{escape(shown)}</text>')
        else:
            chart = line_chart(panel["title"], curves, x_name="minutes") if curves else None
            if chart is None:
                parts.append(f'<text x="{left + 10}" y="{top + 50}">no value</text>')
            else:
                place = f'<svg x="{left}" y="{top + 20}" width="{WIDTH}" height="{HEIGHT}" '
                parts.append(str(chart).replace("<svg ", place, 1))
        left, height = left + size[0] + GAP, max(height, size[1] + GAP)
    tall = top + height + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall}" viewBox="0 0 {wide} {tall}">'
        f'<style>{STYLE}</style><rect width="{wide}" height="{tall}" fill="#fbfaf7"/>'
        f'<text class="big" x="{GAP}" y="26">{escape(dashboard["title"])}</text>'
        f'<text x="{GAP}" y="44">{escape(dashboard["description"])} Rendered from the dashboard\'s queries; not a Grafana '
        "screenshot.</text>"
    )
    return head + "".join(parts) + "</svg>\n"


def main() -> int:
    """Draw every dashboard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prometheus", help="where Prometheus answers")
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        boxes = {v["name"]: v["query"] for v in dashboard["templating"]["list"] if v["type"] == "textbox"}
        source = Source(arguments.prometheus, arguments.minutes, boxes)
        (OUT / f"{path.stem}.svg").write_text(picture(dashboard, source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
