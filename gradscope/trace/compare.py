"""Two traces side by side: which parts of a step, phases, operators and kernels explain that one is slower.

Everything is a mean per step over the steps that count (those whose kernels are all in the trace). Where one of the
traces has no steps, both are taken whole, and the numbers are totals.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from gradscope.trace.calls import calls
from gradscope.trace.device import device_work
from gradscope.trace.frames import Trace
from gradscope.trace.intervals import locate
from gradscope.trace.phases import PHASES, phases
from gradscope.trace.steps import PARTS, StepsAnswer, steps

HOST_KINDS = ("operator", "annotation", "runtime", "overhead")
"""What of the host is compared; Python frames are not: one of the traces may be recorded without."""

COMPARED = {
    "name": pl.String,
    "kind": pl.String,
    "only_in": pl.String,  # "a", "b" or null
    "calls_a": pl.Float64,  # per step
    "calls_b": pl.Float64,
    "mean_a_ms": pl.Float64,  # of a call; null where there is none
    "mean_b_ms": pl.Float64,
    "a_ms": pl.Float64,  # per step
    "b_ms": pl.Float64,
    "difference_ms": pl.Float64,  # b - a
    "by_calls_ms": pl.Float64,  # more or fewer calls, at a's mean: (calls_b - calls_a) x mean_a
    "by_duration_ms": pl.Float64,  # longer or shorter ones: calls_b x (mean_b - mean_a)
}
"""Columns of `Comparison.operators` and `Comparison.kernels`. The last two sum to the difference; a name that only one
trace has differs by its calls alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is different in b, seen from a."""

    per_step: bool
    """False: one of the traces has no steps, so all numbers are totals of the whole traces."""
    steps_a: int
    """Steps that the means of a are over; 1 where the whole trace is taken."""
    steps_b: int
    a_ms: float | None
    """Duration of a step (of the whole trace); `None` where nothing ran."""
    b_ms: float | None
    parts: pl.DataFrame
    """name, a_ms, b_ms, difference_ms: what runs, as in `steps`; the differences sum to that of the duration."""
    phases: pl.DataFrame
    """name, a_ms, b_ms, difference_ms on the host and device_a_ms, device_b_ms, device_difference_ms (null without a
    device), in the order of a step; null where one trace does not tell the phase."""
    operators: pl.DataFrame
    """By `COMPARED`: own time of what the host called; largest difference first, whichever its sign."""
    kernels: pl.DataFrame
    """By `COMPARED`: the work of devices. Empty where neither has any."""

    @property
    def difference_ms(self) -> float | None:
        """How much longer a step of b takes."""
        return None if self.a_ms is None or self.b_ms is None else self.b_ms - self.a_ms


@dataclass(frozen=True, slots=True)
class _Side:
    """One trace's sums."""

    count: int
    table: pl.DataFrame
    host: pl.DataFrame
    """name, kind, calls, total_ns."""
    device: pl.DataFrame
    phases: pl.DataFrame
    """phase, host_ns, device_ns."""


def compare(
    trace_a: Trace, trace_b: Trace, *, steps_a: StepsAnswer | None = None, steps_b: StepsAnswer | None = None
) -> Comparison:
    """Compare two traces.

    Args:
        trace_a: What to compare with.
        trace_b: What is compared.
        steps_a: `steps(trace_a)`, where it is at hand.
        steps_b: `steps(trace_b)`, where it is at hand.
    """
    answers = [steps_a or steps(trace_a), steps_b or steps(trace_b)]
    per_step = all(not answer.table.is_empty() for answer in answers)
    a, b = (_side(trace, answer, per_step=per_step) for trace, answer in zip((trace_a, trace_b), answers, strict=True))
    return Comparison(
        per_step=per_step,
        steps_a=a.count,
        steps_b=b.count,
        a_ms=_duration_ms(a),
        b_ms=_duration_ms(b),
        parts=_parts(a, b),
        phases=_phases(a, b),
        operators=_compared(a, b, a.host, b.host),
        kernels=_compared(a, b, a.device, b.device),
    )


def _side(trace: Trace, answer: StepsAnswer, *, per_step: bool) -> _Side:
    table = answer.whole
    if per_step:
        table = answer.table.filter("complete")
        table = answer.table if table.is_empty() else table
    nested = calls(trace).frame.filter(pl.col("kind").is_in(list(HOST_KINDS)))
    host = _begun(nested, table, "host_") if per_step else nested
    work = device_work(trace).table
    work = _begun(work, table, "") if per_step else work
    told = phases(trace)
    occurring = told.table.join(table, on=["number", "window"], how="semi") if per_step else told.table
    return _Side(
        count=max(table.height, 1),
        table=table,
        host=_sums(host, pl.col("self_ns")),
        device=_sums(work, pl.col("end_ns") - pl.col("ts_ns")),
        phases=_phase_sums(occurring, told=told.source is not None, on_device=answer.has_device_events),
    )


def _phase_sums(table: pl.DataFrame, *, told: bool, on_device: bool) -> pl.DataFrame:
    """Sum each phase: 0 for one that does not occur, null where the trace does not tell phases apart."""
    sums = table.group_by("phase").agg(pl.col("host_ns", "device_ns").sum())
    every = pl.DataFrame({"phase": list(PHASES)}).join(sums, on="phase", how="left", maintain_order="left")
    return every.with_columns(
        pl.col("host_ns").fill_null(0) if told else pl.lit(None, pl.Int64).alias("host_ns"),
        pl.col("device_ns").fill_null(0) if told and on_device else pl.lit(None, pl.Int64).alias("device_ns"),
    )


def _begun(frame: pl.DataFrame, table: pl.DataFrame, clock: str) -> pl.DataFrame:
    """Keep what begins in one of the steps, by the host's clock of them (`host_`) or by the device's (empty)."""
    begins = table[f"{clock}start_ns"].to_numpy()
    place = locate(begins, begins + table[f"{clock}dur_ns"].to_numpy(), frame["ts_ns"].to_numpy())
    return frame.filter(pl.Series(place >= 0, dtype=pl.Boolean))


def _sums(frame: pl.DataFrame, time: pl.Expr) -> pl.DataFrame:
    named = frame.select(pl.col("name", "kind").cast(pl.String), time.alias("time_ns"))
    return named.group_by("name", "kind").agg(
        pl.len().cast(pl.Float64).alias("calls"),
        pl.col("time_ns").sum().clip(lower_bound=0).cast(pl.Float64).alias("total_ns"),
    )


def _duration_ms(side: _Side) -> float | None:
    return None if side.table.is_empty() else float(np.mean(side.table["dur_ns"].to_numpy())) / 1e6


def _parts(a: _Side, b: _Side) -> pl.DataFrame:
    rows = []
    for part in PARTS:
        each = [
            None if side.table.is_empty() else float(np.mean(side.table[f"{part}_ns"].to_numpy())) / 1e6
            for side in (a, b)
        ]
        rows.append((part, *each))
    schema = {"name": pl.String, "a_ms": pl.Float64, "b_ms": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(_difference("a_ms", "b_ms", "difference_ms"))


def _phases(a: _Side, b: _Side) -> pl.DataFrame:
    order = pl.DataFrame({"phase": list(PHASES)})
    for letter, side in (("a", a), ("b", b)):
        columns = {
            f"{letter}_ms": pl.col("host_ns") / 1e6 / side.count,
            f"device_{letter}_ms": pl.col("device_ns") / 1e6 / side.count,
        }
        order = order.join(side.phases.select("phase", **columns), on="phase", how="left", maintain_order="left")
    times = ("a_ms", "b_ms", "device_a_ms", "device_b_ms")
    return order.filter(pl.any_horizontal(pl.col(*times).fill_null(0) > 0)).select(
        pl.col("phase").alias("name"),
        "a_ms",
        "b_ms",
        _difference("a_ms", "b_ms", "difference_ms"),
        "device_a_ms",
        "device_b_ms",
        _difference("device_a_ms", "device_b_ms", "device_difference_ms"),
    )


def _difference(a: str, b: str, name: str) -> pl.Expr:
    return (pl.col(b) - pl.col(a)).alias(name)


def _compared(a: _Side, b: _Side, sums_a: pl.DataFrame, sums_b: pl.DataFrame) -> pl.DataFrame:
    """Join two sums by name and kind, per step, and split each difference into calls and duration."""
    keys = ["name", "kind"]
    joined = sums_a.join(sums_b, on=keys, how="full", coalesce=True, suffix="_b", nulls_equal=True)
    in_a, in_b = pl.col("calls").is_not_null(), pl.col("calls_b").is_not_null()
    per_step = joined.select(
        *keys,
        pl.when(~in_b).then(pl.lit("a")).when(~in_a).then(pl.lit("b")).alias("only_in"),
        (pl.col("calls").fill_null(0) / a.count).alias("calls_a"),
        (pl.col("calls_b").fill_null(0) / b.count).alias("calls_b"),
        (pl.col("total_ns") / pl.col("calls") / 1e6).alias("mean_a_ms"),
        (pl.col("total_ns_b") / pl.col("calls_b") / 1e6).alias("mean_b_ms"),
        (pl.col("total_ns").fill_null(0) / 1e6 / a.count).alias("a_ms"),
        (pl.col("total_ns_b").fill_null(0) / 1e6 / b.count).alias("b_ms"),
    ).with_columns(_difference("a_ms", "b_ms", "difference_ms"))
    by_calls = (pl.col("calls_b") - pl.col("calls_a")) * pl.col("mean_a_ms")
    by_duration = pl.col("calls_b") * (pl.col("mean_b_ms") - pl.col("mean_a_ms"))
    split = per_step.with_columns(
        pl.when(pl.col("only_in").is_null()).then(by_calls).otherwise("difference_ms").alias("by_calls_ms"),
        pl.when(pl.col("only_in").is_null()).then(by_duration).otherwise(0.0).alias("by_duration_ms"),
    )
    order = [pl.col("difference_ms").abs(), pl.col("a_ms") + pl.col("b_ms"), pl.col("name"), pl.col("kind")]
    ordered = split.sort(order, descending=[True, True, False, False])
    return ordered.select(pl.col(name).cast(kind) for name, kind in COMPARED.items())
