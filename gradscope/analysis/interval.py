"""Intervals of a mean from a few values, by Student's t (Biometrika 6, 1908). The values are runs, never steps.

Steps of one run depend on each other, so thousands of them know no more of the next run than their median does: on
equal runs of one machine, a rank test over raw steps found "a difference" in 76 % of pairs. A benchmark's unit of
replication is the process (Georges, Buytaert, Eeckhout: "Statistically rigorous Java performance evaluation", OOPSLA
2007; Kalibera, Jones: "Rigorous benchmarking in reasonable time", ISMM 2013).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and how well it is known."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether all of it lies on one side of 0."""
        return self.low > 0 or self.high < 0


def of_mean(values: Sequence[float], confidence: float) -> Interval:
    """Return the interval of the mean of at least 2 independent values."""
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = t_quantile(count - 1, (1 + confidence) / 2) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half)


def of_difference(a: Sequence[float], b: Sequence[float], confidence: float) -> Interval:
    """Return the interval of mean(b) - mean(a) for unpaired values, at least 2 a side.

    Welch's (Biometrika 34, 1947), its degrees of freedom rounded down, which widens it.
    """
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    part_a = math.fsum((value - mean_a) ** 2 for value in a) / (len(a) - 1) / len(a)
    part_b = math.fsum((value - mean_b) ** 2 for value in b) / (len(b) - 1) / len(b)
    both, mean = part_a + part_b, mean_b - mean_a
    if both == 0:
        return Interval(mean, mean, mean)
    freedom = both**2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    half = t_quantile(max(1, math.floor(freedom)), (1 + confidence) / 2) * math.sqrt(both)
    return Interval(mean, mean - half, mean + half)


@lru_cache(maxsize=256)
def t_quantile(freedom: int, probability: float) -> float:
    """Return the quantile of Student's distribution with a whole number of degrees of freedom, above the median."""
    low, high = 0.0, 1.0
    while t_within(freedom, high) < 2 * probability - 1:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(freedom, middle) < 2 * probability - 1 else (low, middle)
    return (low + high) / 2


def t_within(freedom: int, t: float) -> float:
    """Return the probability of a value between -t and t (Abramowitz, Stegun: 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
