"""A sweep's cells as its folder shows them: the newest run of each, and locks against running one twice.

The state of a sweep is nothing but its run directories. `OUT/<preset>/.cells/<cell>.lock` is held (flock) while a
process runs that cell, so that it is free again when that process dies; it holds the id of the cell's newest run, which
saves whoever takes the lock from reading the whole folder again. `OUT/<preset>/.cells/<cell>.skipped` says why a cell
was not run, until it is judged anew.
"""

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from gradscope.core.status import Status, StatusRecord
from gradscope.rundir.files import write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import RUN_ID, safe_name
from gradscope.rundir.manifest import Manifest, read_manifest

CELLS_FOLDER = ".cells"

SKIPPED = "skipped"
"""The word for a cell that was not run since it is foretold not to fit."""

TIMEOUT = "timeout"
"""The word for a cell that was stopped at its time limit."""

RESULTS = frozenset({Status.DONE.value, Status.OOM.value, Status.FAILED.value, TIMEOUT})
"""What a cell can come to by itself. Anything else came from outside, and a sweep that is resumed runs it again."""


def sweep_folder(out: Path, preset_name: str) -> Path:
    """Return where a sweep's runs lie."""
    return out / safe_name(preset_name)


def cell_runs(out: Path, preset_name: str) -> dict[str, RunHandle]:
    """Return the newest run of each cell, by the cells' names."""
    newest: dict[str, tuple[int, str, RunHandle]] = {}
    for path in sweep_folder(out, preset_name).glob("*"):
        manifest = read_manifest(path) if RUN_ID.match(path.name) else None
        if manifest is None or manifest.cell is None:
            continue
        candidate = (*_age(manifest), RunHandle(path))
        if manifest.cell not in newest or newest[manifest.cell][:2] < candidate[:2]:
            newest[manifest.cell] = candidate
    return {cell: handle for cell, (_, _, handle) in newest.items()}


def unreadable_runs(folder: Path) -> list[str]:
    """Return the names of run folders that do not say what was run: their manifest is missing or damaged."""
    return sorted(path.name for path in folder.glob("*") if RUN_ID.match(path.name) and read_manifest(path) is None)


def _age(manifest: Manifest) -> tuple[int, str]:
    return manifest.created_wall_ns, manifest.run_id


def cell_status(record: StatusRecord) -> str:
    """Return a cell's status as tables show it: the run's, and `timeout` where that was stopped at its time limit."""
    return TIMEOUT if record.timed_out else record.status.value


class CellLock:
    """The right to run a cell. Held until it is released, or until every process that has its descriptor is gone."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self.descriptor = descriptor
        """For a supervisor, which holds the lock too: nobody else may start before it is gone."""

    def newest(self) -> RunHandle | None:
        """Return the cell's newest run, if it is still there."""
        run_id = os.pread(self.descriptor, 100, 0).decode(errors="replace").strip()
        path = self._path.parent.parent / run_id
        return RunHandle(path) if RUN_ID.match(run_id) and path.is_dir() else None

    def point_to(self, run_id: str) -> None:
        """Name the cell's newest run.

        Raises:
            OSError: The disk is full.
        """
        content = run_id.encode() + b"\n"
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))

    def release(self) -> None:
        """Let go."""
        os.close(self.descriptor)


def lock_cell(out: Path, preset_name: str, cell: str) -> CellLock | None:
    """Take a cell's lock; `None` if somebody else holds it.

    Raises:
        OSError: The folder cannot be written, or its file system knows no locks.
    """
    folder = sweep_folder(out, preset_name) / CELLS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{cell}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return CellLock(path, descriptor)


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Why a cell was not run, in bytes: its update is foretold to take more than there is."""

    foretold_peak_bytes: int
    room_bytes: int
    """What a peak may take."""
    reason: str
    """Both, in words."""


def read_skips(out: Path, preset_name: str) -> dict[str, Skip]:
    """Return the cells of a sweep that were skipped when they were last judged, by name.

    Raises:
        OSError: The folder cannot be read.
    """
    found = {}
    for path in (sweep_folder(out, preset_name) / CELLS_FOLDER).glob(f"*.{SKIPPED}"):
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):  # just judged anew; not written by us
            found[path.stem] = msgspec.json.decode(path.read_bytes(), type=Skip)
    return found


def write_skip(out: Path, preset_name: str, cell: str, skip: Skip | None) -> None:
    """Keep why a cell was skipped, or that it was not.

    Raises:
        OSError: The folder cannot be written.
    """
    path = sweep_folder(out, preset_name) / CELLS_FOLDER / f"{cell}.{SKIPPED}"
    if skip is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, skip)
