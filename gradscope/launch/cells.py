"""One cell of a sweep as a running process: started from the warm process, followed by its socket, seen to its end."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gradscope.config.convert import preset_to_dict
from gradscope.config.grid import GridCell
from gradscope.core.status import Status, StatusRecord
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.statusfile import StatusFile
from gradscope.launch.stop import end_by_force
from gradscope.launch.warm import LARGEST_MESSAGE, WORKER_ENDED, CellRequest, WarmLost, WarmProcess
from gradscope.rundir.cells import CellLock
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import is_alive, process_id
from gradscope.rundir.layout import create_run_directory, writing_remedy
from gradscope.rundir.manifest import Manifest, write_manifest

GONE_SECONDS = 5.0
"""How long the worker of a supervisor that was killed may take to be gone; by itself it takes 2."""


@dataclass(slots=True, kw_only=True)
class RunningCell:
    """A cell with its processes."""

    cell: GridCell
    handle: RunHandle
    lock: CellLock
    slot: int
    socket: socket.socket
    started_at: float = field(default_factory=time.monotonic)
    writing_up: bool = False
    """Whether its worker is gone: its slot is free for the next one."""

    def listen(self) -> bool:
        """Take in what the supervisor said; return whether it is gone."""
        try:
            said = self.socket.recv(LARGEST_MESSAGE)
        except BlockingIOError:
            return False
        except OSError:
            said = b""
        self.writing_up = self.writing_up or said == WORKER_ENDED
        return not said

    def end(self) -> StatusRecord:
        """Return what the cell came to, with nothing of it left; its supervisor is gone."""
        self.socket.close()
        record = self.handle.status()
        if record.status is Status.KILLED and record.worker is not None and is_alive(record.worker):
            end_by_force(record)
            deadline = time.monotonic() + GONE_SECONDS
            while is_alive(record.worker) and time.monotonic() < deadline:
                time.sleep(0.01)
        self.lock.release()
        return record


def start_cell(
    warm: WarmProcess,
    cell: GridCell,
    lock: CellLock,
    *,
    out: Path,
    facts: Manifest,
    slot: int,
    env: Mapping[str, str],
    time_limit_seconds: float | None,
) -> RunningCell:
    """Start a cell and return it once its worker runs.

    Args:
        warm: What to fork it from; it is ready.
        cell: Which one.
        lock: Its lock; released here if it does not start.
        out: Output root.
        facts: What a manifest says of this machine and command; the rest of it is filled in.
        slot: Whose turn it is, for the caller.
        env: Environment variables of this cell alone.
        time_limit_seconds: Its limit, if any, beside its own `run.time_limit_seconds`.

    Raises:
        GradscopeError: It did not start; its directory, if there is one, says so too.
        WarmLost: The warm process was killed meanwhile; the cell may be tried again.
    """
    try:
        handle = _prepare(cell, lock, out, facts, env)
        request = CellRequest(run_dir=str(handle.path), env=dict(env), time_limit_seconds=time_limit_seconds)
        try:
            link = warm.start(request, lock.descriptor)
        except WarmLost:
            _never_started(handle)
            raise
    except (GradscopeError, WarmLost):
        lock.release()
        raise
    return RunningCell(cell=cell, handle=handle, lock=lock, slot=slot, socket=link)


def _prepare(cell: GridCell, lock: CellLock, out: Path, facts: Manifest, env: Mapping[str, str]) -> RunHandle:
    """Make the cell's run directory with its manifest; until a supervisor takes over, this process stands for it."""
    run_dir = create_run_directory(out, cell.preset.name)
    manifest = msgspec.structs.replace(
        facts,
        run_id=run_dir.name,
        preset=preset_to_dict(cell.preset),
        created_wall_ns=time.time_ns(),
        env=facts.env | dict(env),
        cell=cell.hash,
        settings=list(cell.settings),
    )
    try:
        write_manifest(run_dir, manifest)
        lock.point_to(run_dir.name)
    except OSError as error:
        raise GradscopeError(
            f"cannot write to {run_dir}: {error.strerror}",
            writing_remedy(error),
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    StatusFile(run_dir, process_id()).write(Status.STARTING)
    return RunHandle(run_dir)


def _never_started(handle: RunHandle) -> None:
    """Write the end of a run that no supervisor took over."""
    record = handle.recorded_status()
    if record is not None and record.supervisor is not None and record.supervisor.pid == os.getpid():
        reason = "the sweep's warm process was ended from outside before the run began"
        StatusFile(handle.path, record.supervisor).write(Status.KILLED, reason=reason, exit_code=int(ExitCode.FAILED))
