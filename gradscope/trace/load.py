"""A trace file into a `Trace`: header, events in bounded pieces, columns joined, unusable events left out.

Time and memory grow with the file, never faster. Pieces are decoded by helper processes where the file is large enough.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import polars as pl

from gradscope.errors import GradscopeError
from gradscope.trace.categories import GRADSCOPE_PREFIX, PYTHON
from gradscope.trace.columns import to_chunk
from gradscope.trace.complete import steps_left_out
from gradscope.trace.frames import EVENT_SCHEMA, Metadata, Trace, TraceNote, whole_ns
from gradscope.trace.gather import Gathered
from gradscope.trace.header import HEADER_BYTES, metadata_from, read_header, read_opening
from gradscope.trace.notes import hint, notes_from
from gradscope.trace.parallel import Helpers
from gradscope.trace.pieces import EventReader, Piece
from gradscope.trace.room import Room, too_large
from gradscope.trace.source import Source
from gradscope.trace.usable import SIZES, plausible_sizes, usable_events

PARALLEL_FILE_BYTES = 1 << 26
PARALLEL_COMPRESSED_BYTES = 1 << 22
"""From these sizes on, starting helpers (0.3 s) pays."""
HELPERS = 2
FOREIGN_BYTES = 1 << 25
"""A list in which so much text holds no event is none of events."""


EVENT_BYTES, ROW_BYTES = 360, 205
"""About what an event takes in a file, and in a frame."""
KEY_COLUMNS = ("ph", "name", "cat", "pid", "tid", "ts_us", "dur_us")
"""What decides whether an event can be used."""


def unwatched(events: int) -> None:
    """Tell nobody how many events were read so far."""


class _Ragged(Exception):  # noqa: N818  # no error: what the helpers got was cut at a wrong place, or there are none
    pass


def load_trace(
    path: Path,
    *,
    with_shapes: bool = True,
    with_stacks: bool = False,
    processes: int | None = None,
    watch: Callable[[int], None] = unwatched,
) -> Trace:
    """Load a trace that torch.profiler wrote, whatever its form and its damages.

    Args:
        path: `.json` or `.json.gz`; what it is is told by its content.
        with_shapes: Whether to load `shapes` and `types`.
        with_stacks: Whether to load `stack`.
        processes: How many processes decode; 1: this one. None: as many as pay.
        watch: Told now and then how many events were read. What it raises ends the loading and is raised.

    Returns:
        The trace. What was repaired, left out or guessed stands in its notes; a trace without usable events is one.

    Raises:
        GradscopeError: It cannot be read, is empty, is no JSON, is JSON of another kind, or too large for the memory.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of short-lived objects without cycles: walking them costs a third of the time
    try:
        if (count := _helpers(path) if processes is None else processes) > 1:
            try:
                return _load(path, count, watch, with_shapes=with_shapes, with_stacks=with_stacks)
            except _Ragged:  # rare: a piece could not be read whole by itself
                pass
        return _load(path, 1, watch, with_shapes=with_shapes, with_stacks=with_stacks)
    except MemoryError as error:  # `Room` looks ahead; this is what it did not foresee
        raise too_large(path.name) from error
    finally:
        if collecting:
            gc.enable()


def _helpers(path: Path) -> int:
    with Source(path) as source:
        limit = PARALLEL_COMPRESSED_BYTES if source.compressed else PARALLEL_FILE_BYTES
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(HELPERS, cores) if source.file_bytes >= limit else 1


def _load(path: Path, processes: int, watch: Callable[[int], None], *, with_shapes: bool, with_stacks: bool) -> Trace:
    options = {"with_shapes": with_shapes, "with_stacks": with_stacks}
    gathered, room = Gathered(), Room(path.name)
    with ExitStack() as stack:
        source = stack.enter_context(Source(path))
        helpers = None
        if processes > 1:
            file = None if source.compressed else path.absolute()
            try:
                helpers = stack.enter_context(Helpers(processes, file, **options))
            except OSError as error:  # no more processes or memory for them
                raise _Ragged from error
        opening = read_opening(source)
        reader = EventReader(source, opening)
        if helpers:
            for offset, chunk in helpers.decode(_watched(reader.pieces(), room)):
                if not chunk.whole:
                    raise _Ragged
                gathered.add(offset, chunk)
                watch(gathered.height)
        for offset, scan in reader.scans():
            gathered.add(offset, to_chunk(scan, **options))
            watch(gathered.height)
            room.require(ROW_BYTES * gathered.height, gathered.height)
            if gathered.nothing and offset - opening.start > FOREIGN_BYTES:
                break
    if gathered.foreign:
        raise GradscopeError(f"{path.name} is no trace: its list holds no events", "is it the right file?")
    header, flaw = read_header(opening.head, reader.rest)
    torn = not opening.legacy or bool(source.damage) or gathered.tally.counts["cut event"] > 0
    cut = torn and not reader.closed  # the form allows a bare list to end without its bracket
    notes = list(_notes_of_form(source.damage, legacy=opening.legacy, cut=cut))
    if flaw == "followed" or (opening.legacy and reader.rest.strip()):
        notes.append(hint("text_after_end"))
    elif flaw and not opening.legacy and reader.closed and len(reader.rest) < HEADER_BYTES:
        notes.append(hint("header_unreadable" if not header else "header_cut"))
    metadata = metadata_from(header, path, legacy=opening.legacy)
    trace = _finished(path, gathered, metadata, notes)
    return replace(trace, cut_at=(gathered.places,)) if cut else trace


def _watched(pieces: Iterator[Piece], room: Room) -> Iterator[Piece]:
    """Pass pieces on as long as what they give is likely to fit into memory."""
    events = 0
    for piece in pieces:
        yield piece
        events += len(piece.text) // EVENT_BYTES
        room.require(ROW_BYTES * events, events)


def _notes_of_form(damage: str | None, *, legacy: bool, cut: bool) -> Iterator[TraceNote]:
    if legacy:
        yield hint("legacy_format")
    if damage:
        yield hint("damaged_gzip", damage)
    elif cut:
        yield hint("truncated")


def _finished(path: Path, gathered: Gathered, metadata: Metadata, notes: list[TraceNote]) -> Trace:
    every = gathered.frame(KEY_COLUMNS)
    usable, dropped, start_us = usable_events(every)
    if dropped:
        notes += steps_left_out(every, usable)
    del every
    times = usable.select(
        ts_ns=_nanoseconds("ts_us") - whole_ns(start_us),
        dur_ns=_nanoseconds("dur_us"),
    )
    rows = None if usable.height == gathered.height else usable.get_column("row")
    columns: dict[str, pl.Series] = {}
    for name in EVENT_SCHEMA:
        if name in KEY_COLUMNS or name in times.columns:
            columns[name] = (times if name in times.columns else usable).get_column(name)
        else:
            taken = gathered.take(name)
            columns[name] = taken if rows is None else taken.gather(rows)
        if name in SIZES:
            columns[name] = plausible_sizes(columns[name], dropped)
    gathered.tally.counts.update(dropped)
    notes += notes_from(gathered.tally, total=gathered.places)
    if not usable.height:
        notes.append(hint("no_usable_events"))
    events = pl.DataFrame(list(columns.values()))
    return Trace(path, events, _completed(metadata, events, gathered), notes, start_us)


def _nanoseconds(column: str) -> pl.Expr:
    """Return microseconds as whole nanoseconds: as `frames.whole_ns`, so that an integer in the file stays exact."""
    whole = pl.col(column).floor()
    return whole.cast(pl.Int64) * 1000 + ((pl.col(column) - whole) * 1000).round().cast(pl.Int64)


def _completed(metadata: Metadata, events: pl.DataFrame, gathered: Gathered) -> Metadata:
    """Add what only the events tell."""
    names = events.get_column("name").unique().cast(pl.String)
    seen = {column: events.get_column(column).null_count() < events.height for column in ("shapes", "stack", "flops")}
    python = events.select(pl.col("cat").is_in(list(PYTHON)).any()).item()
    texts: dict[str, dict[tuple[str, str], str]] = {}
    for kind, pid, tid, text in gathered.named:
        texts.setdefault(kind, {})[pid, tid] = text
    return replace(
        metadata,
        with_stack=metadata.with_stack or bool(python) or seen["stack"] or metadata.with_stack,
        record_shapes=metadata.record_shapes or seen["shapes"] or metadata.record_shapes,
        profile_memory=metadata.profile_memory or "[memory]" in names or metadata.profile_memory,
        with_flops=metadata.with_flops or seen["flops"] or metadata.with_flops,
        gradscope_run=bool(names.str.starts_with(GRADSCOPE_PREFIX).any()),
        process_names={pid: text for (pid, _), text in texts.get("process_name", {}).items()},
        process_labels={pid: text for (pid, _), text in texts.get("process_labels", {}).items()},
        thread_names=texts.get("thread_name", {}),
    )
