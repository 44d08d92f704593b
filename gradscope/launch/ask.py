"""Asking a running run for a trace or for a memory snapshot: what both front ends do, and what they refuse."""

from gradscope.core.status import StatusRecord
from gradscope.errors import GradscopeError
from gradscope.rundir.control import CaptureRequested, SnapshotRequested, request
from gradscope.rundir.handle import RunHandle, is_running


def ask_for_trace(handle: RunHandle, steps: int) -> str:
    """Ask for a trace of the next `steps` updates; return what was asked for, in words.

    Raises:
        GradscopeError: The run is not running, or the request cannot be written.
    """
    ensure_running(handle)
    request(handle.path, CaptureRequested(steps=steps))
    return f"for a trace of its next {steps} updates"


def ask_for_snapshot(handle: RunHandle) -> str:
    """Ask for a CUDA memory snapshot; return what was asked for, in words.

    Raises:
        GradscopeError: The run is not running, or the request cannot be written.
    """
    ensure_running(handle)
    request(handle.path, SnapshotRequested())
    return "for a memory snapshot"


def ensure_running(handle: RunHandle) -> StatusRecord:
    """Return the status of a run that goes on.

    Raises:
        GradscopeError: It does not.
    """
    record = handle.status()
    if not is_running(record):
        raise GradscopeError(
            f"{handle.run_id} is not running: {record.status}", "`gradscope runs` lists running runs first"
        )
    return record
