"""A folder of traces by rank: what each file says, and numbers by file name where they say nothing.

Files of several workers are never merged. Several windows of one worker are: a run with `repeat` writes one file each.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.trace.folder import find_in_folder
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.load import load_trace

IDS = ("correlation", "external_id", "sequence", "python_id", "python_parent", "module_id")
"""Columns whose numbers may begin anew in each window."""
LARGEST_ID = 1 << 62
"""Ids from here on, and negative ones, are no count of torch's: they are left as they are."""
RANK_GUESSED = "rank_guessed"
"""Code of the note on a trace whose rank is not its own word."""
FAILED_NAMED = 3
"""Files that could not be loaded and are told by name."""

Failure = tuple[Path, GradscopeError | OSError]
"""A file that could not be loaded, and why."""


def load_traces(
    folder: Path, *, with_shapes: bool = True, with_stacks: bool = False, processes: int | None = None
) -> dict[int, Trace]:
    """Load all traces of a folder, by rank.

    What cannot be loaded is left out, and a note of each trace says so.

    Args:
        folder: Holds `*.pt.trace.json` or `.json.gz`, at any depth; else any `.json` or `.json.gz` at its top.
        with_shapes: As for `load_trace`.
        with_stacks: As for `load_trace`.
        processes: As for `load_trace`.

    Raises:
        GradscopeError: There is none, or none of them can be loaded.
    """
    paths = trace_files(folder)
    if not paths:
        raise GradscopeError(f"no trace lies in {folder}", "traces end in .json or .json.gz")

    def load(path: Path) -> Trace:
        return load_trace(path, with_shapes=with_shapes, with_stacks=with_stacks, processes=processes)

    traces, notes = load_readable(paths, load)
    return {rank: replace(trace, notes=[*trace.notes, *notes]) for rank, trace in by_rank(traces).items()}


def load_readable(paths: list[Path], load: Callable[[Path], Trace]) -> tuple[list[Trace], list[TraceNote]]:
    """Load the files that can be, and name the others in a note.

    Raises:
        GradscopeError: None of them can be loaded.
        OSError: The same.
    """
    traces, failed = [], list[Failure]()
    for path in paths:
        try:
            traces.append(load(path))
        except (GradscopeError, OSError) as error:
            failed.append((path, error))
            if len(failed) == len(paths):
                raise
    return traces, [_not_loaded(failed)] if failed else []


def _not_loaded(failed: list[Failure]) -> TraceNote:
    names = ", ".join(visible(path.name) for path, _ in failed[:FAILED_NAMED])
    rest = f" and {len(failed) - FAILED_NAMED} more" if len(failed) > FAILED_NAMED else ""
    _, error = failed[0]
    why = visible(error.message if isinstance(error, GradscopeError) else str(error))
    return TraceNote("trace_not_loaded", f"not loaded: {names}{rest} ({why})", len(failed))


def trace_files(folder: Path) -> list[Path]:
    """Return the traces of a folder, by name."""
    return find_in_folder(folder).paths


def by_rank(traces: list[Trace]) -> dict[int, Trace]:
    """Give each worker's trace its rank, and join the windows of one worker.

    One file without a rank is rank 0; of several, and where two workers claim one rank, the later ones by name get the
    next free number, with a note that says so.
    """
    workers: dict[tuple[int | None, str], list[Trace]] = {}
    for number, trace in enumerate(traces):
        worker = trace.metadata.worker or (trace.path.name if trace.path else str(number))
        workers.setdefault((trace.metadata.rank, worker), []).append(trace)
    ranks: dict[int, Trace] = {}
    unplaced: list[Trace] = []
    for (rank, _), windows in workers.items():
        joined = join_windows(windows)
        if rank is None or rank in ranks:
            unplaced.append(joined)
        else:
            ranks[rank] = joined
    for trace in unplaced:
        rank = next(number for number in range(len(workers)) if number not in ranks)
        ranks[rank] = trace if len(workers) == 1 else _numbered(trace, rank)
    return dict(sorted(ranks.items()))


def _numbered(trace: Trace, rank: int) -> Trace:
    name = visible(trace.path.name) if trace.path else "a trace"
    said = "no rank" if trace.metadata.rank is None else f"rank {trace.metadata.rank}, as another file does"
    note = TraceNote(RANK_GUESSED, f"{name} says {said}: numbered {rank}, in order of names")
    return replace(trace, notes=[*trace.notes, note])


def join_windows(windows: list[Trace]) -> Trace:
    """Join the windows of one worker, in order of time on the wall clock, with ids that stay apart.

    Returns:
        One trace on the first window's axis; with one window, that one as it is.
    """
    if len(windows) == 1:
        return windows[0]
    windows = sorted(windows, key=lambda trace: trace.wall_ns(0))
    first = windows[0]
    frames, places = [first.events], _next_free(first.events, "index")
    cut_at = [places] if first.cut_at else []
    for number, trace in enumerate(windows[1:], start=2):
        shift = max(_next_free(frames[-1], name) for name in IDS)
        later = trace.wall_ns(0) - first.wall_ns(0)
        frames.append(
            trace.events.with_columns(
                pl.col("ts_ns") + later,
                (pl.col("index") + places).cast(pl.UInt32),
                *(pl.when(_counted(name)).then(pl.col(name) + shift).otherwise(name) for name in IDS),
                flow_id=f"window {number}: " + pl.col("flow_id"),
            )
        )
        places = _next_free(frames[-1], "index")
        cut_at += [places] if trace.cut_at else []
    notes = [note for trace in windows for note in trace.notes]
    notes.append(TraceNote("windows_joined", f"{len(windows)} windows of one worker, joined in order", len(windows)))
    return replace(first, events=pl.concat(frames), notes=notes, cut_at=tuple(cut_at))


def _counted(column: str) -> pl.Expr:
    return pl.col(column).is_between(0, LARGEST_ID, closed="left")


def _next_free(events: pl.DataFrame, column: str) -> int:
    highest = events.select(pl.col(column).filter(_counted(column)).max()).item()
    return 0 if highest is None else int(highest) + 1
