"""What a question is about: one file, a run with its windows, or a folder of ranks; and loading it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.core.units import format_number_of
from gradscope.errors import GradscopeError

if TYPE_CHECKING:
    from gradscope.trace.frames import Trace, TraceNote


@dataclass(frozen=True, slots=True)
class Target:
    """Files to look at, and what they are to each other."""

    kind: str
    """`file`, `windows` (of a run, oldest first) or `ranks`."""
    paths: list[Path]
    folder: Path | None = None
    run_id: str | None = None
    notes: list["TraceNote"] = field(default_factory=list)
    """What a search of a folder left out."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The traces of a target."""

    target: Target
    traces: list["Trace"]
    """One, or one a rank; the windows of one worker are joined."""
    paths: list[Path]
    """The files that they were loaded from."""
    ranks: list[int] = field(default_factory=lambda: [0])
    """One a trace."""
    shown: int = 0
    """The one that the views are of."""
    notes: list["TraceNote"] = field(default_factory=list)
    """What was not taken or could not be loaded."""

    @property
    def size_bytes(self) -> int:
        """What the files of the trace that is shown take on disk."""
        path = self.traces[self.shown].path
        return sum(one.stat().st_size for one in self.paths if self.target.kind != "ranks" or one == path)


def window_index(target: Target, window: int | None) -> int:
    """Return the place of a window in a target's files, the last one if none is named.

    Raises:
        GradscopeError: There is no such window.
    """
    count = len(target.paths)
    if window is None:
        return count - 1
    if target.kind != "windows" or window > count:
        there = f"it has {format_number_of(count, 'window')}" if target.kind == "windows" else "only runs have windows"
        raise GradscopeError(f"there is no window {window}", there)
    return window - 1


def load(
    target: Target,
    *,
    rank: int | None = None,
    window: int | None = None,
    with_stacks: bool = False,
    progress: Callable[[str], None] = lambda _line: None,
    watch: Callable[[int], None] = lambda _events: None,
) -> Loaded:
    """Load all that belongs to a target.

    Args:
        target: What to load.
        rank: Of several ranks, the one that views are of; the first if not given.
        window: Of a run's windows, the only one to load, counted from 1.
        with_stacks: Whether to load the stacks that events hold.
        progress: Told which file is loaded next.
        watch: As for `load_trace`; counts begin anew with each file.

    Raises:
        GradscopeError: Something is no trace, or there is no such rank or window.
    """
    from gradscope.trace.load import load_trace
    from gradscope.trace.ranks import RANK_GUESSED, by_rank, join_windows, load_readable

    paths = target.paths if window is None else [target.paths[window_index(target, window)]]
    numbers = {path: number for number, path in enumerate(paths, start=1)}

    def one(path: Path) -> "Trace":
        of = f" {numbers[path]} of {len(paths)}:" if len(paths) > 1 else ""
        progress(f"loading{of} {path.name}")
        try:
            return load_trace(path, with_stacks=with_stacks, watch=watch)
        except GradscopeError as error:
            if target.folder is None or target.kind != "file":
                raise
            reason = f"no trace lies in {target.folder}: {error.message}"  # nobody named this file
            raise GradscopeError(reason, error.hint, exit_code=error.exit_code) from error

    notes = list(target.notes)
    if target.kind == "ranks":
        traces, failures = load_readable(paths, one)
        notes += failures
    else:
        traces = [join_windows([one(path) for path in paths])]
    ranks = by_rank(traces)
    notes += [note for trace in ranks.values() for note in trace.notes if note.code == RANK_GUESSED]
    if rank is not None and rank not in ranks:
        raise GradscopeError(f"there is no rank {rank}", f"the ranks are {', '.join(map(str, ranks))}")
    shown = 0 if rank is None else list(ranks).index(rank)
    taken = [trace.path for trace in traces if trace.path] if target.kind == "ranks" else paths
    return Loaded(target, list(ranks.values()), taken, list(ranks), shown, notes)
