"""What many values come down to: their middle, their spread and their ends."""

import math
from collections.abc import Iterable, Sequence

import msgspec


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a set of finite values, in the values' own unit."""

    count: int
    median: float
    mean: float
    p5: float
    p25: float
    p75: float
    p95: float
    minimum: float
    maximum: float

    @property
    def iqr(self) -> float:
        """Interquartile range, p75 - p25."""
        return self.p75 - self.p25


def spread(values: Iterable[float | None]) -> Spread | None:
    """Describe `values`; `None` where there is nothing to describe.

    Missing values and those that are not finite are left out: `count` says how many remain.
    """
    ordered = sorted(value for value in values if value is not None and math.isfinite(value))
    if not ordered:
        return None
    return Spread(
        count=len(ordered),
        median=quantile(ordered, 0.5),
        mean=math.fsum(ordered) / len(ordered),
        p5=quantile(ordered, 0.05),
        p25=quantile(ordered, 0.25),
        p75=quantile(ordered, 0.75),
        p95=quantile(ordered, 0.95),
        minimum=float(ordered[0]),
        maximum=float(ordered[-1]),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the `share` quantile of values in ascending order, interpolated linearly between neighbours.

    The same rule as numpy's default (Hyndman and Fan's type 7).

    Args:
        ordered: At least one value, ascending.
        share: From 0 to 1.
    """
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    fraction = position - below
    if fraction == 0:
        return float(ordered[below])
    return float(ordered[below] + (ordered[below + 1] - ordered[below]) * fraction)
