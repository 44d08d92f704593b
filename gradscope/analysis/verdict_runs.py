"""Is a number of one side different from the other's? Judged over runs; with too few of them, `undecided`.

Two rules find a difference beyond noise, each of which calls hardly any equal pair different (a test draws thousands of
pairs with drift and bursts):

- the 99 % t interval over pairs excludes 0. Pairs are alternated runs, and what is averaged are log ratios: noise
  multiplies, and what drifts slowly cancels within a pair. A rank or sign test over 5 pairs could not do it: the least
  error that it can promise is 1 in 16.
- every pair differs by `CLEAR` or more, the same way. One run in a burst of foreign work widens the t interval beyond
  all use; this rule does not mind.

Runs that were not alternated are compared by Welch's interval, at least as many a side.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from gradscope.analysis.interval import Interval, of_difference, of_mean
from gradscope.analysis.quantities import Quantity
from gradscope.core.summary import Record

CONFIDENCE = 0.99
LEAST_RUNS = 5
"""Pairs, or runs a side, below which nothing measured is decided."""

CLEAR = 0.10
"""A difference that noise hardly makes in all of 5 pairs the same way."""

THRESHOLD = 0.02
"""Below this a difference is called none: it could be proved with runs enough, and would matter to nobody."""


class Verdict(StrEnum):
    """What became of the comparison of one number."""

    SAME = "same"
    """Exact on both sides, and equal."""
    HIGHER = "higher"
    """Beyond noise, and above the practical threshold where it is measured."""
    LOWER = "lower"
    NOISE = "noise"
    """Enough runs, and no difference beyond noise, or below the threshold; an exact loss is only ever the latter."""
    UNDECIDED = "undecided"
    """Too few runs, or things that cannot be compared."""
    MISSING = "missing"
    """A side has no such number."""


class Difference(Record, frozen=True, kw_only=True):
    """How a number of one side differs from the baseline's."""

    verdict: Verdict
    good: bool | None = None
    """Whether `higher` or `lower` is wanted; `None` for the other verdicts, and where neither is."""
    absolute: float | None = None
    """This side's value less the baseline's, in the number's own unit."""
    relative: float | None = None
    """The same as a share of the baseline's (0.05: 5 % more); `None` where that is 0."""
    low: float | None = None
    """Ends of the 99 % interval, of `relative`; of `absolute` for percentages. `None` with too few runs."""
    high: float | None = None
    beyond_noise: bool | None = None
    """Whether there is a difference, however small. `None`: undecided."""
    exact: bool = False
    """Equal runs give the very same figure, so that any difference is one."""
    paired: bool = False
    runs: int = 0
    """Pairs, or runs of the side that has fewer."""
    reason: str = ""
    """Why it is undecided or missing."""

    @property
    def half_width(self) -> float | None:
        """Half of the interval: what stands behind the ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


Values = Sequence[float | None]


def judge(
    quantity: Quantity,
    a: Values,
    b: Values,
    *,
    paired: bool,
    exact: bool | None = None,
    threshold: float = THRESHOLD,
) -> Difference:
    """Compare one number of two sides.

    Args:
        quantity: Which number.
        a: The baseline's values, one a run; `None` where a run has none.
        b: The other side's.
        paired: Whether the runs belong together one by one; then both are equally long.
        exact: Whether equal runs give the very same figure; by default, as the quantity says.
        threshold: Share of the baseline (percentage points, for percentages) below which there is no difference
            worth the name.
    """
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None] if paired else []
    first = [x for x, _ in pairs] if paired else known(a)
    second = [y for _, y in pairs] if paired else known(b)
    if not first or not second:
        there = bool(known(a)), bool(known(b))
        lacking = {(False, True): "the baseline", (True, False): "this side"}.get(there, "both sides")
        return Difference(verdict=Verdict.MISSING, paired=paired, reason=f"not measured on {lacking}")
    ratios = by_ratio(quantity, first, second)
    before, after = middle(first, ratios=ratios), middle(second, ratios=ratios)
    absolute = after - before
    relative = absolute / abs(before) if before else (0.0 if not absolute else None)
    found = Difference(
        verdict=Verdict.UNDECIDED,
        absolute=absolute,
        relative=relative,
        paired=paired,
        runs=min(len(first), len(second)),
    )
    constant = len(set(first)) == 1 and len(set(second)) == 1
    always = quantity.exactness == "exact" if exact is None else exact
    if always and constant:
        least = threshold if quantity.exactness == "loss" else 0.0
        return _decided(quantity, found, beyond=True, exact=True, threshold=least)
    if paired and (always or len(pairs) >= LEAST_RUNS) and all(x == y for x, y in pairs):
        return _decided(quantity, found, beyond=True, exact=True, threshold=0.0)  # losses of equal seeds
    if found.runs < LEAST_RUNS:
        return msgspec.structs.replace(found, reason=too_few(len(first), len(second), paired=paired))
    x, y = ([math.log(v) for v in first], [math.log(v) for v in second]) if ratios else (first, second)
    steps = [after - before for before, after in zip(x, y, strict=True)] if paired else []
    interval = of_mean(steps, CONFIDENCE) if paired else of_difference(x, y, CONFIDENCE)
    least = math.log1p(CLEAR) if ratios else CLEAR * (100 if quantity.unit == "pct" else abs(before))
    clear = paired and least > 0 and (min(steps) >= least or max(steps) <= -least)
    low, high = _ends(interval, quantity, before, ratios=ratios)
    found = msgspec.structs.replace(found, low=low, high=high)
    return _decided(quantity, found, beyond=interval.excludes_zero or clear, exact=False, threshold=threshold)


def known(values: Values) -> list[float]:
    """Return the values that are there."""
    return [value for value in values if value is not None]


def by_ratio(quantity: Quantity, *sides: Sequence[float]) -> bool:
    """Whether these values are compared by their ratios."""
    return quantity.by_ratio and all(value > 0 for side in sides for value in side)


def middle(values: Sequence[float], *, ratios: bool) -> float:
    """Return the mean of some runs: the geometric one where ratios are compared, so that figures and ratio agree."""
    if len(set(values)) == 1:
        return values[0]
    if ratios:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


def too_few(a: int, b: int, *, paired: bool) -> str:
    """Say how many runs there are, and what decides."""
    if a == b == 1:
        return f"one run a side; --repeat {LEAST_RUNS} decides"
    if paired:
        return f"{a} pairs; --repeat {LEAST_RUNS} decides"
    return f"{a} and {b} runs; {LEAST_RUNS} a side decide"


def _ends(interval: Interval, quantity: Quantity, before: float, *, ratios: bool) -> tuple[float | None, float | None]:
    """Return an interval's ends as `Difference` holds them."""
    if ratios:
        return math.expm1(interval.low), math.expm1(interval.high)
    if quantity.unit == "pct":
        return interval.low, interval.high
    return (interval.low / abs(before), interval.high / abs(before)) if before else (None, None)


def size(quantity: Quantity, found: Difference) -> float | None:
    """Return how large a difference is, signed: as a share, and in points of 100 for percentages."""
    return (None if found.absolute is None else found.absolute / 100) if quantity.unit == "pct" else found.relative


def _decided(quantity: Quantity, found: Difference, *, beyond: bool, exact: bool, threshold: float) -> Difference:
    change, absolute = size(quantity, found), found.absolute or 0.0
    if exact and absolute == 0:
        return msgspec.structs.replace(found, verdict=Verdict.SAME, beyond_noise=False, exact=True)
    if not beyond or (change is not None and abs(change) < threshold):
        return msgspec.structs.replace(found, verdict=Verdict.NOISE, beyond_noise=beyond, exact=exact)
    verdict = Verdict.HIGHER if absolute > 0 else Verdict.LOWER
    good = None if quantity.better is None else (verdict is Verdict.HIGHER) == (quantity.better == "higher")
    return msgspec.structs.replace(found, verdict=verdict, good=good, beyond_noise=True, exact=exact)
