"""Figures over a window of time: pure functions over samples.

A sample stands for the interval since the one before it. A window takes from each sample the part of that interval
which it covers, so that steps shorter than an interval share a sample's figure; such a figure is marked `shared`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from gradscope.core.samples import GpuSample, Sample


@dataclass(frozen=True, slots=True)
class WindowMean:
    """A mean over a window, weighted by time."""

    value: float
    covered_ns: int
    """The part of the window for which there were samples."""
    samples: int
    """How many took part."""
    shared: bool
    """The window lies within one sample's interval, so that its neighbours have the same figure."""


@dataclass(frozen=True, slots=True)
class Series:
    """One figure's samples in the order of time; those without it left out. Built once, asked for many windows."""

    starts_ns: list[int]
    ends_ns: list[int]
    values: list[float]

    @classmethod
    def of(cls, samples: Iterable[Sample], figure: Callable[[Sample], float | None]) -> Self:
        """Pick a figure out of samples, which are in the order of time."""
        known = [(sample, value) for sample in samples if (value := figure(sample)) is not None]
        return cls(
            [sample.t_ns - round(sample.interval_ms * 1e6) for sample, _ in known],
            [sample.t_ns for sample, _ in known],
            [float(value) for _, value in known],
        )

    def mean(self, start_ns: int, end_ns: int) -> WindowMean | None:
        """Return the mean over the window from `start_ns` to `end_ns`; `None` where no sample's interval touches it."""
        first = bisect_right(self.ends_ns, start_ns)
        weighted, covered, count, longest = 0.0, 0, 0, 0
        for i in range(first, len(self.ends_ns)):
            if self.starts_ns[i] >= end_ns:
                break
            overlap = min(end_ns, self.ends_ns[i]) - max(start_ns, self.starts_ns[i])
            if overlap <= 0:
                continue
            weighted += self.values[i] * overlap
            covered += overlap
            count += 1
            longest = max(longest, self.ends_ns[i] - self.starts_ns[i])
        if not covered:
            return None
        shared = count == 1 and covered == end_ns - start_ns < longest
        return WindowMean(weighted / covered, covered, count, shared)

    def within(self, start_ns: int, end_ns: int) -> list[float]:
        """Return the values of the samples taken in the window, its end included: for spreads."""
        return self.values[bisect_right(self.ends_ns, start_ns) : bisect_right(self.ends_ns, end_ns)]

    def at(self, t_ns: int) -> float | None:
        """Return the value at one instant, by a straight line between the samples around it; `None` outside of them."""
        after = bisect_left(self.ends_ns, t_ns)
        if after == len(self.ends_ns):
            return None
        if self.ends_ns[after] == t_ns:
            return self.values[after]
        if after == 0:
            return None
        t0, t1 = self.ends_ns[after - 1], self.ends_ns[after]
        v0, v1 = self.values[after - 1], self.values[after]
        return v0 + (v1 - v0) * (t_ns - t0) / (t1 - t0)


def card_figure(uuid: str, field: str) -> Callable[[Sample], float | None]:
    """Return a function that picks a field of `GpuSample` (e.g. `gpu_busy_pct`) for one card out of a sample."""

    def pick(sample: Sample) -> float | None:
        card = _card(sample, uuid)
        value = None if card is None else getattr(card, field)
        return None if value is None else float(value)

    return pick


def host_figure(field: str) -> Callable[[Sample], float | None]:
    """Return a function that picks a number of `HostSample` (e.g. `tree_cpu_pct`) out of a sample."""

    def pick(sample: Sample) -> float | None:
        value = None if sample.host is None else getattr(sample.host, field)
        return None if value is None else float(value)

    return pick


def _card(sample: Sample, uuid: str) -> GpuSample | None:
    return next((card for card in sample.gpus if card.uuid == uuid), None)
