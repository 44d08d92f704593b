"""Finding runs: those of an output root, and the running ones of this user wherever they write.

Each running run has one small file under `$XDG_STATE_HOME/gradscope/running`, so `gradscope runs` and `gradscope
attach` find it from any folder. The file is only a pointer: what the run's state is, its own directory says.
"""

import difflib
import os
import tempfile
from pathlib import Path

import msgspec

from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import host_name
from gradscope.rundir.layout import EVENTS, MANIFEST, RUN_ID, STATUS

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
        if handle is not None and handle.path.is_dir():
            status = handle.status().status
            if not status.is_final and status is not Status.UNKNOWN:
                found.append(handle)
                continue
        try:
            path.unlink(missing_ok=True)
        except OSError:
            continue  # somebody else's state folder, or one mounted read-only: listing still works
    return sorted(found, key=_started, reverse=True)


def all_runs(out: Path) -> list[RunHandle]:
    """Return the runs below an output root, newest first; `[]` if there is no such folder.

    Other people's that this user may not read are left out.
    """
    return sorted((RunHandle(path) for path in out.glob("*/*") if _is_run(path)), key=_started, reverse=True)


def find_run(text: str, out: Path) -> RunHandle:
    """Find a run by its path, id, a unique prefix of its id, or `last` (the newest).

    Args:
        text: What the user wrote.
        out: The output root to look in, beside all running runs.

    Raises:
        GradscopeError: There is none, or there are several; names what would fit.
    """
    path = Path(text)
    if path.is_dir() and any((path / name).exists() for name in (MANIFEST, STATUS, EVENTS)):
        return RunHandle(path)
    runs = {handle.path: handle for handle in (*running(), *all_runs(out))}
    newest = sorted(runs.values(), key=_started, reverse=True)
    if text == LAST:
        if not newest:
            raise GradscopeError(f"there is no run below {out} yet", "`gradscope run quick` makes one")
        return newest[0]
    matches = [handle for handle in newest if handle.run_id == text] or [
        handle for handle in newest if text and handle.run_id.startswith(text)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(handle.run_id for handle in matches[:4])
        raise GradscopeError(f"{text!r} fits {len(matches)} runs", f"write more of one of: {names}")
    near = difflib.get_close_matches(text, [handle.run_id for handle in newest], n=3, cutoff=0.5)
    near = near or [handle.run_id for handle in newest[:3]]
    hint = f"did you mean {' or '.join(near)}?" if near else "`gradscope run quick` makes one"
    raise GradscopeError(f"no run {text!r} below {out}, and none running elsewhere", hint)


def _entry_path(run_dir: Path) -> Path:
    return state_folder() / f"{run_dir.name}.json"


def _is_run(path: Path) -> bool:
    return RUN_ID.match(path.name) is not None and path.is_dir() and os.access(path, os.R_OK | os.X_OK)


def _started(handle: RunHandle) -> tuple[str, int, str]:
    """Order runs by the second in their ids, then by when their manifest was written."""
    try:
        written_ns = (handle.path / MANIFEST).stat().st_mtime_ns
    except OSError:
        written_ns = 0
    return handle.run_id.partition("-")[0], written_ns, handle.run_id
