"""What `gradscope trace` was given: one file, a run with its windows, or a folder of ranks; and what it will cost."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.core.paths import home_expanded
from gradscope.core.units import format_bytes, format_count, format_number_of, format_seconds
from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace.target import Target, window_index

if TYPE_CHECKING:
    from gradscope.trace.folder import FolderTraces
    from gradscope.trace.frames import TraceNote

VIEWER_BYTES = 256 << 20
"""From this size of text on, viewers in a browser stay blank (pytorch/kineto#805)."""
LARGE_BYTES = 64 << 20
"""From this size of text on, a load is announced with what it will cost."""


def resolve(text: str, root: Path) -> Target:
    """Return what a user means: a file, a folder, or a run by path, id, prefix or `last`.

    Raises:
        GradscopeError: There is no such thing, or no trace in it.
    """
    if not text.strip():
        raise GradscopeError("the name of the trace is empty", "name a trace, a run, or a folder of ranks")
    path = home_expanded(text)
    try:
        return _resolved(text, path, root)
    except OSError as error:
        raise GradscopeError(f"cannot read {path}: {error.strerror}", "may you read it?") from error


def _resolved(text: str, path: Path, root: Path) -> Target:
    from gradscope.rundir.registry import find_run
    from gradscope.trace.folder import ENDINGS, find_in_folder

    if path.is_symlink() and not path.exists():
        raise GradscopeError(f"{path} is a link to {path.readlink()}, which is not there", "name a file or a folder")
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
    return target.paths[window_index(target, window)]
