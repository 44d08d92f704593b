"""Ending a run from outside: by asking, and where that leads to nothing, by force."""

import contextlib
import os
import signal as signals
import time

from gradscope.core.status import Status, StatusRecord
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.grace import STOP_SECONDS
from gradscope.launch.processes import kill_group
from gradscope.rundir.control import StopRequested, request
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import is_alive

POLL_SECONDS = 0.05
MARGIN_SECONDS = 10.0
"""How much later than promised a run may end before we say that it does not."""


def ask_to_stop(handle: RunHandle, *, signal: int | None = None, kill: bool = False) -> None:
    """Ask a run to end, through `control.jsonl`, or where that cannot be written (a full disk), by a signal.

    Args:
        handle: The run.
        signal: The signal that made the user's program ask; it becomes the run's exit code.
        kill: Without waiting for the end of a step.

    Raises:
        GradscopeError: Neither way is open.
    """
    try:
        request(handle.path, StopRequested(signal=signal, kill=kill))
    except GradscopeError:
        record = handle.status()
        if record.status.is_final:
            return
        if record.status is Status.UNKNOWN or record.supervisor is None:
            raise
        if kill and record.worker is not None and is_alive(record.worker):
            kill_group(record.worker.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.supervisor.pid, signal or signals.SIGTERM)


def stop_and_wait(handle: RunHandle, *, kill: bool = False) -> StatusRecord:
    """End a run and return its final status.

    Raises:
        GradscopeError: It runs on another machine, or does not end.
    """
    record = handle.status()
    if record.status is Status.UNKNOWN:
        raise GradscopeError(f"{handle.run_id} cannot be stopped from here: {record.reason}", record.hint or "")
    if record.status.is_final:
        return record
    ask_to_stop(handle, kill=kill)
    record = wait_for_end(handle, STOP_SECONDS + MARGIN_SECONDS)
    if not record.status.is_final and kill:
        end_by_force(record)
        record = wait_for_end(handle, MARGIN_SECONDS)
    if not record.status.is_final:
        raise GradscopeError(
            f"{handle.run_id} is still {record.status}", "`gradscope stop --kill` ends it", exit_code=ExitCode.FAILED
        )
    return record


def wait_for_end(handle: RunHandle, seconds: float) -> StatusRecord:
    """Return the status once it is final, or as it is after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        record = handle.status()
        if record.status.is_final or time.monotonic() > deadline:
            return record
        time.sleep(POLL_SECONDS)


def end_by_force(record: StatusRecord) -> None:
    """SIGKILL a supervisor that does not answer, and its worker."""
    for process in (record.supervisor, record.worker):
        if process is not None and is_alive(process):
            kill_group(process.pid)
