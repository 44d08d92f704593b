"""Finding runs: those of an output root, and the running ones of this user wherever they write.

Each running run has one small file under `$XDG_STATE_HOME/gradscope/running`, so `gradscope runs` and `gradscope
attach` find it from any folder. The file is only a pointer: what the run's state is, its own directory says.
"""

import difflib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gradscope.errors import GradscopeError
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.rundir.host import host_name
from gradscope.rundir.layout import EVENTS, MANIFEST, RUN_ID, STATUS, short_id

LAST = "last"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Where a running run is."""

    path: str
    host: str


def state_folder() -> Path:
    """Return where pointers to running runs lie. As the XDG specification says, a relative setting is ignored."""
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".local" / "state"
        except RuntimeError:  # neither HOME nor an entry in passwd, as in a container with a user id of its own
            base = Path(tempfile.gettempdir()) / f"user-{os.getuid()}"
    return base / "gradscope" / "running"


def register(run_dir: Path) -> None:
    """Make a run findable from any folder.

    Raises:
        OSError: The state folder cannot be written; the run is then found by its path only.
    """
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    write_json(_entry_path(run_dir), Entry(path=str(run_dir), host=host_name()))


def unregister(run_dir: Path) -> None:
    """Take a run off the list; fine if it is not on it.

    Raises:
        OSError: The state folder cannot be written.
    """
    _entry_path(run_dir).unlink(missing_ok=True)


def running() -> list[RunHandle]:
    """Return this user's running runs on this host, newest first. Pointers to runs that are over are removed."""
    found = []
    for path in sorted(state_folder().glob("*.json")):
        entry = read_json(path, Entry)
        if entry is not None and entry.host != host_name():
            continue  # a home directory shared by several hosts: theirs to judge
        handle = None if entry is None else RunHandle(Path(entry.path))
        if handle is not None and handle.path.is_dir() and is_running(handle.status()):
            found.append(handle)
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError:
            continue  # somebody else's state folder, or one mounted read-only: listing still works
    return sorted(found, key=_started, reverse=True)


def all_runs(out: Path, *, unreadable: bool = False) -> list[RunHandle]:
    """Return the runs below an output root, newest first; `[]` if there is no such folder.

    Args:
        out: The output root.
        unreadable: Whether runs that this user may not read, such as other people's, are among them.
    """
    found = (RunHandle(path) for path in out.glob("*/*") if _is_run(path) and (unreadable or _is_readable(path)))
    return sorted(found, key=_started, reverse=True)


def running_elsewhere(out: Path) -> list[RunHandle]:
    """Return the running runs that do not lie below an output root, newest first."""
    root = out.resolve()
    return [handle for handle in running() if not handle.path.resolve().is_relative_to(root)]


def last_run(out: Path) -> RunHandle:
    """Return the newest run below an output root, whatever became of it.

    Raises:
        GradscopeError: There is none; the hint names those that are running elsewhere.
    """
    runs = all_runs(out)
    if not runs:
        elsewhere = running_elsewhere(out)
        hint = f"running elsewhere: {_places(elsewhere)}" if elsewhere else "`gradscope run quick` makes one"
        raise GradscopeError(f"there is no run below {out} yet", hint)
    return runs[0]


def last_running(out: Path, verb: str) -> RunHandle:
    """Return the newest running run below an output root; where nothing runs at all, the newest that is over.

    Args:
        out: The output root.
        verb: The command that would act on the run, for the hint.

    Raises:
        GradscopeError: There is no run below the root, or runs are running elsewhere only: acting on one of those
            is nothing to guess at.
    """
    going = _running_below(out)
    if going is None and (elsewhere := running_elsewhere(out)):
        raise GradscopeError(
            f"no run below {out} is running", f"`gradscope {verb} ID` takes one from elsewhere: {_places(elsewhere)}"
        )
    return going or last_run(out)


def last_to_follow(out: Path) -> RunHandle:
    """Return the newest running run below an output root, else its newest, else the only one that is running elsewhere.

    Raises:
        GradscopeError: There is none, or several are running elsewhere.
    """
    elsewhere = running_elsewhere(out)
    if len(elsewhere) == 1 and not all_runs(out):
        return elsewhere[0]
    return _running_below(out) or last_run(out)


def find_run(text: str, out: Path, last: Callable[[Path], RunHandle] = last_run) -> RunHandle:
    """Find a run by its path, its id, a unique prefix of that, its short id, or `last`.

    Args:
        text: What the user wrote.
        out: The output root to look in; all but `last` also find the running runs elsewhere.
        last: What `last` means.

    Raises:
        GradscopeError: There is none, or there are several; names what would fit.
    """
    path = Path(text)
    if path.is_dir() and any((path / name).exists() for name in (MANIFEST, STATUS, EVENTS)):
        return RunHandle(path)
    if text == LAST:
        return last(out)
    runs = [*running_elsewhere(out), *all_runs(out)]
    matches = [handle for handle in runs if handle.run_id == text] or [
        handle for handle in runs if text and (handle.run_id.startswith(text) or short_id(handle.run_id) == text)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(handle.run_id for handle in matches[:4])
        raise GradscopeError(f"{text!r} fits {len(matches)} runs", f"write more of one of: {names}")
    if text and path.exists():
        kind = "folder" if path.is_dir() else "file"
        raise GradscopeError(
            f"the {kind} {text} is no run", f"a run is a folder with a {MANIFEST}; `gradscope runs` lists them"
        )
    raise GradscopeError(f"no run {text!r} below {out}, and none running elsewhere", _near(text, runs))


def _near(text: str, runs: Sequence[RunHandle]) -> str:
    if not runs:
        return "`gradscope run quick` makes one"
    ids = [handle.run_id for handle in runs]
    near = difflib.get_close_matches(text, [*ids, *map(short_id, ids)], n=3, cutoff=0.7)
    count = "there is one run" if len(runs) == 1 else f"there are {len(runs)} runs"
    return f"did you mean {' or '.join(near)}?" if near else f"{count}; `gradscope runs` lists them"


def _running_below(out: Path) -> RunHandle | None:
    return next((handle for handle in all_runs(out) if is_running(handle.status())), None)


def _places(runs: Sequence[RunHandle]) -> str:
    return ", ".join(f"{handle.run_id} in {handle.path.parent.parent}" for handle in runs)


def _entry_path(run_dir: Path) -> Path:
    return state_folder() / f"{run_dir.name}.json"


def _is_run(path: Path) -> bool:
    return RUN_ID.match(path.name) is not None and os.path.isdir(path)  # noqa: PTH112 - raises for no folder


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK)


def _started(handle: RunHandle) -> tuple[str, int, str]:
    """Order runs by the second in their ids, then by when their manifest was written."""
    try:
        written_ns = (handle.path / MANIFEST).stat().st_mtime_ns
    except OSError:
        written_ns = 0
    return handle.run_id.partition("-")[0], written_ns, handle.run_id
