"""Memory, utilization, energy and floating-point work of a run: measured events and samples, reduced.

A sample stands for the interval before it; of one that reaches over the edge of the measured steps, only the part
within counts.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gradscope.analysis.cards import peak_flops_per_second
from gradscope.analysis.fold import RunRecord, measured_spans_ns
from gradscope.analysis.training import duration
from gradscope.core.events import MemoryMeasured, WorkerStarted
from gradscope.core.samples import GpuSample, Sample
from gradscope.core.statistics import spread
from gradscope.core.summary import Energy, Flops, Memory, Share, Utilization
from gradscope.sampling.energy import energy_series
from gradscope.sampling.visible import bare_uuid
from gradscope.sampling.windows import Series, card_figure, host_figure

CATEGORIES = (
    "parameters_bytes",
    "buffers_bytes",
    "gradients_bytes",
    "optimizer_state_bytes",
    "inputs_bytes",
    "saved_activations_bytes",
    "peak_activations_bytes",
)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A run's samples, what of them belongs to measured steps, and which card is the run's."""

    samples: list[Sample]
    spans_ns: list[tuple[int, int]]
    uuid: str | None
    """As the samples spell it; `None` on a CPU, and where the card cannot be told from its neighbours."""

    @property
    def within(self) -> list[Sample]:
        """The samples taken during measured steps."""
        return [sample for sample in self.samples if any(start < sample.t_ns <= end for start, end in self.spans_ns)]

    @property
    def cards(self) -> list[GpuSample]:
        """The run's card at the samples taken during measured steps."""
        return [gpu for sample in self.within for gpu in sample.gpus if gpu.uuid == self.uuid]

    def card(self, field: str) -> Series | None:
        """Return one figure of the run's card over the whole run."""
        return None if self.uuid is None else Series.of(self.samples, card_figure(self.uuid, field))


def sampled(record: RunRecord, samples: Iterable[Sample]) -> Sampled:
    """Lay samples over a run."""
    known = list(samples)
    return Sampled(known, measured_spans_ns(record), own_uuid(record, known))


def own_uuid(record: RunRecord, samples: Sequence[Sample]) -> str | None:
    """Return the sampled card that the run trains on; see `own_card`."""
    return own_card(record.started, {gpu.uuid for sample in samples for gpu in sample.gpus})


def own_card(started: WorkerStarted | None, seen: Collection[str]) -> str | None:
    """Return which of the sampled cards a run trains on: the one torch names, or the only one there is."""
    if started is None or not started.device.startswith("cuda"):
        return None
    wanted = bare_uuid(started.device_uuid or "")
    named = [uuid for uuid in seen if wanted and bare_uuid(uuid) == wanted]
    if named or len(seen) != 1:
        return named[0] if named else None
    return next(iter(seen))


def memory(record: RunRecord, seen: Sampled, *, foretold_peak_bytes: int | None = None) -> Memory:
    """Reduce what was measured of memory: the largest of each category, and the peaks."""
    measured = record.memory
    step_peaks = [step.allocated_peak_bytes for step in record.measured if step.allocated_peak_bytes is not None]
    other_peaks = [event.allocated_peak_bytes for event in measured if event.allocated_peak_bytes is not None]
    reserved = [step.reserved_bytes for step in record.measured] + [event.reserved_peak_bytes for event in measured]
    phases = list(dict.fromkeys(name for event in measured for name in event.phase_peak_bytes))
    resident = _largest(sample.host.worker_resident_bytes for sample in seen.within if sample.host)
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
        foretold_peak_bytes=foretold_peak_bytes,
        reserved_peak_bytes=_largest(reserved),
        resident_growth_bytes=None if resident is None or at_start is None else resident - at_start,
        device_used_peak_bytes=_largest(gpu.used_bytes for gpu in seen.cards),
        process_used_peak_bytes=_largest(gpu.process_bytes for gpu in seen.cards),
    )


def _categories_step(measured: Sequence[MemoryMeasured]) -> int | None:
    steps = [event.step for event in measured if event.parameters_bytes is not None]
    return steps[-1] if steps else None


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def utilization(record: RunRecord, seen: Sampled) -> Utilization:
    """Reduce how busy card and host were."""
    temperatures = [gpu.temperature_c for gpu in seen.cards if gpu.temperature_c is not None]
    intervals = spread(sample.interval_ms for sample in seen.within)
    step_ms = spread(step.wall_ms for step in record.measured)
    return Utilization(
        gpu_busy_pct=share(seen.card("gpu_busy_pct"), seen.spans_ns),
        memory_busy_pct=share(seen.card("memory_busy_pct"), seen.spans_ns),
        cpu_pct=share(Series.of(seen.samples, host_figure("tree_cpu_pct")), seen.spans_ns),
        throttle_reasons=sorted({reason for gpu in seen.cards for reason in gpu.throttle or ()}),
        temperature_max_c=max(temperatures, default=None),
        interval_ms=intervals.median if intervals else None,
        steps_shorter_than_a_sample=step_ms.median < intervals.median if step_ms and intervals else None,
    )


def share(series: Series | None, spans_ns: Sequence[tuple[int, int]]) -> Share | None:
    """Reduce one sampled figure over the measured steps; `None` if no sample has it."""
    if series is None:
        return None
    means = [mean for start, end in spans_ns if (mean := series.mean(start, end)) is not None]
    if not means:
        return None
    inside = spread(value for start, end in spans_ns for value in series.within(start, end))
    several = inside is not None and inside.count > 1  # one sample has no spread
    return Share(
        mean=sum(mean.value * mean.covered_ns for mean in means) / sum(mean.covered_ns for mean in means),
        p5=inside.p5 if inside and several else None,
        p95=inside.p95 if inside and several else None,
        samples=inside.count if inside else 0,
    )


def energy(record: RunRecord, seen: Sampled) -> Energy:
    """Reduce the card's power, and its energy in the measured steps: all of it over all of them."""
    power = share(seen.card("power_w"), seen.spans_ns)
    if seen.uuid is None or not seen.spans_ns:
        return Energy(power_w=power)
    series = energy_series(seen.samples, seen.uuid)
    parts = [part for start, end in seen.spans_ns if (part := series.window(start, end)) is not None]
    if len(parts) < len(seen.spans_ns):  # a part of the measured steps is not covered: their energy is unknown
        return Energy(power_w=power)
    joules, done = sum(part.mj for part in parts) / 1000, duration(record)
    return Energy(
        power_w=power,
        joules=joules,
        joules_per_step=joules / done.measured_steps if done.measured_steps else None,
        joules_per_sample=joules / done.samples if done.samples else None,
        source=" and ".join(sorted({part.source for part in parts})),
    )


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
