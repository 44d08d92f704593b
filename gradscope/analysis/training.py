"""What a run did, its loss, and where its time went: everything that the step records say."""

import math
from collections.abc import Callable, Sequence

from gradscope.analysis.fold import RunRecord
from gradscope.core.events import PHASES, Stage, Step
from gradscope.core.statistics import spread
from gradscope.core.summary import Duration, Loss, Time

CURVE_POINTS = 2000
"""Points kept of a loss curve."""


def duration(record: RunRecord) -> Duration:
    """Count steps, items and seconds."""
    steps, totals, first = record.measured, record.totals, _first_step(record)
    planned = [entered.steps for entered in record.stages if entered.stage is Stage.MEASURE]
    wall_ns = record.last_t_ns - record.started.t_ns if record.started and record.last_t_ns is not None else None
    tokens = [step.tokens * step.covers for step in steps if step.tokens is not None]
    return Duration(
        warmup_steps=_count(record.steps[Stage.WARMUP]),
        measured_steps=totals.steps if totals else _count(steps),
        planned_steps=planned[0] if planned else None,
        profiled_steps=_count(record.steps[Stage.PROFILE]),
        samples=totals.samples if totals else sum(step.samples * step.covers for step in steps),
        tokens=totals.tokens if totals else (sum(tokens) if tokens else None),
        evaluations=sum(step.evaluations * step.covers for step in steps),
        measured_seconds=measured_seconds(record),
        wall_seconds=None if wall_ns is None else wall_ns / 1e9,
        import_seconds=record.started.import_seconds if record.started else None,
        build_seconds=record.built.build_seconds if record.built else None,
        first_step_ms=first.wall_ms if first else None,
    )


def measured_seconds(record: RunRecord) -> float | None:
    """Return the seconds of all measured steps; the worker's own sum where the run got so far as to write it."""
    if record.totals:
        return record.totals.seconds if record.totals.steps else None
    return math.fsum(step.wall_ms * step.covers for step in record.measured) / 1000 if record.measured else None


def loss(record: RunRecord) -> Loss:
    """Reduce the measured steps' losses. A step in which no row had a label has none and is passed over."""
    steps = [step for step in record.measured if step.loss is not None or step.nonfinite is not None]
    finite = [step.loss for step in steps if step.loss is not None]
    everything = [step for stage in record.steps.values() for step in stage]
    return Loss(
        first=steps[0].loss if steps else None,
        last=steps[-1].loss if steps else None,
        minimum=min(finite) if finite else None,
        curve=[(step.step, step.loss) for step in thinned(steps, CURVE_POINTS)],
        nonfinite_steps=sum(1 for step in everything if step.nonfinite is not None),
    )


def thinned(steps: Sequence[Step], limit: int) -> list[Step]:
    """Return at most `limit` of the steps, evenly taken, the first and the last among them."""
    if len(steps) <= limit:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (limit - 1))] for index in range(limit)]


def time(record: RunRecord) -> Time:
    """Reduce the measured steps' times. Rates are all items over all seconds, not means of rates."""
    steps = record.measured
    done, seconds = duration(record), measured_seconds(record)
    getters = {name: _phase(name) for name in PHASES}
    present = {name: get for name, get in getters.items() if any(get(step) is not None for step in steps)}
    phase_ms = {name: spread(get(step) for step in steps for _ in range(step.covers)) for name, get in present.items()}
    wall_ms = math.fsum(step.wall_ms * step.covers for step in steps)
    overhead_ms = record.totals.instrumentation_ms if record.totals else None
    return Time(
        step_ms=spread(step.wall_ms for step in steps for _ in range(step.covers)),
        phase_ms={name: value for name, value in phase_ms.items() if value is not None},
        phase_share={
            name: math.fsum((get(step) or 0.0) * step.covers for step in steps) / wall_ms
            for name, get in present.items()
            if wall_ms > 0
        },
        steps_per_second=_rate(done.measured_steps, seconds),
        samples_per_second=_rate(done.samples, seconds),
        tokens_per_second=_rate(done.tokens, seconds),
        instrumentation_ms=overhead_ms,
        instrumentation_share=_rate(overhead_ms, seconds * 1000 if seconds else None),
    )


def _phase(name: str) -> Callable[[Step], float | None]:
    return lambda step: getattr(step.phases, name)


def _rate(amount: float | None, seconds: float | None) -> float | None:
    return amount / seconds if amount is not None and seconds else None


def _count(steps: Sequence[Step]) -> int:
    return sum(step.covers for step in steps)


def _first_step(record: RunRecord) -> Step | None:
    first = [steps[0] for steps in record.steps.values() if steps]
    return min(first, key=lambda step: step.step) if first else None
