"""Curves as static SVG: pure functions from numbers to one element.

Elements are built as a tree, so that names and labels are escaped by construction. Colours are classes (``c0`` to
``c7``) that the page's style sheet sets for light and dark; a chart needs neither script nor network. Every chart
has a title and a description for screen readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

from spade_rl.report.scales import Scale, finite, label, ticks, whole_ticks
from spade_rl.report.text import visible

WIDTH, HEIGHT = 520, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 34, 34
MARKED_POINTS = 40
COLOURS = 8


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: ``points`` of x and y, and a ``band`` of x, low and high around it. Gaps are left out."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


def element(tag: str, text: str | None = None, **attributes: str | float) -> ElementTree.Element:
    """Return an SVG element; underscores in names become hyphens, numbers are rounded to a tenth."""
    made = ElementTree.Element(tag)
    for name, value in attributes.items():
        text_value = value if isinstance(value, str) else f"{value:.1f}"
        made.set(name.rstrip("_").replace("_", "-"), text_value)
    if text is not None:
        made.text = visible(text)
    return made


def canvas(title: str, description: str, height: float = HEIGHT) -> ElementTree.Element:
    """Return an empty chart that says what it is."""
    root = element("svg", viewBox=f"0 0 {WIDTH} {height:.0f}", role="img", class_="chart")
    root.set("aria-label", visible(f"{title}. {description}"))
    return root


def markup(root: ElementTree.Element) -> Markup:
    """Return a finished chart as text that a template inserts as it is."""
    # Safe: the tree escaped every text and attribute.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _legend(root: ElementTree.Element, names: Sequence[str]) -> None:
    left = float(LEFT)
    for index, name in enumerate(names):
        root.append(element("rect", x=left, y=8.0, width=10.0, height=10.0, rx=2.0, class_=f"fill c{index % COLOURS}"))
        root.append(element("text", name, x=left + 14, y=17.0, class_="legend"))
        left += 26 + 6.3 * len(name)


def _axes(root: ElementTree.Element, x: Scale, y: Scale, rows: Sequence[float], x_name: str) -> None:
    for tick in rows:
        root.append(element("line", x1=float(LEFT), x2=float(WIDTH - RIGHT), y1=y(tick), y2=y(tick), class_="grid"))
        root.append(element("text", label(tick), x=LEFT - 6.0, y=y(tick) + 4, class_="tick end"))
    for tick in whole_ticks(*x.domain):
        root.append(element("text", label(tick), x=x(tick), y=HEIGHT - BOTTOM + 15.0, class_="tick middle"))
    root.append(element("text", x_name, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 4.0, class_="tick middle"))


def _path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points) + ("Z" if closed else "")


def _description(series: Sequence[Series]) -> str:
    parts = [
        f"{one.name}: {label(one.points[0][1])} at {label(one.points[0][0])}, "
        f"{label(one.points[-1][1])} at {label(one.points[-1][0])}"
        for one in series
        if one.points
    ]
    return ". ".join(parts) or "no values"


def line_chart(
    title: str, series: Sequence[Series], *, y_range: tuple[float, float] | None = None, x_name: str = "cycle"
) -> Markup | None:
    """Return curves over a common axis, or None if there is no point to draw.

    ``y_range`` is the least that the vertical axis shows; values outside it widen it.
    """
    xs = finite(x for one in series for x, _ in one.points)
    ys = finite(
        [*(y for one in series for _, y in one.points), *(v for one in series for b in one.band for v in b[1:])]
    )
    if not xs or not ys:
        return None
    ys += y_range or ()
    rows = ticks(min(ys), max(ys))
    x = Scale((min(xs), max(xs)), (float(LEFT), float(WIDTH - RIGHT)))
    y = Scale((rows[0], rows[-1]), (float(HEIGHT - BOTTOM), float(TOP)))
    root = canvas(title, _description(series))
    _axes(root, x, y, rows, x_name)
    for index, one in enumerate(series):
        colour = f"c{index % COLOURS}"
        if one.band:
            outline = [(x(a), y(high)) for a, _, high in one.band] + [
                (x(a), y(low)) for a, low, _ in reversed(one.band)
            ]
            root.append(element("path", d=_path(outline, closed=True), class_=f"band {colour}"))
        if len(one.points) > 1:
            root.append(element("path", d=_path((x(a), y(b)) for a, b in one.points), class_=f"line {colour}"))
        if len(one.points) <= MARKED_POINTS:
            for a, b in one.points:
                point = element("circle", cx=x(a), cy=y(b), r=3.0, class_=f"fill {colour}")
                point.append(element("title", f"{one.name}, {x_name} {label(a)}: {label(b)}"))
                root.append(point)
    _legend(root, [one.name for one in series])
    return markup(root)


def stacked_chart(title: str, xs: Sequence[float], layers: Sequence[tuple[str, Sequence[float]]]) -> Markup | None:
    """Return layers on top of each other, a column one wide for every x; None if all of them are empty.

    Each layer holds one value of at least 0 for every x, in their order.
    """
    shown = [(name, values) for name, values in layers if any(value > 0 for value in values)]
    if not xs or not shown:
        return None
    totals = [sum(column) for column in zip(*(values for _, values in shown), strict=True)]
    rows = ticks(0.0, max(totals))
    x = Scale((min(xs) - 0.5, max(xs) + 0.5), (float(LEFT), float(WIDTH - RIGHT)))
    y = Scale((0.0, rows[-1]), (float(HEIGHT - BOTTOM), float(TOP)))
    mean = ", ".join(f"{name} {label(sum(values) / len(xs))}" for name, values in shown)
    root = canvas(title, f"mean of a cycle: {mean}")
    _axes(root, x, y, rows, "cycle")
    floor = [0.0] * len(xs)
    for index, (name, values) in enumerate(shown):
        ceiling = [low + value for low, value in zip(floor, values, strict=True)]
        steps = list(zip(xs, floor, ceiling, strict=True))
        top = [(x(a + side), y(high)) for a, _, high in steps for side in (-0.5, 0.5)]
        bottom = [(x(a + side), y(low)) for a, low, _ in reversed(steps) for side in (0.5, -0.5)]
        layer = element("path", d=_path(top + bottom, closed=True), class_=f"layer c{index % COLOURS}")
        layer.append(element("title", name))
        root.append(layer)
        floor = ceiling
    _legend(root, [name for name, _ in shown])
    return markup(root)
