"""`gradscope capture RUN --steps N`: profile the next updates of a running run."""

import time
from pathlib import Path
from typing import Annotated

import typer

from gradscope.core.events import ProfileEnded, ProfileStarted
from gradscope.core.status import Status
from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.control import CaptureRequested, request
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.registry import find_run

POLL_SECONDS = 0.1


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, an id, a unique prefix of one, or `last`.")],
    steps: Annotated[int, typer.Option("--steps", min=1, help="How many updates to profile.")] = 2,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the trace and print its path.")] = True,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The output root to look in.")] = Path("traces"),
) -> None:
    """Arm the profiler of a running run, now, for a number of updates."""
    handle = find_run(run, out)
    record = handle.status()
    if record.status.is_final or record.status is Status.UNKNOWN:
        raise GradscopeError(
            f"{handle.run_id} is not running: {record.status}", "`gradscope runs` lists running runs first"
        )
    before = max((event.window for event in handle.events() if isinstance(event, ProfileStarted)), default=0)
    request(handle.path, CaptureRequested(steps=steps))
    if not wait:
        typer.echo(visible(f"asked {handle.run_id} for a trace of its next {steps} updates"), err=True)
        return
    waiting = f"waiting for {handle.run_id} to profile {steps} updates; Ctrl-C leaves, the request stands"
    typer.echo(visible(waiting), err=True)
    typer.echo(visible(str(wait_for_trace(handle, before))))


def wait_for_trace(handle: RunHandle, before: int) -> Path:
    """Return the trace of the first requested window after window number `before`.

    Raises:
        GradscopeError: The run ended first, or the trace could not be written.
    """
    tail = handle.event_tail()
    window: int | None = None
    while True:
        over = handle.status().status.is_final
        for event in tail.read():
            if isinstance(event, ProfileStarted) and event.requested and event.window > before and window is None:
                window = event.window
            if isinstance(event, ProfileEnded) and event.window == window:
                if event.file is None:
                    raise GradscopeError(
                        f"no trace could be written: {event.error or 'no reason is known'}",
                        exit_code=ExitCode.FAILED,
                    )
                return handle.path / event.file
        if over:
            raise GradscopeError(
                f"{handle.run_id} was over before it came to that",
                "only measured steps can be captured; give the run a larger budget",
                exit_code=ExitCode.FAILED,
            )
        time.sleep(POLL_SECONDS)
