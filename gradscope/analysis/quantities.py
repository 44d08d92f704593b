"""What two runs can be compared by: the headline numbers, phases, memory categories and counts, by name.

`core/metrics.py` has the headline numbers; here stands what comparing adds: the unit, whether equal runs give the very
same figure, and the spread within a run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gradscope.core.events import PHASES
from gradscope.core.metrics import METRICS
from gradscope.core.statistics import Spread
from gradscope.core.summary import Share, Summary
from gradscope.core.units import format_bytes, format_count, format_ms, format_number, format_pct, format_si

Unit = Literal["bytes", "ms", "per_s", "pct", "watt", "joule", "flops", "number", "count"]

Exactness = Literal["measured", "exact", "loss"]
"""`measured`: differs between equal runs. `exact`: a size or a count, equal in equal runs. `loss`: equal in runs on a
CPU with equal seeds, threads and versions, and measured otherwise."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number that runs are compared by."""

    name: str
    """Stable, with its unit."""
    label: str
    unit: Unit
    exactness: Exactness
    better: Literal["lower", "higher"] | None
    """`None` where more is neither good nor bad."""
    value: Callable[[Summary], float | None]
    within: Callable[[Summary], tuple[float, float] | None]
    """5th and 95th percentile within a run; `None` where there is but one value."""

    @property
    def by_ratio(self) -> bool:
        """Whether runs of it are compared by ratios; by differences otherwise: shares, and what may be below 0."""
        return self.unit not in ("pct", "number")


UNITS: dict[str, Unit] = {
    "loss_last": "number",
    "loss_min": "number",
    "step_time_ms": "ms",
    "samples_per_s": "per_s",
    "tokens_per_s": "per_s",
    "gpu_busy_pct": "pct",
    "memory_busy_pct": "pct",
    "cpu_pct": "pct",
    "power_w": "watt",
    "energy_per_step_j": "joule",
    "energy_per_sample_j": "joule",
    "model_flops_per_s": "flops",
    "audit_error": "number",
}
"""Units of headline numbers; of those not listed, the end of the name says it."""

EXACT = frozenset({"peak_memory_bytes", "peak_activations_bytes", "audit_error"})
LOSSES = frozenset({"loss_last", "loss_min"})

MEMORY_CATEGORIES = ("parameters", "buffers", "gradients", "optimizer_state", "inputs", "peak_activations")
"""What adds up to the peak in backward; `NAME_bytes` are the fields of `Memory`."""


def _share(share: Share | None) -> tuple[float, float] | None:
    return None if share is None or share.p5 is None or share.p95 is None else (share.p5, share.p95)


def _spread(spread: Spread | None) -> tuple[float, float] | None:
    return None if spread is None or spread.count < 2 else (spread.p5, spread.p95)


WITHIN: dict[str, Callable[[Summary], tuple[float, float] | None]] = {
    "step_time_ms": lambda run: _spread(run.time.step_ms),
    "gpu_busy_pct": lambda run: _share(run.utilization.gpu_busy_pct),
    "memory_busy_pct": lambda run: _share(run.utilization.memory_busy_pct),
    "cpu_pct": lambda run: _share(run.utilization.cpu_pct),
    "power_w": lambda run: _share(run.energy.power_w),
}


def _no_spread(_: Summary) -> None:
    return None


def _headline() -> list[Quantity]:
    found = []
    for name, metric in METRICS.items():
        unit: Unit = UNITS.get(name, "bytes" if name.endswith("_bytes") else "number")
        exactness: Exactness = "exact" if name in EXACT else "loss" if name in LOSSES else "measured"
        within = WITHIN.get(name, _no_spread)
        found.append(Quantity(name, metric.label, unit, exactness, metric.better, metric.value, within))
        if name == "step_time_ms":
            found.append(_fast_steps())
    return found


def _fast_steps() -> Quantity:
    """The 5th percentile of a run's steps: what a step takes while nothing else is in its way.

    Foreign work only ever makes a step longer, so that on a shared machine low percentiles repeat far better than the
    median (Chen, Revels: "Robust benchmarking in noisy environments", HPEC 2016). It is blind to what slows down a few
    steps only.
    """

    def value(run: Summary) -> float | None:
        return run.time.step_ms.p5 if run.time.step_ms else None

    return Quantity("step_time_p5_ms", "step time p5", "ms", "measured", "lower", value, _no_spread)


def _phase(name: str) -> Quantity:
    def value(run: Summary) -> float | None:
        phase = run.time.phase_ms.get(name)
        return None if phase is None else phase.median

    def within(run: Summary) -> tuple[float, float] | None:
        return _spread(run.time.phase_ms.get(name))

    return Quantity(f"phase_{name}_ms", f"phase {name}", "ms", "measured", "lower", value, within)


def _category(name: str) -> Quantity:
    field = f"{name}_bytes"

    def value(run: Summary) -> float | None:
        found: int | None = getattr(run.memory, field)
        return found

    return Quantity(field, name.replace("_", " "), "bytes", "exact", "lower", value, _no_spread)


def _count(name: str, label: str, value: Callable[[Summary], float | None]) -> Quantity:
    return Quantity(name, label, "count", "exact", None, value, _no_spread)


QUANTITIES: dict[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        *_headline(),
        *map(_phase, PHASES),
        *(_category(name) for name in MEMORY_CATEGORIES if name != "peak_activations"),
        _category("saved_activations"),
        _count("parameters", "parameters", lambda run: run.identity.parameters),
        _count("updates", "updates measured", lambda run: run.duration.measured_steps),
        _count("samples", "samples measured", lambda run: run.duration.samples),
        _count("tokens", "tokens measured", lambda run: run.duration.tokens),
    )
}
"""All of them by name: the headline numbers first."""

HEADLINE = tuple(name for name in QUANTITIES if name in METRICS or name == "step_time_p5_ms")
"""What a table of a comparison shows."""

_FORMATS: dict[Unit, Callable[[float | None], str]] = {
    "bytes": format_bytes,
    "ms": format_ms,
    "per_s": lambda value: format_count(value) + ("" if value is None else "/s"),
    "pct": format_pct,
    "watt": lambda value: format_si(value, "W"),
    "joule": lambda value: format_si(value, "J"),
    "flops": lambda value: format_si(value, "FLOP/s"),
    "number": format_number,
    "count": format_count,
}


def shown_value(quantity: Quantity, value: float | None) -> str:
    """Return a value of a quantity, or a difference of two, as text with its unit."""
    return _FORMATS[quantity.unit](value)
