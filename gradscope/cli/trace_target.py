"""What `gradscope trace` was given: one file, a run with its windows, or a folder of ranks; and loading it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.core.paths import home_expanded
from gradscope.core.units import format_bytes, format_count, format_number_of, format_seconds
from gradscope.errors import GradscopeError

if TYPE_CHECKING:
    from gradscope.trace.frames import Trace

LARGE_BYTES = 64 << 20
"""From this size of text on, a load is announced with what it will cost."""
BYTES_PER_EVENT = 360
"""Of a trace with stacks and shapes."""
BYTES_PER_SECOND = 90e6
MEMORY_PER_BYTE = 1.5


@dataclass(frozen=True, slots=True)
class Target:
    """Files to look at, and what they are to each other."""

    kind: str
    """`file`, `windows` (of a run, oldest first) or `ranks`."""
    paths: list[Path]
    folder: Path | None = None
    run_id: str | None = None


@dataclass(slots=True)
class Loaded:
    """The traces of a target."""

    target: Target
    traces: list["Trace"]
    """Windows in order, or ranks in order."""
    labels: list[str] = field(default_factory=list)
    """`window 1`, `rank 0`; one a trace."""
    shown: int = 0
    """The one that the views are of."""
    ranks: list[int] = field(default_factory=list)
    """One a trace; where a trace does not tell its own, its place among the files."""


def resolve(text: str, root: Path) -> Target:
    """Return what a user means: a file, a folder, or a run by path, id, prefix or `last`.

    Raises:
        GradscopeError: There is no such thing, or no trace in it.
    """
    from gradscope.rundir.registry import find_run

    path = home_expanded(text)
    if path.is_file():
        return Target("file", [path])
    if path.is_dir() and not _is_run(path):
        files = traces_in(path)
        if not files:
            raise GradscopeError(f"no trace lies in {path}", "traces end in .json or .json.gz; name a file, or a run")
        return Target("file", files) if len(files) == 1 else Target("ranks", files, folder=path)
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


def _is_run(path: Path) -> bool:
    from gradscope.rundir.layout import EVENTS, MANIFEST, STATUS

    return any((path / name).exists() for name in (MANIFEST, STATUS, EVENTS))


def traces_in(folder: Path) -> list[Path]:
    """Return the files of a folder that may be traces, by name."""
    return sorted(path for path in folder.iterdir() if path.name.endswith((".json", ".json.gz")) and path.is_file())


def announce(paths: list[Path], say: Callable[[str], None]) -> None:
    """Say what loading large files will cost, before it does."""
    from gradscope.trace.document import uncompressed_bytes

    size_bytes = sum(max(uncompressed_bytes(path), path.stat().st_size) for path in paths)
    if size_bytes < LARGE_BYTES:
        return
    files = format_number_of(len(paths), "file")
    events = format_count(size_bytes / BYTES_PER_EVENT)
    seconds, memory = size_bytes / BYTES_PER_SECOND, size_bytes * MEMORY_PER_BYTE
    say(
        f"{files} of {format_bytes(size_bytes)}, about {events} events: "
        f"about {format_seconds(seconds)} and {format_bytes(memory)} of memory to load"
    )


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

    if rank is not None and target.kind != "ranks":
        raise GradscopeError("--rank chooses one of a folder's traces", "this is a single trace")
    shown = 0 if target.kind == "ranks" and window is None else _window_index(target, window)
    traces = []
    for number, path in enumerate(target.paths, start=1):
        progress(
            f"loading {number} of {len(target.paths)}: {path.name}" if len(target.paths) > 1 else f"loading {path.name}"
        )
        traces.append(load_trace(path, with_stacks=with_stacks))
    if target.kind != "ranks":
        labels = [f"window {number}" for number in range(1, len(traces) + 1)]
        return Loaded(target, traces, labels, shown, list(range(len(traces))))
    numbers = _rank_numbers(target, traces)
    if rank is not None and rank not in numbers:
        raise GradscopeError(f"there is no rank {rank}", f"the ranks are {', '.join(map(str, sorted(numbers)))}")
    order = sorted(range(len(traces)), key=lambda index: numbers[index])
    labels = [f"rank {numbers[index]}" for index in order]
    shown = 0 if rank is None else labels.index(f"rank {rank}")
    return Loaded(target, [traces[index] for index in order], labels, shown, [numbers[index] for index in order])


def _rank_numbers(target: Target, traces: list["Trace"]) -> list[int]:
    """Return each file's rank; files that tell none are numbered in the order of their names, and never merged.

    Raises:
        GradscopeError: Two files say that they are of the same rank.
    """
    told = [trace.metadata.rank for trace in traces]
    twice = [number for number in told if number is not None and told.count(number) > 1]
    if twice:
        names = ", ".join(path.name for path, number in zip(target.paths, told, strict=True) if number == twice[0])
        raise GradscopeError(
            f"several files are of rank {twice[0]}: {names}", "name one, or keep one recording a folder"
        )
    free = iter(number for number in range(len(told) * 2) if number not in told)
    return [next(free) if number is None else number for number in told]
