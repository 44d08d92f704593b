"""Memory, utilization and floating-point work of a run: measured events and samples, reduced.

A sample stands for the interval before it and counts only if all of that interval lies in measured steps.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from gradscope.analysis.cards import peak_flops_per_second
from gradscope.analysis.fold import RunRecord, measured_spans_ns
from gradscope.analysis.training import duration
from gradscope.core.events import MemoryMeasured
from gradscope.core.samples import GpuSample, HostSample, Sample
from gradscope.core.statistics import spread
from gradscope.core.summary import Flops, Memory, Share, Utilization

CATEGORIES = (
    "parameters_bytes",
    "buffers_bytes",
    "gradients_bytes",
    "optimizer_state_bytes",
    "inputs_bytes",
    "saved_activations_bytes",
    "peak_activations_bytes",
)


def measured_samples(record: RunRecord, samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples whose whole interval lies within measured steps."""
    spans = measured_spans_ns(record)
    return [
        sample
        for sample in samples
        if any(start <= sample.t_ns - sample.interval_ms * 1e6 and sample.t_ns <= end for start, end in spans)
    ]


def own_gpu(record: RunRecord, sample: Sample) -> GpuSample | None:
    """Return the card the run trains on; `None` on a CPU, and where it cannot be told from its neighbours."""
    if record.started is None or record.started.device.startswith("cpu"):
        return None
    uuid = bare_uuid(record.started.device_uuid)
    named = [gpu for gpu in sample.gpus if uuid and bare_uuid(gpu.uuid) == uuid]
    if named:
        return named[0]
    return sample.gpus[0] if len(sample.gpus) == 1 else None


def bare_uuid(uuid: str | None) -> str:
    """Return a UUID without the `GPU-` that NVML writes before it and torch does not."""
    return (uuid or "").lower().removeprefix("gpu-")


def memory(record: RunRecord, samples: Sequence[Sample]) -> Memory:
    """Reduce what was measured of memory: the largest of each category, and the peaks.

    Args:
        record: The run.
        samples: Those of measured steps.
    """
    measured = record.memory
    step_peaks = [step.allocated_peak_bytes for step in record.measured if step.allocated_peak_bytes is not None]
    other_peaks = [event.allocated_peak_bytes for event in measured if event.allocated_peak_bytes is not None]
    reserved = [step.reserved_bytes for step in record.measured] + [event.reserved_peak_bytes for event in measured]
    phases = list(dict.fromkeys(name for event in measured for name in event.phase_peak_bytes))
    cards = [gpu for sample in samples if (gpu := own_gpu(record, sample))]
    resident = _largest(sample.host.tree_resident_bytes for sample in samples if sample.host)
    at_start = record.started.resident_bytes if record.started else None
    return Memory(
        **{name: _largest(getattr(event, name) for event in measured) for name in CATEGORIES},
        categories_step=_categories_step(measured),
        phase_peak_bytes={
            name: max(event.phase_peak_bytes[name] for event in measured if name in event.phase_peak_bytes)
            for name in phases
        },
        allocated_peak_bytes=max(step_peaks or other_peaks, default=None),
        allocated_peak_source="measured steps" if step_peaks else "one memory step" if other_peaks else None,
        reserved_peak_bytes=_largest(reserved),
        resident_growth_bytes=None if resident is None or at_start is None else resident - at_start,
        device_used_peak_bytes=_largest(gpu.used_bytes for gpu in cards),
        process_used_peak_bytes=_largest(gpu.process_bytes for gpu in cards),
    )


def _categories_step(measured: Sequence[MemoryMeasured]) -> int | None:
    steps = [event.step for event in measured if event.parameters_bytes is not None]
    return steps[-1] if steps else None


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def utilization(record: RunRecord, samples: Sequence[Sample]) -> Utilization:
    """Reduce how busy card and host were.

    Args:
        record: The run.
        samples: Those of measured steps.
    """
    cards = [gpu for sample in samples if (gpu := own_gpu(record, sample))]
    temperatures = [gpu.temperature_c for gpu in cards if gpu.temperature_c is not None]
    intervals = spread(sample.interval_ms for sample in samples)
    step_ms = spread(step.wall_ms for step in record.measured)
    return Utilization(
        gpu_busy_pct=gpu_share(record, samples, lambda gpu: gpu.gpu_busy_pct),
        memory_busy_pct=gpu_share(record, samples, lambda gpu: gpu.memory_busy_pct),
        cpu_pct=_host_share(samples, lambda host: host.tree_cpu_pct),
        throttle_reasons=sorted({reason for gpu in cards for reason in gpu.throttle or ()}),
        temperature_max_c=max(temperatures, default=None),
        interval_ms=intervals.median if intervals else None,
        steps_shorter_than_a_sample=step_ms.median < intervals.median if step_ms and intervals else None,
    )


def gpu_share(record: RunRecord, samples: Sequence[Sample], value: Callable[[GpuSample], float | None]) -> Share | None:
    """Reduce one figure of the run's card."""
    pairs = [(value(gpu), sample.interval_ms) for sample in samples if (gpu := own_gpu(record, sample))]
    return _share(pairs)


def _host_share(samples: Sequence[Sample], value: Callable[[HostSample], float | None]) -> Share | None:
    return _share([(value(sample.host), sample.interval_ms) for sample in samples if sample.host])


def _share(pairs: Iterable[tuple[float | None, float]]) -> Share | None:
    """Reduce (value, ms it stands for) pairs; `None` if no sample has a value."""
    known = [(value, weight) for value, weight in pairs if value is not None]
    values, weight = spread(value for value, _ in known), math.fsum(weight for _, weight in known)
    if values is None or weight <= 0:
        return None
    mean = math.fsum(value * share for value, share in known) / weight
    return Share(mean=mean, p5=values.p5, p95=values.p95, samples=values.count)


def flops(record: RunRecord, precision: str | None) -> Flops:
    """Turn counted operations into a rate: those of one gradient x gradients computed / measured seconds."""
    if record.flops is None:
        return Flops()
    done = duration(record)
    rate = None
    if done.measured_seconds:
        rate = record.flops.model_flops * done.evaluations / done.measured_seconds
    on_gpu = record.started is not None and record.started.device.startswith("cuda")
    peak = peak_flops_per_second(record.started.device_name, precision) if record.started and on_gpu else None
    return Flops(
        model=record.flops.model_flops,
        executed=record.flops.executed_flops,
        model_per_second=rate,
        peak_per_second=peak,
        share_of_peak=rate / peak if rate is not None and peak else None,
    )
