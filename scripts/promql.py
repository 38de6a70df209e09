"""The PromQL that the dashboards are made of.

Everything is summed over the pods of a release; what may never have happened ends in `or on () vector(0)`, so that a quiet
panel shows 0 and an empty one is a defect; quantiles end in `>= 0`, which leaves out services without a call in the window.
"""

from __future__ import annotations

from grafana import Panel, Query, curves

# For what may never have happened: 0 where there is nothing else.
ELSE_NONE = " or on () vector(0)"


def rate(metric: str, by: str = "", labels: str = "", window: str = "$__rate_interval") -> str:
    """Return events a second, summed by labels."""
    selector = f"FILTER,{labels}" if labels else "FILTER"
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{selector}}}[{window}]))"


def rare(metric: str, by: str) -> Query:
    """Return the events of the last hour by a label; 0 while there are none."""
    return Query(f"sum by ({by}) (increase({metric}{{FILTER}}[1h])){ELSE_NONE}", f"{{{{{by}}}}}")


def quantile(share: float, metric: str, by: str = "") -> str:
    """Return what a share of a histogram's observations stays below; services without one are left out."""
    grouping = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({grouping}) (rate({metric}_bucket{{FILTER}}[$__rate_interval]))) >= 0"


def quantiles(title: str, about: str, metric: str, **options: int) -> Panel:
    """Return a panel of a histogram of seconds."""
    queries = [Query(quantile(share, metric), f"p{share * 100:g}") for share in (0.5, 0.95)]
    return curves(title, about, *queries, unit="s", **options)


def learned(name: str) -> str:
    """Return what the last update measured under names that match."""
    return f'max by (name) (spade_learner_last_update{{FILTER,name=~"{name}"}})'
