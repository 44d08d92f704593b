"""The runs of an output root, read again and again: what has not changed on disk is not read twice."""

import os
from dataclasses import dataclass
from pathlib import Path

from gradscope.analysis.listing import RunRow, describe
from gradscope.core.status import Status
from gradscope.core.units import format_number_of
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import MANIFEST, STATUS, SUMMARY, created_wall_ns
from gradscope.rundir.registry import all_runs

Stamp = tuple[int, int]
"""When a file was last written, and its size."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run that is over, or that this machine cannot judge."""

    row: RunRow
    reason: str = ""
    """Why it did not finish."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """What lies below an output root now."""

    total: int
    """All runs, running ones included."""
    going: tuple[RunHandle, ...]
    """Those among the newest that are running."""
    runs: tuple[ListedRun, ...]
    """The newest of the others, newest first."""
    problem: str = ""
    """What of the output root cannot be read."""


class RunList:
    """Reads an output root. Not for several threads at once."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._folders: dict[str, int] = {}
        self._problem = ""
        self._handles: list[RunHandle] = []
        self._known: dict[Path, tuple[tuple[Stamp | None, ...], ListedRun]] = {}

    def read(self, limit: int) -> Listed:
        """Return the newest runs, at most `limit` that are over.

        Costs a look at each folder of the root, and at three files of each run that is returned; runs are read when
        they are new or have changed.
        """
        folders, problem = _folders(self.out)
        if folders != self._folders or problem != self._problem:
            self._handles = [] if problem and not folders else all_runs(self.out, unreadable=True)
            self._folders, self._problem = folders, problem
        going: list[RunHandle] = []
        runs: list[ListedRun] = []
        known: dict[Path, tuple[tuple[Stamp | None, ...], ListedRun]] = {}
        for handle in self._handles:
            if len(runs) == limit:
                break
            stamps = _stamps(str(handle.path))
            before = self._known.get(handle.path)
            if before is not None and before[0] == stamps:
                known[handle.path] = before
                runs.append(before[1])
                continue
            listed = _listed(handle)
            if listed is None:
                going.append(handle)
            else:
                known[handle.path] = (stamps, listed)
                runs.append(listed)
        self._known = known
        return Listed(len(self._handles), tuple(going), tuple(runs), problem)


def _listed(handle: RunHandle) -> ListedRun | None:
    """Read a run; `None` if it is running."""
    try:
        status = handle.status()
        if not status.status.is_final and status.status is not Status.UNKNOWN:
            return None
        return ListedRun(describe(handle), status.reason or "", status.hint or "")
    except OSError as error:  # being deleted, or a disk that fails: the row says what there is to say
        row = RunRow(
            run_id=handle.run_id,
            path=str(handle.path),
            preset=handle.path.parent.name,
            status=Status.UNKNOWN,
            created_wall_ns=created_wall_ns(handle.run_id),
        )
        return ListedRun(row, f"cannot be read: {error.strerror}")


def _folders(out: Path) -> tuple[dict[str, int], str]:
    """Return when each folder of runs last gained or lost one, and what of them this user may not read."""
    found: dict[str, int] = {}
    closed = 0
    try:
        with os.scandir(out) as entries:
            for entry in entries:
                if entry.is_dir():
                    found[entry.name] = entry.stat().st_mtime_ns
                    closed += not os.access(entry.path, os.R_OK | os.X_OK)
    except (FileNotFoundError, NotADirectoryError):  # no such folder yet, or it went while we looked
        return found, ""
    except OSError as error:
        return found, f"{out} cannot be read: {error.strerror}"
    return found, f"{format_number_of(closed, 'folder')} in {out} cannot be read" if closed else ""


def _stamps(path: str) -> tuple[Stamp | None, ...]:
    return tuple(_stamp(f"{path}/{name}") for name in (STATUS, SUMMARY, MANIFEST))


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of them in a look
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
