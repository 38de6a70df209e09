"""Regret from paired plays.

Both arms of an environment are played on the same seeds, so that regret is the mean of differences within pairs and its
standard error does not contain the spread between instances. A pair with a void member says nothing and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairedRegret:
    """Regret over ``pairs`` pairs of plays.

    ``value`` is 0 without any pair, and ``standard_error`` 0 with fewer than two: one pair cannot tell its spread.
    """

    value: float
    standard_error: float
    pairs: int


def mean(values: list[float]) -> float:
    """Return the mean, 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def paired_regret(plain: Mapping[int, float], hinted: Mapping[int, float]) -> PairedRegret:
    """Return the mean of ``hinted − plain`` over the plays that both arms have, with its standard error.

    Both map play numbers to returns, without void plays. The standard error is ``s / √n``, s being the sample
    deviation of the differences (n − 1 in the denominator).
    """
    differences = [hinted[play] - plain[play] for play in sorted(plain.keys() & hinted.keys())]
    count, centre = len(differences), mean(differences)
    if count < 2:
        return PairedRegret(centre, 0.0, count)
    variance = math.fsum((difference - centre) ** 2 for difference in differences) / (count - 1)
    return PairedRegret(centre, math.sqrt(variance / count), count)
