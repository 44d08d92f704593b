"""A run as TensorBoard reads it: scalars, hyperparameters with metrics, and the preset as text. Needs no torch.

Measured steps are under `loss/`, `time/`, `throughput/`, ...; steps that count in no number are under `excluded/`. What
was measured in one step only (memory by category) is one point at that step: nothing is carried over into other steps.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscope.core.clock import ClockPair
from gradscope.core.events import AnyEvent, MemoryMeasured, Stage, Step, WorkerStarted
from gradscope.core.metrics import METRICS, metrics
from gradscope.core.samples import GpuSample, Sample, SampleLine
from gradscope.core.summary import Summary
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.files import read_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import SUMMARY, tensorboard_file
from gradscope.rundir.manifest import Manifest

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

MIB = 1024 * 1024

STEPS_SHOWN = 20_000
"""Of more step records than this, only every n-th is exported; TensorBoard itself shows a thousand by default."""

HPARAMS: dict[str, tuple[str, type]] = {
    "preset": ("preset", str),
    "model": ("model", str),
    "scale": ("scale", str),
    "optimizer": ("optimizer", str),
    "lr": ("learning_rate", float),
    "strategy": ("strategy", str),
    "k": ("micro_steps", float),
    "mode": ("accumulation_mode", str),
    "batch": ("batch_rows", float),
    "precision": ("precision", str),
    "compile": ("compiled", bool),
    "threads": ("threads", float),
    "seed": ("seed", float),
    "device": ("device_name", str),
}
"""Names in TensorBoard's HPARAMS tab, the fields of `Identity` they show, and what those hold. All runs name them all,
whether set or not: TensorBoard takes the columns from whichever run it meets first."""

METRIC_GROUP = "metrics/"
"""Prefix of the run's headline numbers, which the HPARAMS tab lists as columns."""

Point = tuple[int, int, dict[str, float]]
"""(step, monotonic ns, tags and their values)."""


def write_run(run_dir: Path, folder: Path | None = None, summary: Summary | None = None) -> Path | None:
    """Write a run's TensorBoard file, replacing the one of an earlier export; other files are left alone.

    Args:
        run_dir: The run directory.
        folder: Where to write; by default into the run directory.
        summary: Where the metrics come from; by default the run's `summary.json`, and without one they are missing.

    Returns:
        The file; `None` if the worker never said anything, so that there is nothing to show.

    Raises:
        GradscopeError: tensorboard cannot be imported.
        OSError: The file cannot be written.
    """
    handle = RunHandle(run_dir)
    events = handle.events()
    started = next((event for event in events if isinstance(event, WorkerStarted)), None)
    if started is None:
        return None
    clocks = ClockPair(started.wall_ns, started.t_ns)
    summary = summary or read_json(run_dir / SUMMARY, Summary)
    points = [*step_points(events), *memory_points(events), *sample_points(handle.samples(), events)]
    last_ns = max(event.t_ns for event in events)
    target = (folder or run_dir) / tensorboard_file(started.wall_ns)
    try:
        from gradscope.export import tensorboard_protos as protos

        def everything() -> Iterator["Event"]:
            yield protos.file_header(started.wall_ns / 1e9)
            yield from _session(handle.manifest(), summary, clocks.to_wall_ns(last_ns) / 1e9, started.wall_ns / 1e9)
            for step, at_ns, values in sorted(points, key=lambda point: point[1]):
                yield protos.event(clocks.to_wall_ns(at_ns) / 1e9, step, protos.scalars(values))

        _write(target, everything())
    except ImportError as error:
        raise GradscopeError(
            f"tensorboard cannot be imported: {error}",
            "reinstall it: pip install --force-reinstall tensorboard",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    return target


def _write(target: Path, events: Iterable["Event"]) -> None:
    """Write through tensorboard's own record writer to a name that TensorBoard does not look at, then rename."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    temporary = target.with_name(f".scalars.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _session(
    manifest: Manifest | None, summary: Summary | None, end_seconds: float, start_seconds: float
) -> Iterator["Event"]:
    from gradscope.export import tensorboard_protos as protos

    if manifest is not None:
        yield protos.event(start_seconds, 0, protos.text("preset", preset_markdown(manifest)))
    if summary is None:
        return
    values = shown_metrics(summary)
    names = [METRIC_GROUP + name for name in shown_names()]
    labels = [metric.label for metric in METRICS.values()]
    for part in protos.session(
        kinds={name: kind for name, (_, kind) in HPARAMS.items()},
        hparams=hparams(summary),
        metrics=list(zip(names, labels, strict=True)),
        group=summary.run_id,
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        succeeded=summary.status.value == "done",
    ):
        yield protos.event(start_seconds, 0, part)
    yield protos.event(end_seconds, summary.duration.measured_steps, protos.scalars(values))


def hparams(summary: Summary) -> dict[str, str | float | bool]:
    """Return what distinguishes the run from others of its kind; what is not known is left out."""
    found = {name: getattr(summary.identity, field) for name, (field, _) in HPARAMS.items()}
    return {name: value for name, value in found.items() if value is not None}


def shown_names() -> list[str]:
    """Return the names of the metrics as TensorBoard shows them: sizes in MiB."""
    return [_shown(name, None)[0] for name in METRICS]


def shown_metrics(summary: Summary) -> dict[str, float]:
    """Return the run's headline numbers by tag; what was not measured is left out."""
    pairs = (_shown(name, value) for name, value in metrics(summary).items())
    return {METRIC_GROUP + name: value for name, value in pairs if value is not None}


def _shown(name: str, value: float | None) -> tuple[str, float | None]:
    if not name.endswith("_bytes"):
        return name, value
    return f"{name.removesuffix('_bytes')}_mib", None if value is None else value / MIB


def preset_markdown(manifest: Manifest) -> str:
    """Return the preset as a block of TOML, with the command line above it."""
    import tomli_w

    body = tomli_w.dumps(_without_none(manifest.preset))
    command = " ".join(manifest.argv)
    return f"`{command}`\n\n```toml\n{body}```\n"


def _without_none(value: Any) -> Any:
    """Drop what is not set: TOML has no null."""
    if isinstance(value, Mapping):
        return {str(key): _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value if item is not None]
    return value


def step_points(events: Sequence[AnyEvent]) -> Iterator[Point]:
    """Yield the scalars of step records, thinned where there are very many."""
    steps = [event for event in events if isinstance(event, Step)]
    stride = math.ceil(len(steps) / STEPS_SHOWN) or 1
    for step in steps[::stride]:
        values = _measured(step) if step.stage is Stage.MEASURE else _excluded(step)
        yield step.step, step.t_ns, {tag: value for tag, value in values.items() if value is not None}


def _measured(step: Step) -> dict[str, float | None]:
    seconds = step.wall_ms / 1000
    phases = step.phases
    return {
        "loss/loss": step.loss,
        "time/step_ms": step.wall_ms,
        "time/data_ms": phases.data,
        "time/h2d_ms": phases.h2d,
        "time/forward_ms": phases.forward,
        "time/backward_ms": phases.backward,
        "time/recompute_ms": phases.recompute,
        "time/optimizer_ms": phases.optimizer,
        "time/other_ms": phases.other,
        "throughput/samples_per_s": step.samples / seconds if seconds else None,
        "throughput/tokens_per_s": step.tokens / seconds if seconds and step.tokens is not None else None,
        "memory/allocated_peak_mib": _mib(step.allocated_peak_bytes),
        "memory/reserved_mib": _mib(step.reserved_bytes),
    }


def _excluded(step: Step) -> dict[str, float | None]:
    return {f"excluded/{step.stage}_loss": step.loss, f"excluded/{step.stage}_step_ms": step.wall_ms}


def memory_points(events: Sequence[AnyEvent]) -> Iterator[Point]:
    """Yield memory by category: single points, at the steps in which it was measured."""
    for event in events:
        if isinstance(event, MemoryMeasured):
            sizes = {
                "memory/parameters_mib": event.parameters_bytes,
                "memory/buffers_mib": event.buffers_bytes,
                "memory/gradients_mib": event.gradients_bytes,
                "memory/optimizer_state_mib": event.optimizer_state_bytes,
                "memory/inputs_mib": event.inputs_bytes,
                "memory/saved_activations_mib": event.saved_activations_bytes,
                "memory/peak_activations_mib": event.peak_activations_bytes,
                **{f"memory/{phase}_peak_mib": size for phase, size in event.phase_peak_bytes.items()},
            }
            yield event.step, event.t_ns, {tag: size / MIB for tag, size in sizes.items() if size is not None}


def sample_points(lines: Sequence[SampleLine], events: Sequence[AnyEvent]) -> Iterator[Point]:
    """Yield samples at the step that had finished last; of several at one step, the mean."""
    measured = {event.step for event in events if isinstance(event, Step) and event.stage is Stage.MEASURE}
    by_step: dict[int, list[Sample]] = {}
    for line in lines:
        if isinstance(line, Sample) and line.step in measured:
            by_step.setdefault(line.step, []).append(line)
    for step, samples in by_step.items():
        found: dict[str, list[float]] = {}
        for sample in samples:
            for tag, value in _sampled(sample):
                if value is not None:
                    found.setdefault(tag, []).append(value)
        yield step, samples[-1].t_ns, {tag: math.fsum(values) / len(values) for tag, values in found.items()}


def _sampled(sample: Sample) -> Iterator[tuple[str, float | None]]:
    if host := sample.host:
        yield "utilization/cpu_pct", host.tree_cpu_pct
        yield "memory/resident_mib", _mib(host.worker_resident_bytes)
    for number, gpu in enumerate(sample.gpus):
        yield from _sampled_gpu(gpu, f"_gpu{number}" if len(sample.gpus) > 1 else "")


def _sampled_gpu(gpu: GpuSample, suffix: str) -> Iterator[tuple[str, float | None]]:
    yield f"utilization/gpu_busy_pct{suffix}", gpu.gpu_busy_pct
    yield f"utilization/memory_busy_pct{suffix}", gpu.memory_busy_pct
    yield f"utilization/sm_clock_mhz{suffix}", gpu.sm_clock_mhz
    yield f"utilization/temperature_c{suffix}", gpu.temperature_c
    yield f"power/power_w{suffix}", gpu.power_w
    yield f"energy/counter_j{suffix}", None if gpu.energy_mj is None else gpu.energy_mj / 1000
    yield f"memory/device_used_mib{suffix}", _mib(gpu.used_bytes)
    yield f"memory/process_used_mib{suffix}", _mib(gpu.process_bytes)


def _mib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else size_bytes / MIB
