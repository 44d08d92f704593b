"""A step of a trace as lanes. Runs on a thread."""

from collections.abc import Iterator

import polars as pl

from gradscope.core.text import visible
from gradscope.trace.answers import Answers
from gradscope.trace.device import device_events
from gradscope.tui.results.lanes import Lane, Lanes, Strand, strands

HOST_KINDS = ("operator", "annotation", "runtime", "overhead")
MOST_SLICES = 400_000
"""Of one step; what begins later is left out."""


def lanes_of(answers: Answers, step: int | None, *, python: bool = False) -> Lanes:
    """Lay out one step: threads with the step's mark first, then others by how much they did, then streams.

    Args:
        answers: Of the trace.
        step: Its number; `None`: the first step, or the whole trace where it marks none.
        python: Whether frames of Python code are shown too.
    """
    table = answers.steps.table
    numbers = tuple(table["number"].to_list())
    rows = table if step is None else table.filter(pl.col("number") == step)
    rows = rows if not rows.is_empty() else table
    if rows.is_empty():
        rows = answers.steps.whole
    if rows.is_empty():
        return Lanes(None, numbers, 0, 1, (), (), 0)
    first = rows.row(0, named=True)
    start = min(first["start_ns"], first["host_start_ns"])
    end = max(first["start_ns"] + first["dur_ns"], first["host_start_ns"] + first["host_dur_ns"])
    names: dict[str, int] = {}
    host = list(_host(answers, (start, end), names, python=python))
    device = list(_device(answers, (start, end), names))
    lanes = (*host, *device)
    count = sum(len(strand) for lane in lanes for strand in lane.strands)
    return Lanes(first["number"], numbers, start, end, tuple(names), lanes, count)


def _host(answers: Answers, span: tuple[int, int], names: dict[str, int], *, python: bool) -> Iterator[Lane]:
    kinds = [*HOST_KINDS, "python"] if python else list(HOST_KINDS)
    frame = answers.nested.frame.filter(pl.col("kind").is_in(kinds)).select(
        "name", "pid", "tid", "ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns")
    )
    frame = _in(frame, span, "end")
    threads = frame.group_by("pid", "tid", maintain_order=True).agg(
        marked=pl.col("name").cast(pl.String).str.starts_with("ProfilerStep").fill_null(value=False).any(),
        time=(pl.col("end") - pl.col("ts_ns")).sum(),
    )
    for row in threads.sort("marked", "time", descending=True).iter_rows(named=True):
        mine = frame.filter(pl.col("pid").eq_missing(row["pid"]) & pl.col("tid").eq_missing(row["tid"]))
        yield Lane(_thread(answers, row["pid"], row["tid"]), False, _strands(mine, names))


def _device(answers: Answers, span: tuple[int, int], names: dict[str, int]) -> Iterator[Lane]:
    if not answers.has_device:
        return
    frame = _in(device_events(answers.trace), span, "end_ns").rename({"end_ns": "end"})
    several = frame["device"].n_unique() > 1
    for (device, stream), mine in frame.partition_by(
        "device", "stream", as_dict=True, include_key=False, maintain_order=True
    ).items():
        yield Lane(f"{f'{device} ' if several else ''}stream {stream}", True, _strands(mine, names))


def _in(frame: pl.DataFrame, span: tuple[int, int], end: str) -> pl.DataFrame:
    start, stop = span
    return frame.filter((pl.col("ts_ns") < stop) & (pl.col(end) > start)).sort("ts_ns").head(MOST_SLICES)


def _strands(frame: pl.DataFrame, names: dict[str, int]) -> tuple[Strand, ...]:
    ordered = frame.sort("ts_ns", "end", descending=[False, True], maintain_order=True)
    texts = ordered["name"].cast(pl.String).fill_null("(no name)")
    codes = {text: names.setdefault(text, len(names)) for text in texts.unique(maintain_order=True).to_list()}
    index = [codes[text] for text in texts.to_list()]
    return strands(zip(ordered["ts_ns"].to_list(), ordered["end"].to_list(), index, strict=True))


def _thread(answers: Answers, pid: str | None, tid: str | None) -> str:
    name = answers.trace.metadata.thread_names.get((str(pid), str(tid)))
    return visible(name.replace("thread ", "")) if name else f"thread {visible(str(tid))}"
