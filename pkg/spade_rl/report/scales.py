"""Axes: from numbers to places on a chart, and the round numbers beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map from ``domain`` to ``span``; a domain of one point maps to the middle."""

    domain: tuple[float, float]
    span: tuple[float, float]

    def __call__(self, value: float) -> float:
        """Return the place of ``value``."""
        low, high = self.domain
        start, end = self.span
        if high == low:
            return (start + end) / 2
        return start + (value - low) / (high - low) * (end - start)


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the numbers that can be drawn."""
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Return about ``count`` round numbers (1, 2 or 5 times a power of ten apart) that enclose ``low`` to ``high``."""
    if high - low < 1e-9 * max(1.0, abs(low), abs(high)):
        middle = (low + high) / 2
        pad = max(abs(middle) * 0.1, 0.5)
        low, high = middle - pad, middle + pad
    raw = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def whole_ticks(low: float, high: float, count: int = 8) -> list[float]:
    """Return round whole numbers within ``low`` to ``high``: the cycles that are named under a curve."""
    if high <= low:
        return [float(low)]
    inside = [tick for tick in ticks(low, high, count) if low <= tick <= high and tick == int(tick)]
    return inside or [float(low), float(high)]


def label(value: float) -> str:
    """Return a number as an axis shows it: three significant figures, thousands as k, millions as M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            divisor = 1e3 if suffix == "k" else size
            return f"{value / divisor:.3g}{suffix}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
