"""A run's headline numbers by name: what tables have as columns, claims compare, and TensorBoard lists.

Adding one is one entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gradscope.core.summary import Share, Summary


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a summary."""

    name: str
    """Stable, with its unit."""
    label: str
    better: Literal["lower", "higher"]
    value: Callable[[Summary], float | None]


def _mean(share: Share | None) -> float | None:
    return None if share is None else share.mean


def _step_time(run: Summary) -> float | None:
    return run.time.step_ms.median if run.time.step_ms else None


def _audit_error(run: Summary) -> float | None:
    return run.audit.error if run.audit else None


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("loss_last", "last loss", "lower", lambda run: run.loss.last),
        Metric("loss_min", "lowest loss", "lower", lambda run: run.loss.minimum),
        Metric("step_time_ms", "step time", "lower", _step_time),
        Metric("samples_per_s", "samples/s", "higher", lambda run: run.time.samples_per_second),
        Metric("tokens_per_s", "tokens/s", "higher", lambda run: run.time.tokens_per_second),
        Metric("peak_memory_bytes", "peak memory", "lower", lambda run: run.memory.allocated_peak_bytes),
        Metric("peak_activations_bytes", "peak activations", "lower", lambda run: run.memory.peak_activations_bytes),
        Metric("resident_growth_bytes", "resident growth", "lower", lambda run: run.memory.resident_growth_bytes),
        Metric("gpu_busy_pct", "GPU busy", "higher", lambda run: _mean(run.utilization.gpu_busy_pct)),
        Metric("memory_busy_pct", "GPU memory busy", "higher", lambda run: _mean(run.utilization.memory_busy_pct)),
        Metric("cpu_pct", "CPU", "lower", lambda run: _mean(run.utilization.cpu_pct)),
        Metric("power_w", "power", "lower", lambda run: _mean(run.energy.power_w)),
        Metric("energy_per_step_j", "energy a step", "lower", lambda run: run.energy.joules_per_step),
        Metric("energy_per_sample_j", "energy a sample", "lower", lambda run: run.energy.joules_per_sample),
        Metric("model_flops_per_s", "FLOP/s", "higher", lambda run: run.flops.model_per_second),
        Metric("audit_error", "gradient error", "lower", _audit_error),
    )
}
"""Metrics by name, in the order of tables."""


def metrics(summary: Summary) -> dict[str, float | None]:
    """Return all headline numbers of a run; `None` for those that were not measured."""
    return {name: metric.value(summary) for name, metric in METRICS.items()}
