"""A run as one row of a list: what it was, what became of it, and its headline numbers."""

import msgspec

from gradscope.analysis.summary import load_summary
from gradscope.core.status import SCHEMA_VERSION, Status
from gradscope.core.units import MISSING
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import created_wall_ns


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run; what is not known is `None`. Also a line of `gradscope runs --json`, fields in this order."""

    run_id: str
    path: str
    preset: str
    model: str | None = None
    optimizer: str | None = None
    strategy: str | None = None
    accumulate: int | None = None
    """Micro-batches in one update."""
    mode: str | None = None
    """`grow` or `split`, where it accumulates."""
    device: str | None = None
    precision: str | None = None
    status: Status
    exit_code: int | None = None
    loss: float | None = None
    """The last one."""
    step_ms: float | None = None
    """Median of the measured steps."""
    peak_bytes: int | None = None
    """Most that torch's allocator had handed out."""
    created_wall_ns: int | None = None
    samples_per_s: float | None = None
    energy_per_step_j: float | None = None
    gpu_busy_pct: float | None = None
    """Mean over the measured steps."""
    wall_seconds: float | None = None
    """From the worker's start to its last event."""
    schema: int = SCHEMA_VERSION
    """Version of its records; one above our own was written by a newer gradscope."""


def describe(handle: RunHandle) -> RunRow:
    """Read one run. Cheap for one that is over and has its `summary.json`; else its events are read through."""
    summary = load_summary(handle.path)
    who, busy = summary.identity, summary.utilization.gpu_busy_pct
    return RunRow(
        run_id=handle.run_id,
        path=str(handle.path),
        preset=who.preset,
        model=who.model,
        optimizer=who.optimizer,
        strategy=who.strategy,
        accumulate=who.micro_steps,
        mode=who.accumulation_mode,
        device=who.device,
        precision=who.precision,
        status=summary.status,
        exit_code=summary.exit_code,
        loss=summary.loss.last,
        step_ms=None if summary.time.step_ms is None else summary.time.step_ms.median,
        peak_bytes=summary.memory.allocated_peak_bytes,
        created_wall_ns=summary.provenance.created_wall_ns or created_wall_ns(handle.run_id),
        samples_per_s=summary.time.samples_per_second,
        energy_per_step_j=summary.energy.joules_per_step,
        gpu_busy_pct=None if busy is None else busy.mean,
        wall_seconds=summary.duration.wall_seconds,
        schema=max(summary.schema, _written_as(handle) if summary.status is Status.UNKNOWN else SCHEMA_VERSION),
    )


def _written_as(handle: RunHandle) -> int:
    """Return the version of a run whose status says nothing: perhaps a newer one's words."""
    manifest = handle.manifest()
    return SCHEMA_VERSION if manifest is None else manifest.schema


def strategy_words(name: str | None, micro_steps: int | None, mode: str | None) -> str:
    """Return a strategy with its micro-batches: `accumulate x4`, `split x4`, `checkpoint x4`, `checkpoint split x4`."""
    known = name or MISSING
    if not micro_steps or micro_steps == 1:
        return known
    checkpoints = ["checkpoint"] if known.startswith("checkpoint") else []
    grows = [] if checkpoints else ["accumulate"]
    return " ".join([*checkpoints, *(["split"] if mode == "split" else grows), f"x{micro_steps}"])


def age(created_wall_ns: int | None, now_wall_ns: int) -> str:
    """Return how long ago that was, in one unit; a start in the future (a clock was set back) is `now`."""
    if created_wall_ns is None:
        return MISSING
    seconds = max(0, now_wall_ns - created_wall_ns) // 1_000_000_000
    for unit, unit_seconds in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds} {unit}"
    return "now" if seconds == 0 else f"{seconds} s"
