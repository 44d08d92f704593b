"""Which phase of training each moment of a step belongs to: data, forward, backward, recomputation, optimizer.

gradscope's own runs mark phases themselves. In other traces they come from the ranges that torch and people mark
(`enumerate(DataLoader)#...__next__`, `Optimizer.step#Adam.step`, `## forward ##`), and, where forward or backward is
not marked, from autograd: `autograd::engine::evaluate_function` is backward; an operator with a sequence number outside
of it is forward, inside of it recomputation (or a backward that is differentiated itself). Consecutive operators of one
kind make one range, Python between them included. Without a backward, autograd tells nothing.

Ranges are the host's. The device's time of a phase is the union of what was launched in it, whenever that ran.
"""

import heapq
import itertools
from dataclasses import dataclass

import numpy as np
import polars as pl

from gradscope.trace.categories import GRADSCOPE_PREFIX, is_annotation, is_gradscope_phase, is_op
from gradscope.trace.device import DeviceWork, device_work
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.intervals import contains, covered_ns, intersection, locate, merge
from gradscope.trace.marks import StepMarks, step_marks

PHASES = ("data", "h2d", "forward", "backward", "recompute", "optimizer", "other")
"""In the order of a step. `other` is the host's time in none."""


def _word(*names: str) -> str:
    """Return a pattern for a range that is called one of `names`, whatever decorates it."""
    return rf"(?i)^\W*(?:{'|'.join(names)})\W*$"


PATTERNS = {
    "data": r"^enumerate\(DataLoader\)#.*\.__next__$|^enumerate\(DataPipe\)#|train_dataloader_next$|"
    + _word("data", "data_?load(?:er|ing)?", "load_(?:batch|data)", "(?:get|next|fetch|wait_for)_(?:batch|data)"),
    "h2d": r"batch_to_device$|" + _word("h2d", "host_to_device", "(?:copy_|move_)?(?:batch_)?to_(?:device|gpu|cuda)"),
    "forward": r"^(?:Distributed|FullySharded)DataParallel\.forward$|"
    + _word("forward(?:_pass)?", "fwd", "training_step"),
    "backward": r"^\[pl\]\[profile\].*\.backward$|" + _word("(?:loss_)?backward(?:_pass)?", "bwd"),
    "recompute": _word("recompute", "recomputation"),
    "optimizer": r"^Optimizer\.(?:step|zero_grad)#|"
    + _word("optimi[sz]er(?:_step)?", "optim(?:_step)?", "opt_step", "zero_grad"),
}
"""What ranges of other people's traces are called."""

AUTOGRAD = "autograd::engine::evaluate_function"
RANGES = {"phase": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}


@dataclass(frozen=True, slots=True)
class PhasesAnswer:
    """Phases of the steps of a trace, or of the whole trace where steps are unknown."""

    source: str | None
    """`gradscope`, `annotations`, `autograd`, `annotations and autograd`; None: nothing tells phases apart."""
    table: pl.DataFrame
    """One row a step and phase that occurs: number (null: whole trace), window, phase, host_ns, host_pct (of the step's
    mark), device_ns (union of device work launched in it; null without device events), ranges (that begin in it)."""
    totals: pl.DataFrame
    """One row a phase, over all steps: phase, host_ns, host_pct, device_ns, ranges."""
    ranges: pl.DataFrame
    """phase, start_ns, end_ns: by time, disjoint, the innermost range where several are open."""
    notes: list[TraceNote]


def phases(trace: Trace) -> PhasesAnswer:
    """Tell how long each phase took, per step.

    Where ranges nest or overlap, time belongs to the one that began last: a recomputation in backward, a backward in an
    optimizer's closure, an optimizer's step in a backward hook.
    """
    work = device_work(trace)
    marks = step_marks(trace, work)
    source, marked = _marked(trace, marks)
    ranges = _innermost(marked)
    windows = marks if len(marks) else _everything(trace)
    notes: list[TraceNote] = []
    if source is None and not trace.events.is_empty():
        notes.append(TraceNote("phases_unknown", "nothing in the trace tells phases apart: no ranges, no autograd"))
    if source is not None and "autograd" in source:
        text = "forward and backward are told apart by autograd's operators, without ranges that mark them"
        notes.append(TraceNote("phases_guessed", text))
    table = _table(windows, ranges, marked, work) if source else _table(windows, ranges, marked, work).clear()
    if not len(marks):
        table = table.with_columns(pl.lit(None, pl.Int64).alias("number"), pl.lit(None, pl.Int64).alias("window"))
    return PhasesAnswer(source, table, _totals(table, windows), ranges, notes)


def _marked(trace: Trace, marks: StepMarks) -> tuple[str | None, pl.DataFrame]:
    """Return where phases come from, and their ranges as they were marked."""
    span = [pl.col("ts_ns").alias("start_ns"), (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")]
    name = pl.col("name").cast(pl.String)
    own = trace.events.filter(is_gradscope_phase() & (pl.col("dur_ns") > 0))
    own = own.select(name.str.strip_prefix(GRADSCOPE_PREFIX).alias("phase"), *span)
    own = own.filter(pl.col("phase").is_in(PHASES))
    if not own.is_empty():
        return "gradscope", own
    phase = pl.coalesce(pl.when(name.str.contains(pattern)).then(pl.lit(phase)) for phase, pattern in PATTERNS.items())
    wanted = trace.events.filter((is_annotation() | is_op()) & (pl.col("dur_ns") > 0))
    names = (
        wanted.select(pl.col("name").unique()).with_columns(phase.alias("phase")).filter(pl.col("phase").is_not_null())
    )
    found = wanted.join(names, on="name").select("phase", *span)
    has = set(found["phase"])
    if {"forward", "backward"} <= has:
        return "annotations", found
    guessed = _autograd(trace, marks, found).filter(~pl.col("phase").is_in(list(has)))
    sources = [text for text, frame in (("annotations", found), ("autograd", guessed)) if not frame.is_empty()]
    return " and ".join(sources) or None, pl.concat([found, guessed])


def _autograd(trace: Trace, marks: StepMarks, found: pl.DataFrame) -> pl.DataFrame:
    """Return forward, backward and recompute as runs of operators between marked ranges and steps."""
    name = pl.col("name").cast(pl.String)
    ops = trace.events.filter(
        is_op() & (pl.col("dur_ns") > 0) & ((pl.col("sequence") >= 0) | name.str.starts_with(AUTOGRAD))
    )
    ops = ops.select(
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        name.str.starts_with(AUTOGRAD).alias("engine"),
        ((pl.col("forward_thread").fill_null(0) > 0) | name.str.starts_with(AUTOGRAD)).alias("backward"),
    )
    engine = ops.filter("engine")
    if engine.is_empty():
        return found.clear()
    ran = merge(engine["start_ns"].to_numpy(), engine["end_ns"].to_numpy())
    inside = pl.Series(contains(ran, ops["start_ns"].to_numpy()))
    phase = (
        pl.when("backward").then(pl.lit("backward")).when(inside).then(pl.lit("recompute")).otherwise(pl.lit("forward"))
    )
    ops = ops.with_columns(phase.alias("phase"))
    borders = pl.DataFrame({"phase": ["step"] * len(marks), "start_ns": marks.host_start, "end_ns": marks.host_start})
    outer = pl.concat([ops.filter(pl.col("phase") != "recompute").select(list(RANGES)), found, borders])
    runs = _runs(outer).filter(pl.col("phase").is_in(["forward", "backward"]))
    return pl.concat(
        [runs, _runs(ops.filter(~pl.col("engine")).select(list(RANGES))).filter(pl.col("phase") == "recompute")]
    )


def _runs(rows: pl.DataFrame) -> pl.DataFrame:
    """Join rows of one phase that follow each other, by start, into one range."""
    return (
        rows.sort("start_ns", maintain_order=True)
        .with_columns(pl.col("phase").rle_id().alias("run"))
        .group_by("run", maintain_order=True)
        .agg(pl.col("phase").first(), pl.col("start_ns").min(), pl.col("end_ns").max())
        .select(list(RANGES))
    )


def _innermost(marked: pl.DataFrame) -> pl.DataFrame:
    """Return disjoint ranges: each moment belongs to the range that began last of those that are open."""
    rows = marked.sort("start_ns", pl.col("end_ns"), descending=[False, True], maintain_order=True).rows()
    moments = sorted({row[1] for row in rows} | {row[2] for row in rows})
    open_ranges: list[tuple[int, int, str]] = []  # later starts first; the shorter of those that begin together
    pieces: list[tuple[str, int, int]] = []
    coming = 0
    for moment, following in itertools.pairwise(moments):
        while coming < len(rows) and rows[coming][1] <= moment:
            heapq.heappush(open_ranges, (-rows[coming][1], rows[coming][2], rows[coming][0]))
            coming += 1
        while open_ranges and open_ranges[0][1] <= moment:
            heapq.heappop(open_ranges)
        if not open_ranges:
            continue
        phase = open_ranges[0][2]
        if pieces and pieces[-1][0] == phase and pieces[-1][2] == moment:
            pieces[-1] = (phase, pieces[-1][1], following)
        else:
            pieces.append((phase, moment, following))
    return pl.DataFrame(pieces, schema=RANGES, orient="row")


def _everything(trace: Trace) -> StepMarks:
    """Return the whole trace as if it were one step."""
    none = np.empty(0, np.int64)
    timed = trace.events.filter(pl.col("dur_ns") > 0)
    if timed.is_empty():
        return StepMarks(none, none, none, none, none, none, [])
    start, end = np.array([timed["ts_ns"].min()]), np.array([(timed["ts_ns"] + timed["dur_ns"]).max()])
    zero = np.zeros(1, np.int64)
    return StepMarks(zero, zero, start, end, start, end, [])


def _table(steps: StepMarks, ranges: pl.DataFrame, marked: pl.DataFrame, work: DeviceWork) -> pl.DataFrame:
    """Return one row a step and phase."""
    frames = []
    host = merge(steps.host_start, steps.host_end)
    taken = merge(ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy())
    launched = work.table.filter(pl.col("launch_ns").is_not_null())
    at = launched["launch_ns"].to_numpy()
    step_of = locate(steps.host_start, steps.host_end, at)
    piece_of = locate(ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy(), at)
    names = [*ranges["phase"], "other"]  # position -1 is the last
    phase_of = pl.Series("phase", [names[piece] for piece in piece_of.tolist()], pl.String)
    for phase in PHASES:
        if phase == "other":
            host_ns = steps.host_end - steps.host_start - covered_ns(taken, steps.host_start, steps.host_end)
            begun = np.zeros(len(steps), np.int64)
        else:
            mine = ranges.filter(pl.col("phase") == phase)
            inside = intersection(host, merge(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()))
            host_ns = covered_ns(inside, steps.host_start, steps.host_end)
            starts = marked.filter(pl.col("phase") == phase)["start_ns"].to_numpy()
            place = locate(steps.host_start, steps.host_end, starts)
            begun = np.bincount(place[place >= 0], minlength=len(steps))
        frames.append(
            pl.DataFrame(
                {
                    "number": steps.number,
                    "window": steps.window,
                    "phase": [phase] * len(steps),
                    "host_ns": host_ns,
                    "host_pct": 100 * host_ns / np.maximum(steps.host_end - steps.host_start, 1),
                    "device_ns": _device_ns(launched, step_of, phase_of == phase, len(steps), work),
                    "ranges": begun,
                },
                schema_overrides={"phase": pl.String, "device_ns": pl.Int64},
            )
        )
    order = {phase: place for place, phase in enumerate(PHASES)}
    return (
        pl.concat(frames)
        .filter((pl.col("host_ns") > 0) | (pl.col("device_ns") > 0) | (pl.col("ranges") > 0))
        .sort("window", "number", pl.col("phase").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
    )


def _device_ns(
    launched: pl.DataFrame, step_of: np.ndarray, chosen: pl.Series, steps: int, work: DeviceWork
) -> list[int | None]:
    """Return per step the union of device work that was launched in a phase of it."""
    if work.table.is_empty():
        return [None] * steps
    frame = launched.with_columns(pl.Series("step", step_of)).filter(chosen & pl.Series(step_of >= 0))
    sums = {
        key[0]: merge(part["ts_ns"].to_numpy(), part["end_ns"].to_numpy()).length_ns
        for key, part in frame.group_by("step")
    }
    return [sums.get(step, 0) for step in range(steps)]


def _totals(table: pl.DataFrame, steps: StepMarks) -> pl.DataFrame:
    whole_ns = max(int((steps.host_end - steps.host_start).sum()), 1)
    summed = table.group_by("phase", maintain_order=True).agg(
        pl.col("host_ns").sum(),
        pl.when(pl.col("device_ns").is_not_null().any()).then(pl.col("device_ns").sum()).alias("device_ns"),
        pl.col("ranges").sum(),
    )
    order = {phase: place for place, phase in enumerate(PHASES)}
    return summed.sort(pl.col("phase").replace_strict(order, return_dtype=pl.Int64)).select(
        "phase", "host_ns", (100 * pl.col("host_ns") / whole_ns).alias("host_pct"), "device_ns", "ranges"
    )
