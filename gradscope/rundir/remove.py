"""Deleting runs: never one that may be running, and never so that half of one is left looking like a run.

A run directory is first renamed to a name that no reader takes for a run, then emptied. What a deletion that was cut
short leaves behind has that name too, and the next one below the same output root takes it away.
"""

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from gradscope.core.status import Status, StatusRecord
from gradscope.core.units import format_seconds
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.rundir.host import boot_id, host_name, is_alive
from gradscope.rundir.layout import RUN_ID, short_id

QUIET_SECONDS = 3600
"""A run that this machine cannot judge may be running on another one; one that wrote nothing for so long is not."""

ATTEMPTS = 100
"""Looks at a folder that somebody else is emptying too."""

ASIDE = ".deleting-"
_ASIDE_NAME = re.compile(rf"^{re.escape(ASIDE)}{RUN_ID.pattern.strip('^$')}-[0-9a-f]{{8}}$")


def why_not(path: Path, now_wall_ns: int | None = None) -> GradscopeError | None:
    """Return why a run must not be deleted; `None` if it may be. Looks only; blocking.

    Args:
        path: A run directory.
        now_wall_ns: The time; by default, now.
    """
    try:
        return _why_not(path, time.time_ns() if now_wall_ns is None else now_wall_ns)
    except OSError as error:
        return _cannot(path, error)


def remove_run(path: Path) -> None:
    """Delete a run. Of one that is a link, only the link goes; links inside are not followed either.

    Args:
        path: Its directory, e.g. `traces/quick/20270115T080000Z-0a1b2c`.

    Raises:
        GradscopeError: It is no run, may be running, or cannot be deleted. Where a part could not be deleted, what is
            left is no run any more, and the message says where it lies.
    """
    reason = why_not(path)
    if reason is not None:
        raise reason
    aside = path.with_name(f"{ASIDE}{path.name}-{secrets.token_hex(4)}")
    try:
        if path.is_symlink():
            path.unlink()
            return
        path.rename(aside)
    except OSError as error:
        raise _cannot(path, error) from error
    try:
        _empty(aside)
    except OSError as error:
        raise GradscopeError(
            f"{path.name} is no run any more, but not all of it could be deleted: {error.strerror or error}",
            f"what is left lies in {aside}",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error


def remove_leftovers(out: Path) -> int:
    """Take away what deletions below an output root left behind that were cut short; returns how many went.

    What cannot be taken away stays: it is not seen as a run.
    """
    gone = 0
    for path in leftovers(out):
        try:
            _empty(path)
            gone += 1
        except OSError:
            continue
    return gone


def leftovers(out: Path) -> list[Path]:
    """Return the remains of deletions that were cut short, or are going on."""
    found = out.glob(f"*/{ASIDE}*")
    return sorted(path for path in found if _ASIDE_NAME.match(path.name) and path.is_dir() and not path.is_symlink())


def disk_bytes(path: Path) -> int:
    """Return what deleting a run would free: the sizes of its files, without following links."""
    return sum(found.st_size for found in _stats(path))


def _why_not(path: Path, now_wall_ns: int) -> GradscopeError | None:
    if RUN_ID.match(path.name) is None:
        return GradscopeError(f"{path} is no run: it has not the name of one", "`gradscope runs` lists the runs")
    if not path.is_symlink() and not path.is_dir():
        return GradscopeError(f"there is no run {path}", "it may have been deleted already")
    handle = RunHandle(path)
    status = handle.status()
    if is_running(status) or _outlived(handle):
        return GradscopeError(f"{path.name} is running", f"`gradscope stop {short_id(path.name)}` ends it")
    return None if path.is_symlink() else _why_not_folder(path, status, now_wall_ns)


def _why_not_folder(path: Path, status: StatusRecord, now_wall_ns: int) -> GradscopeError | None:
    quiet_ns = now_wall_ns - max((found.st_mtime_ns for found in _stats(path)), default=0)
    if status.status is Status.UNKNOWN and quiet_ns < QUIET_SECONDS * 1_000_000_000:
        ago = format_seconds(max(0, quiet_ns) // 1_000_000_000)
        return GradscopeError(
            f"{path.name} may be running: {status.reason or 'its status is unknown'}, and it was written to {ago} ago",
            f"wait until nothing was written for an hour, or delete the folder yourself: {path}",
        )
    if not os.access(path, os.W_OK | os.X_OK):
        return GradscopeError(
            f"{path.name} may not be deleted: its folder is not yours to write",
            f"see who owns {path}",
            exit_code=ExitCode.ENVIRONMENT,
        )
    return None


def _outlived(handle: RunHandle) -> bool:
    """Whether the worker of a run is still there although its supervisor is gone: it ends within seconds."""
    record = handle.recorded_status()
    if record is None or record.status.is_final or record.worker is None:
        return False
    return (record.host, record.boot_id) == (host_name(), boot_id()) and is_alive(record.worker)


def _cannot(path: Path, error: OSError) -> GradscopeError:
    return GradscopeError(
        f"cannot delete {path.name}: {error.strerror or error}",
        f"see who owns {path.parent}, and whether it may be written",
        exit_code=ExitCode.ENVIRONMENT,
    )


def _empty(aside: Path) -> None:
    """Delete a folder that was set aside; somebody else may be deleting it at the same time."""
    for _ in range(ATTEMPTS):
        try:
            shutil.rmtree(aside)
        except FileNotFoundError:
            if not aside.exists():
                return
        else:
            return


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Yield what is known of a run's folder and all that is in it; files that are just going are left out."""
    if path.is_symlink():
        return
    try:
        yield path.lstat()
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _stats(Path(entry.path))
        else:
            yield found
