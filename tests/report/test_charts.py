from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from spade_rl.report.bars import Share, count_bars, interval_bars
from spade_rl.report.charts import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Series, line_chart, stacked_chart

HOSTILE = '"><script>alert(1)</script>'
points = st.lists(st.tuples(st.integers(0, 500), st.floats(-1e6, 1e6)), min_size=1, max_size=80)


def _coordinates(root: ElementTree.Element) -> list[tuple[float, float]]:
    paths = " ".join(path.get("d", "") for path in root.iter("path"))
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", paths)]


@given(points)
def test_a_curve_stays_inside_its_frame(values: list[tuple[int, float]]) -> None:
    chart = line_chart("any", [Series("one", tuple((float(x), y) for x, y in sorted(values)))])
    assert chart is not None
    for x, y in _coordinates(ElementTree.fromstring(chart)):
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1
        assert TOP - 0.1 <= y <= HEIGHT


def test_higher_values_are_drawn_higher() -> None:
    chart = line_chart("up", [Series("one", ((0.0, 0.1), (1.0, 0.9)))])
    assert chart is not None
    (_, first), (_, last) = _coordinates(ElementTree.fromstring(chart))
    assert last < first


def test_nothing_to_draw_gives_no_chart() -> None:
    assert line_chart("none", [Series("one", ())]) is None
    assert stacked_chart("none", [], []) is None
    assert stacked_chart("none", [0.0], [("a", [0.0])]) is None
    assert interval_bars("none", ["a"], [("before", [None])]) is None
    assert count_bars("none", [("a", 0)]) is None


def test_one_point_is_a_mark() -> None:
    chart = line_chart("one", [Series("one", ((3.0, 0.5),))], y_range=(0.0, 1.0))
    assert chart is not None
    root = ElementTree.fromstring(chart)
    assert len(list(root.iter("circle"))) == 1
    assert not list(root.iter("path"))


def test_a_band_is_drawn_around_its_curve() -> None:
    chart = line_chart("band", [Series("one", ((0.0, 1.0), (1.0, 2.0)), ((0.0, 0.5, 1.5), (1.0, 1.5, 2.5)))])
    assert chart is not None
    root = ElementTree.fromstring(chart)
    assert sum("band" in path.get("class", "") for path in root.iter("path")) == 1


def test_layers_add_up() -> None:
    chart = stacked_chart("sum", [0.0, 1.0], [("a", [1.0, 2.0]), ("empty", [0.0, 0.0]), ("b", [3.0, 2.0])])
    assert chart is not None
    paths = list(ElementTree.fromstring(chart).iter("path"))
    assert [path.findtext("title") for path in paths] == ["a", "b"]
    tops = [[float(y) for y in re.findall(r",(-?[\d.]+)", path.get("d", ""))][:4] for path in paths]
    assert len(set(tops[1])) == 1
    assert all(b < a for a, b in zip(*tops, strict=True))


def test_intervals_enclose_their_bar() -> None:
    chart = interval_bars(
        "bars", ["overall", "count"], [("before", [Share(0.2, 0.1, 0.3), None]), ("after", [Share(0.5, 0.4, 0.6)] * 2)]
    )
    assert chart is not None
    root = ElementTree.fromstring(chart)
    bars = [rect for rect in root.iter("rect") if rect.get("height") == "11.0"]
    assert len(bars) == 3
    widths = [float(bar.get("width", 0)) for bar in bars]
    assert math.isclose(widths[1] / widths[0], 2.5, rel_tol=0.01)
    assert "count: after 50.0%" in root.get("aria-label", "")


def test_names_are_escaped_in_every_chart() -> None:
    one = Series(HOSTILE, ((0.0, 1.0), (1.0, 2.0)))
    charts = [
        line_chart(HOSTILE, [one], x_name=HOSTILE),
        stacked_chart(HOSTILE, [0.0], [(HOSTILE, [1.0])]),
        interval_bars(HOSTILE, [HOSTILE], [(HOSTILE, [Share(0.1, 0.0, 0.2)])]),
        count_bars(HOSTILE, [(HOSTILE, 3)]),
    ]
    for chart in charts:
        assert chart is not None
        assert "<script" not in chart
        assert not list(ElementTree.fromstring(chart).iter("script"))
