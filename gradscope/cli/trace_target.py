"""What `gradscope trace` was given: one file, a run with its windows, or a folder of ranks; and loading it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.core.paths import home_expanded
from gradscope.core.units import format_bytes, format_count, format_number_of, format_seconds
from gradscope.errors import ExitCode, GradscopeError

if TYPE_CHECKING:
    from gradscope.trace.folder import FolderTraces
    from gradscope.trace.frames import Trace, TraceNote

VIEWER_BYTES = 256 << 20
"""From this size of text on, viewers in a browser stay blank (pytorch/kineto#805)."""
LARGE_BYTES = 64 << 20
"""From this size of text on, a load is announced with what it will cost."""


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


def resolve(text: str, root: Path) -> Target:
    """Return what a user means: a file, a folder, or a run by path, id, prefix or `last`.

    Raises:
        GradscopeError: There is no such thing, or no trace in it.
    """
    from gradscope.rundir.registry import find_run
    from gradscope.trace.folder import ENDINGS, find_in_folder

    path = home_expanded(text)
    if not path.exists() and (path.name.endswith(ENDINGS) or len(path.parts) > 1):
        raise GradscopeError(f"there is no file {path}", "name a trace, a run, or a folder of ranks")
    if path.is_file():
        return Target("file", [path])
    if path.is_dir() and not _is_run(path):
        search = find_in_folder(path)
        files = search.paths
        if not files and search.stopped:
            raise GradscopeError(f"{path} holds too much to search it for traces", "name the folder they lie in")
        if not files:
            deeper = f"; {search.left_out} files further down end in .json" if search.left_out else ""
            raise GradscopeError(
                f"no trace lies in {path}{deeper}", "traces end in .json or .json.gz; name a file, or a run"
            )
        if any(_is_run(file.parent) for file in files):
            raise GradscopeError(
                f"{path} holds runs, which are no ranks of one", "name a run; `gradscope runs` lists them"
            )
        notes = _search_notes(search)
        return Target("file" if len(files) == 1 else "ranks", files, folder=path, notes=notes)
    if path.exists() and not path.is_dir():
        raise GradscopeError(f"{path} is neither a file nor a folder", "name a trace, a run, or a folder of ranks")
    handle = find_run(text, root)
    windows = handle.traces()
    if not windows:
        raise GradscopeError(
            f"run {handle.run_id} has no trace",
            f"`gradscope show {handle.run_id}` says why; profile.steps asks for one",
        )
    return Target("windows", windows, folder=handle.path, run_id=handle.run_id)


def _search_notes(search: "FolderTraces") -> list["TraceNote"]:
    """Say what a folder holds beside the traces that were taken."""
    from gradscope.trace.frames import TraceNote

    notes = []
    if count := search.left_out:
        text = f"{format_number_of(count, 'more file')} of this folder may be traces, not taken: name one to see it"
        notes.append(TraceNote("traces_left_out", text, count))
    if count := search.unsearched:
        text = f"{format_number_of(count, 'folder')} below this one not searched: too deep, too many, or not readable"
        notes.append(TraceNote("folders_not_searched", text, count))
    return notes


def _is_run(path: Path) -> bool:
    from gradscope.rundir.layout import EVENTS, MANIFEST, STATUS

    return any((path / name).exists() for name in (MANIFEST, STATUS, EVENTS))


def announce(paths: list[Path], say: Callable[[str], None], *, force: bool = False) -> None:
    """Say what loading large files will cost, before it does; refuse what the memory does not hold.

    Raises:
        GradscopeError: It would take more memory than there is, and `force` is not set.
    """
    from gradscope.trace.estimate import cost_of

    found = cost_of(paths)
    size_bytes, need_bytes, free_bytes = found.text_bytes, found.memory_bytes, available_bytes()
    if size_bytes < LARGE_BYTES:
        return
    files = format_number_of(len(paths), "file")
    cost = f"{files} of {format_bytes(size_bytes)}, about {format_count(found.events)} events"
    if free_bytes is not None and need_bytes > free_bytes and not force:
        raise GradscopeError(
            f"{cost}: loading takes about {format_bytes(need_bytes)} of memory, {format_bytes(free_bytes)} are free",
            "cut it first, which takes little: --cut-steps A:B --out small.pt.trace.json.gz; --force loads it anyway",
            exit_code=ExitCode.ENVIRONMENT,
        )
    seconds = format_seconds(found.seconds)
    say(f"{cost}: about {seconds} of one core and {format_bytes(need_bytes)} of memory to load and answer")
    if size_bytes >= VIEWER_BYTES:
        say("browsers do not show traces of this size: --cut-steps A:B --out small.pt.trace.json.gz makes one they do")


def available_bytes() -> int | None:
    """Return the memory that is free, here and in the control groups around; `None` where that is not known."""
    from gradscope.sampling.cgroup import memory_groups
    from gradscope.trace import room

    return room.available_bytes(memory_groups())


def one_file(target: Target, window: int | None = None) -> Path:
    """Return the single file that can be cut.

    Raises:
        GradscopeError: There are several, and none was chosen.
    """
    if target.kind == "ranks":
        raise GradscopeError(f"{target.folder} holds {len(target.paths)} traces", "name the one to cut")
    return target.paths[_window_index(target, window)]


def _window_index(target: Target, window: int | None) -> int:
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
) -> Loaded:
    """Load all that belongs to a target.

    Raises:
        GradscopeError: Something is no trace, or there is no such rank or window.
    """
    from gradscope.trace.load import load_trace
    from gradscope.trace.ranks import by_rank, join_windows, load_readable

    paths = target.paths if window is None else [target.paths[_window_index(target, window)]]
    numbers = {path: number for number, path in enumerate(paths, start=1)}

    def one(path: Path) -> "Trace":
        of = f" {numbers[path]} of {len(paths)}:" if len(paths) > 1 else ""
        progress(f"loading{of} {path.name}")
        try:
            return load_trace(path, with_stacks=with_stacks)
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
    if rank is not None and rank not in ranks:
        raise GradscopeError(f"there is no rank {rank}", f"the ranks are {', '.join(map(str, ranks))}")
    shown = 0 if rank is None else list(ranks).index(rank)
    taken = [trace.path for trace in traces if trace.path] if target.kind == "ranks" else paths
    return Loaded(target, list(ranks.values()), taken, list(ranks), shown, notes)
