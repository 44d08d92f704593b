"""What a claim is judged by: its cells or pairs of cells, their values, and how far noise could move each.

One run a cell: a measured figure could lie anywhere in the middle half of the run's steps, down to what is left of them
without the time in which the run waited for a core, and at least `MEASURED_NOISE` to either side; a loss, which another
seed would change, `LOSS_NOISE`; sizes in bytes are exact.
"""

import math
from collections.abc import Callable, Sequence

from gradscope.analysis.axes import Axis, rest_of
from gradscope.analysis.effects import comparable
from gradscope.analysis.fairness import samples_per_update
from gradscope.analysis.interval import of_mean
from gradscope.analysis.quantities import QUANTITIES
from gradscope.analysis.results import Row
from gradscope.config.grid import matches
from gradscope.config.schema import Claim
from gradscope.core.statistics import quantile
from gradscope.core.summary import Record

MEASURED_NOISE = 0.10
"""A difference of single runs that noise hardly exceeds on a busy machine, as a share."""

LOSS_NOISE = 0.05
"""The same of a loss under another seed."""

LEAST_SHARE = 0.05
"""Of a core, that a run is taken to have had at least."""

CONFIDENCE = 0.95


class Evidence(Record, frozen=True, kw_only=True):
    """One cell, or one pair of cells, that a claim is judged by."""

    cell: str
    """What the cell in question is called."""
    numerator: float | None = None
    denominator: float | None = None
    value: float | None = None
    """The ratio; the metric itself where the claim has no denominator."""
    why_not: str = ""
    """Why there is no value."""


class Item(Record, frozen=True, kw_only=True):
    """Evidence with what noise could make of it."""

    evidence: Evidence
    numerator: Row
    denominator: Row | None
    low: float
    high: float
    """Infinite where there is no value."""


Span = tuple[float | None, float | None, float | None]
"""Lowest, figure, highest."""


def gather(claim: Claim, rows: Sequence[Row], axes: Sequence[Axis]) -> list[Item]:
    """Return the cells that a claim speaks of, each with the one it is compared with."""
    inside = [row for row in rows if matches(row.settings, claim.subset)]
    questioned = [row for row in inside if matches(row.settings, claim.numerator)]
    if claim.denominator is None:
        return [_item(claim, row, None, axes) for row in questioned]
    named = {*claim.numerator, *claim.denominator}
    free = named | {key for axis in axes if named & set(axis.keys) for key in axis.keys}
    compared = {rest_of(row, free): row for row in inside if matches(row.settings, claim.denominator)}
    return [_item(claim, row, compared[rest], axes) for row in questioned if (rest := rest_of(row, free)) in compared]


def _item(claim: Claim, top: Row, bottom: Row | None, axes: Sequence[Axis]) -> Item:
    above = top.value(claim.metric)
    below = None if bottom is None else bottom.value(claim.metric)
    why = _why_not(claim.metric, top, bottom)
    value = None
    if not why and above is not None:
        value = above if bottom is None else above / below if below else None
        why = "" if value is not None else "a ratio to 0"
    low, high = (-math.inf, math.inf) if value is None else _noise(claim.metric, value, top, bottom)
    name = " ".join(axis.label_of(top) for axis in axes)
    return Item(
        evidence=Evidence(cell=name, numerator=above, denominator=below, value=value, why_not=why),
        numerator=top,
        denominator=bottom,
        low=low,
        high=high,
    )


def _why_not(metric: str, top: Row, bottom: Row | None) -> str:
    for row in (top, bottom):
        if row is not None and not row.done:
            return row.status
        if row is not None and row.value(metric) is None:
            return f"no {metric}"
    if exactness(metric) == "measured":
        if bottom is not None and not comparable(top, bottom):
            return "other hardware"
        if top.contaminated or (bottom is not None and bottom.contaminated):
            return "a foreign process on the card"
    return ""


def exactness(metric: str) -> str:
    """Return how equal runs agree in a number: `exact`, `measured`, or `loss`."""
    return QUANTITIES[metric].exactness if metric in QUANTITIES else "measured"


def _noise(metric: str, value: float, top: Row, bottom: Row | None) -> tuple[float, float]:
    """Return where a single run's figure could lie."""
    kind = exactness(metric)
    share = {"measured": MEASURED_NOISE, "loss": LOSS_NOISE}.get(kind, 0.0)
    low, high = value - share * abs(value), value + share * abs(value)
    if metric == "step_time_ms" and value > 0:
        below, above = _within(top), _within(bottom)
        low, high = min(low, value * below[0] / above[1]), max(high, value * below[1] / above[0])
    return low, high


def _within(row: Row | None) -> tuple[float, float]:
    """Return the middle half of a run's step times, as shares of its median; lower, where it waited for its core."""
    if row is None:
        return 1.0, 1.0
    low, middle, high = (row.value(name) for name in ("step_p25_ms", "step_time_ms", "step_p75_ms"))
    undisturbed = 1 - (row.value("waited_pct") or 0.0) / 100  # what is left of it on a core of its own
    if not (low and middle and high):
        return 1.0, 1.0
    return min(low / middle, max(undisturbed, LEAST_SHARE)), high / middle


STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "median": lambda values: quantile(sorted(values), 0.5),
    "mean": lambda values: math.fsum(values) / len(values),
    "min": min,
    "max": max,
}


def span_of(claim: Claim, items: Sequence[Item]) -> Span:
    """Return the statistic of what is known, and where it could lie for noise, missing cells left aside."""
    known = [item for item in items if item.evidence.value is not None]
    if not known:
        return None, None, None
    statistic = STATISTICS[claim.statistic]
    figure = statistic([item.evidence.value for item in known if item.evidence.value is not None])
    by_seed: dict[int | None, list[float]] = {}
    for item in known:
        by_seed.setdefault(item.numerator.seed, []).append(item.evidence.value or 0.0)
    if len(by_seed) > 1:
        found = of_mean([statistic(values) for values in by_seed.values()], CONFIDENCE)
        return found.low, found.mean, found.high
    return statistic([item.low for item in known]), figure, statistic([item.high for item in known])


def notes_on(metric: str, items: Sequence[Item]) -> list[str]:
    """Say where the two sides of a loss have not seen equally many samples an update."""
    if exactness(metric) != "loss":
        return []
    found = set()
    for item in items:
        above, below = (None if row is None else samples_per_update(row) for row in (item.numerator, item.denominator))
        if above and below and round(above / below, 2) != 1:
            found.add(above / below)
    return [f"the cells in question see {ratio:.3g} times the samples an update" for ratio in sorted(found)]
