"""`control.jsonl`: what front ends ask of a running run, and how its processes hear of it."""

from pathlib import Path

import msgspec

from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.layout import CONTROL
from gradscope.rundir.tail import JsonlTail


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all requests."""


class StopRequested(Request, frozen=True, tag="stop"):
    """End the run now, and write what it has."""

    signal: int | None = None
    """The signal that made the front end ask; the run then ends with exit code 128 + `signal`."""
    kill: bool = False
    """Do not wait for the end of a step: what the worker has not written by now is lost."""


class CaptureRequested(Request, frozen=True, tag="capture"):
    """Profile the next `steps` updates."""

    steps: int


class SnapshotRequested(Request, frozen=True, tag="snapshot"):
    """Write a CUDA memory snapshot."""


AnyRequest = StopRequested | CaptureRequested | SnapshotRequested


def request(run_dir: Path, wanted: AnyRequest) -> None:
    """Ask a run for something; its processes look every few milliseconds, or once a step.

    Raises:
        GradscopeError: The request cannot be written.
    """
    if not run_dir.is_dir():
        raise GradscopeError(f"no run directory at {run_dir}", "`gradscope runs` lists the runs there are")
    try:
        writer = JsonlWriter(run_dir / CONTROL)
        try:
            writer.append(wanted)
        finally:
            writer.close()
    except OSError as error:
        raise GradscopeError(
            f"cannot write to {run_dir / CONTROL}: {error.strerror}",
            "free some space, or check who owns the run directory",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error


class ControlReader:
    """Yields each request once. Cheap enough to be asked before every step: one `stat` where nothing is new."""

    def __init__(self, run_dir: Path) -> None:
        self._tail: JsonlTail[AnyRequest] = JsonlTail(run_dir / CONTROL, AnyRequest)

    def poll(self) -> list[AnyRequest]:
        """Return the requests that came since the last call, oldest first."""
        return self._tail.read()
