"""An axis' range and unit: one unit per axis, round ends, and growth in steps so that nothing jumps between frames.

Use:

    keep = GrowingScale("bytes")                       # one for each axis, kept as long as the chart is on screen
    scale = keep.cover(highest([parameters, activations]))
    scale.label(1.5 * GIB)                             # "1.5"
    scale.share(1.5 * GIB)                             # 0.75 of an axis that ends at 2 GiB
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Quantity = Literal["bytes", "ms", "watt", "pct", "mhz", "celsius", "joule", "count", "per_second", "number"]
"""What an axis measures: the unit of the values that it is given, and of what it may be scaled to."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of an axis."""

    name: str
    """Empty for a plain number."""
    size: float
    """How much of the quantity one of it is."""


UNITS: dict[str, tuple[Unit, ...]] = {
    "bytes": tuple(Unit(name, 1024.0**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))),
    "ms": (Unit("ms", 1.0), Unit("s", 1000.0)),
    "watt": (Unit("W", 1.0), Unit("kW", 1000.0)),
    "pct": (Unit("%", 1.0),),
    "mhz": (Unit("MHz", 1.0), Unit("GHz", 1000.0)),
    "celsius": (Unit("°C", 1.0),),
    "joule": (Unit("mJ", 1e-3), Unit("J", 1.0), Unit("kJ", 1e3), Unit("MJ", 1e6)),
    "count": (Unit("", 1.0), Unit("k", 1e3), Unit("M", 1e6), Unit("B", 1e9), Unit("T", 1e12)),
    "per_second": (Unit("/s", 1.0), Unit("k/s", 1e3), Unit("M/s", 1e6), Unit("B/s", 1e9)),
    "number": (Unit("", 1.0),),
}
"""Units by quantity, the smallest first; a bigger one is taken where the axis ends at one of it or more."""

DECIMAL_ENDS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Where an axis may end, times a power of 10."""

BINARY_ENDS = (1.0, 1.5)
"""The same for bytes, times a power of 2: 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24 GiB."""

DECIMAL_TICKS = (1.0, 2.0, 5.0)
LOG_TICKS = (1.0, 2.0, 5.0)

HEADROOM = 1.02
"""How much further than its highest value an axis goes at least."""


SMALLEST, LARGEST = 1e-30, 1e30
"""What is nearer to 0 is 0 on an axis, and what is farther from it lies at its end."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of an axis; `low` < `high`, both in the quantity's own unit and never missing."""

    low: float
    high: float
    quantity: Quantity = "number"
    log: bool = False

    @property
    def unit(self) -> Unit:
        """The one unit in which all labels of this axis are."""
        top = max(abs(self.low), abs(self.high))
        units = UNITS[self.quantity]
        return next((unit for unit in reversed(units) if top >= unit.size), units[0])

    def share(self, value: float) -> float:
        """Return how far up the axis a value lies: 0 at `low`, 1 at `high`, never outside of these."""
        if self.log:
            if value <= self.low:
                return 0.0
            span = math.log(self.high) - math.log(self.low)
            return min(1.0, (math.log(value) - math.log(self.low)) / span)
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def holds(self, value: float) -> bool:
        """Whether a value lies within the axis."""
        return self.low <= value <= self.high

    def label(self, value: float, *, unit: bool = False) -> str:
        """Return a value on this axis as text, with the axis' unit where `unit` is set: `1.5`, `1.5 GiB`."""
        number = _short(value / self.unit.size)
        return f"{number} {self.unit.name}".rstrip() if unit else number

    def ticks(self, most: int) -> tuple[float, ...]:
        """Return round values to label, the lowest first; at most `most`, and at least the lower end if one fits."""
        if most < 1:
            return ()
        found = self._log_ticks() if self.log else self._linear_ticks(most)
        while len(found) > most:
            found = found[::2]
        return (self.low, self.high)[:most] if len(found) < 2 else found

    def _linear_ticks(self, most: int) -> tuple[float, ...]:
        size, span = self.unit.size, self.high - self.low
        base = 2.0 if self.quantity == "bytes" else 10.0
        factors = (1.0,) if self.quantity == "bytes" else DECIMAL_TICKS
        step = _round_up(span / size / max(1, most - 1), base, factors) * size
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return tuple((first + index) * step for index in range(max(0, count)))

    def _log_ticks(self) -> tuple[float, ...]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        factors = (1.0,) if last - first > 2 else LOG_TICKS
        every = (factor * 10.0**power for power in range(first, last + 1) for factor in factors)
        return tuple(value for value in every if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9))


def scale_for(
    low: float | None,
    high: float | None,
    quantity: Quantity = "number",
    *,
    log: bool = False,
    from_zero: bool = True,
    before: Scale | None = None,
) -> Scale:
    """Return a scale with round ends that covers `low` to `high` and all that `before` covered.

    Args:
        low: Lowest value; `None` where there is no value yet.
        high: Highest value; `None` where there is no value yet.
        quantity: What is measured.
        log: Logarithmic; values that are not above 0 are left out.
        from_zero: Start at 0 unless there are negative values; else near the lowest value.
        before: The scale of the last frame. It is returned as it is as long as it fits.
    """
    if before is not None and (before.quantity != quantity or before.log != log):
        before = None
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or (log and high < SMALLEST):
        one = UNITS[quantity][0].size
        return before or Scale(one / 10 if log else 0.0, one, quantity, log)
    low, high = _bounded(low), _bounded(high)
    if before is not None:
        if before.holds(high) and (before.holds(low) or (log and low <= 0)):
            return before
        low, high = min(low, before.low), max(high, before.high)
    if log:
        return _log_scale(low, high, quantity)
    return _from_zero(low, high, quantity) if from_zero else _around(low, high, quantity)


class GrowingScale:
    """An axis that is kept between frames: it grows in steps when a value needs it, and never shrinks."""

    def __init__(self, quantity: Quantity = "number", *, log: bool = False, from_zero: bool = True) -> None:
        """See `scale_for`."""
        self.quantity: Quantity = quantity
        self.log = log
        self.from_zero = from_zero
        self.scale: Scale | None = None

    def cover(self, high: float | None, low: float | None = 0.0) -> Scale:
        """Return the axis after it has grown to hold these two; `None` changes nothing."""
        low = high if low is None else low
        scale = scale_for(low, high, self.quantity, log=self.log, from_zero=self.from_zero, before=self.scale)
        if high is not None:
            self.scale = scale
        return scale


Values = Sequence[float | None]


def highest(columns: Iterable[Values]) -> float | None:
    """Return the highest finite value of all columns; `None` where there is none."""
    return max(_finite(columns), default=None)


def lowest(columns: Iterable[Values], *, above: float = -math.inf) -> float | None:
    """Return the lowest finite value above `above` of all columns; `None` where there is none."""
    return min((value for value in _finite(columns) if value > above), default=None)


def usual_top(values: Values, *, times: float = 3.0) -> float | None:
    """Return the highest value that is no more than `times` the median: one slow first step must not flatten a chart.

    Charts mark what lies above the axis.
    """
    there = sorted(_finite([values]))
    if not there:
        return None
    limit = there[len(there) // 2] * times
    return max((value for value in there if value <= limit), default=there[-1])


def stacked_tops(layers: Sequence[Values]) -> list[float | None]:
    """Return the height of each stacked column; `None` where all layers are missing."""
    return [
        sum(value for value in column if value is not None) if any(value is not None for value in column) else None
        for column in zip(*layers, strict=True)
    ]


def _finite(columns: Iterable[Values]) -> Iterable[float]:
    return (value for column in columns for value in column if value is not None and math.isfinite(value))


def _bounded(value: float) -> float:
    return 0.0 if abs(value) < SMALLEST else max(-LARGEST, min(LARGEST, value))


def _from_zero(low: float, high: float, quantity: Quantity) -> Scale:
    return Scale(
        0.0 if low >= 0 else -_end(-low * HEADROOM, quantity),
        _end(high * HEADROOM, quantity) if high > 0 else (UNITS[quantity][0].size if low >= 0 else 0.0),
        quantity,
    )


def _around(low: float, high: float, quantity: Quantity) -> Scale:
    least = max(abs(low), abs(high)) * 1e-9  # narrower than this, ends could not be told apart
    span = (high - low if high - low > least else abs(high) / 10) or UNITS[quantity][0].size
    base = 2.0 if quantity == "bytes" else 10.0
    step = _round_up(span / 4, base, (1.0,) if quantity == "bytes" else DECIMAL_TICKS)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    return Scale(bottom, top if top > bottom else bottom + step, quantity)


def _log_scale(low: float, high: float, quantity: Quantity) -> Scale:
    low = low if low > 0 else high / 1000
    power = 10.0 ** math.floor(math.log10(low))
    bottom = next(factor * power for factor in reversed(LOG_TICKS) if factor * power <= low * (1 + 1e-9))
    top = _round_up(high, 10.0, LOG_TICKS)
    return Scale(bottom, top if top > bottom else bottom * 10, quantity, log=True)


def _end(value: float, quantity: Quantity) -> float:
    """Round up to where an axis may end."""
    if quantity == "bytes":
        return _round_up(value, 2.0, BINARY_ENDS)
    return _round_up(value, 10.0, DECIMAL_ENDS)


def _round_up(value: float, base: float, factors: Sequence[float]) -> float:
    """Return the least `factor * base**n` that is not below `value`, which is above 0."""
    power = base ** math.floor(math.log(value, base))
    candidates = [factor * power * base**shift for shift in (-1, 0, 1) for factor in factors]
    for below, above in pairwise([0.0, *candidates]):
        if below < value * (1 - 1e-9) <= above:
            return above
    return candidates[-1]


def _short(number: float) -> str:
    """Return a number in at most 5 characters where that can be, without trailing zeros: `0`, `0.25`, `1e-05`."""
    if number == 0:
        return "0"
    if 1e-3 <= abs(number) < 1e5:
        return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"
    mantissa, _, exponent = f"{number:.2g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa
