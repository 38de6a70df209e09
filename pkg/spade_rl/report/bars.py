"""Horizontal bars as static SVG: shares with their intervals, and plain counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spade_rl.report.charts import COLOURS, WIDTH, canvas, element, markup
from spade_rl.report.scales import Scale, label

NAME_WIDTH, VALUE_WIDTH, BAR, GAP, HEAD = 130, 62, 13, 10, 30


@dataclass(frozen=True, slots=True)
class Share:
    """A measured share and its 95 % interval, all within 0 to 1."""

    mean: float
    low: float
    high: float


def interval_bars(
    title: str, names: Sequence[str], groups: Sequence[tuple[str, Sequence[Share | None]]]
) -> Markup | None:
    """Return one bar for every name in every group, each with its interval; None if there is nothing measured.

    Every group holds one share for every name, in their order, or None where it was not measured.
    """
    if not names or not any(share for _, shares in groups for share in shares):
        return None
    block = BAR * len(groups) + GAP
    height = HEAD + block * len(names) + 22
    x = Scale((0.0, 1.0), (float(NAME_WIDTH), float(WIDTH - VALUE_WIDTH)))
    said = "; ".join(
        f"{name}: " + ", ".join(f"{group} {shares[row].mean:.1%}" for group, shares in groups if shares[row])  # type: ignore[union-attr]
        for row, name in enumerate(names)
    )
    root = canvas(title, said, height)
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        root.append(element("line", x1=x(tick), x2=x(tick), y1=HEAD - 4.0, y2=height - 20.0, class_="grid"))
        root.append(element("text", f"{tick:.0%}", x=x(tick), y=height - 6.0, class_="tick middle"))
    for row, name in enumerate(names):
        top = HEAD + row * block
        root.append(element("text", name, x=NAME_WIDTH - 8.0, y=top + (block - GAP) / 2 + 4, class_="tick end"))
        for index, (_, shares) in enumerate(groups):
            share, y = shares[row], top + index * BAR
            if share is None:
                continue
            width = max(x(share.mean) - x(0), 0.5)
            root.append(
                element("rect", x=x(0), y=float(y), width=width, height=BAR - 2.0, class_=f"fill c{index % COLOURS}")
            )
            middle = y + (BAR - 2) / 2
            root.append(element("line", x1=x(share.low), x2=x(share.high), y1=middle, y2=middle, class_="interval"))
            for end in (share.low, share.high):
                root.append(element("line", x1=x(end), x2=x(end), y1=middle - 3, y2=middle + 3, class_="interval"))
            root.append(element("text", f"{share.mean:.1%}", x=WIDTH - VALUE_WIDTH + 8.0, y=y + 9.0, class_="value"))
    left = float(NAME_WIDTH)
    for index, (group, _) in enumerate(groups):
        root.append(element("rect", x=left, y=6.0, width=10.0, height=10.0, rx=2.0, class_=f"fill c{index % COLOURS}"))
        root.append(element("text", group, x=left + 14, y=15.0, class_="legend"))
        left += 30 + 6.3 * len(group)
    return markup(root)


def count_bars(title: str, counts: Sequence[tuple[str, int]]) -> Markup | None:
    """Return one bar a count, in the order given; None if there is none."""
    if not any(count for _, count in counts):
        return None
    height = 8 + (BAR + 6) * len(counts)
    x = Scale((0.0, float(max(count for _, count in counts))), (float(NAME_WIDTH), float(WIDTH - VALUE_WIDTH)))
    root = canvas(title, ", ".join(f"{name} {count}" for name, count in counts), height)
    for row, (name, count) in enumerate(counts):
        y = 4.0 + row * (BAR + 6)
        root.append(element("text", name, x=NAME_WIDTH - 8.0, y=y + 11, class_="tick end"))
        root.append(element("rect", x=x(0), y=y, width=max(x(count) - x(0), 0.5), height=float(BAR), class_="fill c0"))
        root.append(element("text", label(count), x=x(count) + 6, y=y + 11, class_="value"))
    return markup(root)
