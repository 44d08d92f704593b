"""Communication between ranks: how much of it compute hides, what each collective cost, and which rank others wait for.

Overlap is HolisticTraceAnalysis' (`get_comm_comp_overlap`): time in which a communication kernel and a compute kernel
run on the device, over the time in which a communication kernel runs. Where no communication ran on a device (gloo,
MPI), the host's ranges stand for it and operators for compute, as in torch-tb-profiler.

Waiting needs no common clock: all ranks leave a collective together, so a rank waited there for its duration less the
shortest one, and the rank with the shortest came last. That is torch-tb-profiler's rule for data transfer; it assumes
collectives that block, over all given ranks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from gradscope.trace.categories import is_communication, is_op, on_device
from gradscope.trace.device import DeviceWork, device_work
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.intervals import Intervals, covered_ns, intersection, locate, merge_frame
from gradscope.trace.marks import StepMarks, step_marks

BACKEND_RANGE = r"^(?:nccl|gloo|mpi|ucc|xccl|hccl|rccl):"
"""A backend's own range of one collective; c10d's operators around it would count it twice."""

ELEMENT_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}
"""By torch's name of the type, as collectives' kernels carry it."""

CALL_SCHEMA: dict[str, type[pl.DataType]] = {
    "number": pl.Int64,  # step it was launched in; null outside of steps
    "name": pl.String,  # of the collective where the trace tells it, else of its kernel or range
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "bytes": pl.Int64,  # sent by this rank; null where the trace does not tell
    "group_size": pl.Int32,
}


@dataclass(frozen=True, slots=True)
class CommunicationAnswer:
    """Communication of one rank."""

    side: str | None
    """`device`, `host`, or None: there was none."""
    communication_ns: int
    """Union over the whole trace."""
    overlap_ns: int
    """Of it, what ran together with compute."""
    overlap_pct: float | None
    """None without communication."""
    by_step: pl.DataFrame
    """number, window, communication_ns, compute_ns, overlap_ns, overlap_pct, exposed_ns (communication alone)."""
    collectives: pl.DataFrame
    """One row a name: name, calls, total_ns, mean_ns, max_ns, bytes (summed; null: unknown); the costliest first."""
    calls: pl.DataFrame
    """One row a collective that ran, by start, by `CALL_SCHEMA`."""


@dataclass(frozen=True, slots=True)
class StragglersAnswer:
    """Who waited for whom, over ranks."""

    calls: pl.DataFrame
    """One row a rank and collective that all ranks took part in: number, name, call (nth of its name in the step),
    rank, dur_ns, wait_ns, last (whether the others waited for it)."""
    by_step: pl.DataFrame
    """One row a step and rank: number, rank, calls, wait_ns, last_calls, cost_ns (what the others waited, on average,
    in the calls that it came last to)."""
    stragglers: pl.DataFrame
    """One row a step: number, straggler (the rank that waited least; null where all waited alike), spread_ns (how much
    more the rank that waited most did)."""
    ranks: pl.DataFrame
    """One row a rank: rank, steps, step_ns (mean duration of its steps), wait_ns, last_calls,
    step_wait_ns (mean of the steps with collectives that all ranks made)."""
    notes: list[TraceNote]


def communication(trace: Trace) -> CommunicationAnswer:
    """Tell what a rank's communication cost and how much of it compute hid."""
    work = device_work(trace)
    marks = step_marks(trace, work)
    side, talks, computes = _sides(trace, work)
    both = intersection(talks, computes)
    calls = _calls(trace, work, marks)
    named = calls.group_by("name", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("calls"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").mean().alias("mean_ns"),
        pl.col("dur_ns").max().alias("max_ns"),
        pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()).alias("bytes"),
    )
    table = pl.DataFrame(
        {
            "number": marks.number,
            "window": marks.window,
            "communication_ns": covered_ns(talks, marks.start, marks.end),
            "compute_ns": covered_ns(computes, marks.start, marks.end),
            "overlap_ns": covered_ns(both, marks.start, marks.end),
        }
    ).with_columns(
        pl.when(pl.col("communication_ns") > 0)
        .then(100 * pl.col("overlap_ns") / pl.col("communication_ns"))
        .alias("overlap_pct"),
        (pl.col("communication_ns") - pl.col("overlap_ns")).alias("exposed_ns"),
    )
    total = talks.length_ns
    return CommunicationAnswer(
        side=side,
        communication_ns=total,
        overlap_ns=both.length_ns,
        overlap_pct=100 * both.length_ns / total if total else None,
        by_step=table,
        collectives=named.sort("total_ns", "name", descending=[True, False]),
        calls=calls,
    )


def _sides(trace: Trace, work: DeviceWork) -> tuple[str | None, Intervals, Intervals]:
    """Return where communication ran, when, and when compute ran there."""
    talks = work.busy(kinds=("communication",))
    if len(talks):
        return "device", talks, work.busy(kinds=("compute",))
    host = trace.events.filter(~on_device() & (pl.col("dur_ns") > 0))
    talks = merge_frame(host.filter(is_communication()))
    computes = work.busy(kinds=("compute",))
    if not len(computes):
        computes = merge_frame(host.filter(is_op() & ~is_communication()))
    return "host" if len(talks) else None, talks, computes


def _calls(trace: Trace, work: DeviceWork, marks: StepMarks) -> pl.DataFrame:
    """Return each collective that ran on the device; where none did, the backends' ranges on the host."""
    detail = ("index", "name", "collective", "dtype", "in_elems", "group_size")
    kernels = work.table.filter(pl.col("kind") == "communication")
    if kernels.is_empty():
        ranges = trace.events.filter(is_communication() & pl.col("name").cast(pl.String).str.contains(BACKEND_RANGE))
        calls = ranges.select(
            *detail, "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"), pl.col("ts_ns").alias("at")
        )
    else:
        launched = pl.coalesce("launch_ns", "ts_ns").alias("at")
        more = trace.events.filter(is_communication()).select(column for column in detail if column != "name")
        calls = kernels.select("index", "name", "ts_ns", "end_ns", launched).join(more, on="index", how="left")
    width = pl.col("dtype").cast(pl.String).replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    step = locate(marks.host_start, marks.host_end, calls["at"].to_numpy())
    number = pl.Series(
        "number", [int(marks.number[place]) if place >= 0 else None for place in step.tolist()], pl.Int64
    )
    return (
        calls.with_columns(number)
        .sort("ts_ns", "index", maintain_order=True)
        .select(
            "number",
            pl.coalesce(pl.col("collective").cast(pl.String), pl.col("name").cast(pl.String)).alias("name"),
            pl.col("ts_ns").alias("start_ns"),
            (pl.col("end_ns") - pl.col("ts_ns")).alias("dur_ns"),
            (pl.col("in_elems") * width).alias("bytes"),
            "group_size",
        )
    )


def stragglers(traces: Mapping[int, Trace]) -> StragglersAnswer:
    """Tell in which steps which rank came last into collectives, and how long the others waited for it.

    The n-th call of a name in a step on one rank is taken for the n-th on the others. Calls that not every rank made
    are left out and counted.

    Args:
        traces: By rank; of one run.
    """
    frames, spans, notes = [], [], []
    for rank, trace in sorted(traces.items()):
        work = device_work(trace)
        marks = step_marks(trace, work)
        calls = _calls(trace, work, marks).select("number", "name", "dur_ns")
        if len(marks):
            calls = calls.filter(pl.col("number").is_not_null())
        frames.append(
            calls.with_columns(
                pl.int_range(pl.len(), dtype=pl.Int64).over("number", "name").alias("call"),
                pl.lit(rank, pl.Int64).alias("rank"),
            )
        )
        spans.append(
            {
                "rank": rank,
                "steps": len(marks),
                "step_ns": float((marks.end - marks.start).mean()) if len(marks) else None,
            }
        )
    key = ("number", "name", "call")
    empty = pl.DataFrame(
        schema={"number": pl.Int64, "name": pl.String, "dur_ns": pl.Int64, "call": pl.Int64, "rank": pl.Int64}
    )
    made = pl.concat([empty, *frames])
    shared = made.filter(pl.len().over(*key) == len(traces)) if len(traces) > 1 else empty
    if len(traces) < 2:
        notes.append(TraceNote("one_rank", "stragglers need traces of several ranks"))
    elif alone := made.height - shared.height:
        text = f"{alone} of {made.height} collective calls were not made by every rank: left out"
        notes.append(TraceNote("unmatched_collectives", text, alone))
    world = max((trace.metadata.world_size or 0 for trace in traces.values()), default=0)
    if 1 < len(traces) < world:
        text = f"{len(traces)} of {world} ranks are here: who came last is said among these"
        notes.append(TraceNote("ranks_missing", text, world - len(traces)))
    least = pl.col("dur_ns").min().over(*key)
    calls = shared.with_columns(
        (pl.col("dur_ns") - least).alias("wait_ns"),
        ((pl.col("dur_ns") == least) & (pl.col("dur_ns").max().over(*key) > least)).alias("last"),
    ).with_columns((pl.col("wait_ns").sum().over(*key) / max(len(traces) - 1, 1)).alias("others_ns"))
    by_step = (
        calls.group_by("number", "rank")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("wait_ns").sum(),
            pl.col("last").sum().cast(pl.Int64).alias("last_calls"),
            pl.col("others_ns").filter("last").sum().round().cast(pl.Int64).alias("cost_ns"),
        )
        .sort("number", "rank")
    )
    spread = pl.col("wait_ns").max() - pl.col("wait_ns").min()
    worst = by_step.group_by("number").agg(
        pl.when(spread > 0).then(pl.col("rank").sort_by("wait_ns", "rank").first()).alias("straggler"),
        spread.alias("spread_ns"),
    )
    totals = by_step.group_by("rank").agg(
        pl.col("wait_ns").sum(), pl.col("last_calls").sum(), pl.col("wait_ns").mean().alias("step_wait_ns")
    )
    ranks = pl.DataFrame(spans, schema={"rank": pl.Int64, "steps": pl.Int64, "step_ns": pl.Float64})
    return StragglersAnswer(
        calls=calls.select(*key, "rank", "dur_ns", "wait_ns", "last").sort(*key, "rank"),
        by_step=by_step,
        stragglers=worst.sort("number"),
        ranks=ranks.join(totals, on="rank", how="left")
        .sort("rank")
        .with_columns(pl.col("wait_ns", "last_calls", "step_wait_ns").fill_null(0)),
        notes=notes,
    )
