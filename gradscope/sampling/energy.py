"""The energy that one card drew in a window of time: pure functions over samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradscope.core.samples import Sample
from gradscope.sampling.windows import Series, card_figure

LEAST_COVERED = 0.9
"""Below this share of a window with power samples, its energy is unknown."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a window."""

    mj: float
    """Millijoules."""
    source: Literal["counter", "power integral"]
    """`counter`: NVML's own. `power integral`: the mean of power samples times the window's length."""
    shared: bool = False
    """The window is shorter than a sample's interval: the figure is a share of that interval's energy."""


@dataclass(frozen=True, slots=True)
class EnergySeries:
    """One card's energy, ready to be asked for many windows."""

    counter: Series
    power: Series

    def window(self, start_ns: int, end_ns: int) -> Energy | None:
        """Return the energy from `start_ns` to `end_ns`.

        The counter is read off at both ends by a straight line between the samples around them. Where it does not reach
        over the whole window, power counts if it was sampled in at least 90 % of it; else there is no figure.
        """
        if end_ns <= start_ns:
            return None
        start, end = self.counter.at(start_ns), self.counter.at(end_ns)
        if start is not None and end is not None:
            return Energy(end - start, "counter", shared=not self.counter.within(start_ns - 1, end_ns))
        mean = self.power.mean(start_ns, end_ns)
        if mean is None or mean.covered_ns < LEAST_COVERED * (end_ns - start_ns):
            return None
        return Energy(mean.value * (end_ns - start_ns) / 1e6, "power integral", mean.shared)


def energy_series(samples: Sequence[Sample], uuid: str) -> EnergySeries:
    """Return the energy of the card `uuid`, from its counter and its power."""
    return EnergySeries(
        Series.of(samples, card_figure(uuid, "energy_mj")), Series.of(samples, card_figure(uuid, "power_w"))
    )
