"""`gradscope capture RUN`: profile the next updates of a running run, or write down what its card's memory holds."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import RUN_HELP, LookIn
from gradscope.core.events import AnyEvent, ProfileEnded, ProfileStarted, SnapshotWritten
from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.ask import ask_for_snapshot, ask_for_trace
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.registry import find_run, last_running
from gradscope.rundir.tail import JsonlTail

POLL_SECONDS = 0.1

Answer = Callable[[AnyEvent], str | None]
"""Returns the file that an event says was written for us; raises `GradscopeError` where it says that none could be."""


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=f"{RUN_HELP}: the newest that is running.")],
    steps: Annotated[int, typer.Option("--steps", min=1, help="How many updates to profile.")] = 2,
    snapshot: Annotated[bool, typer.Option("--snapshot", help="Write a CUDA memory snapshot instead.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the file and print its path.")] = True,
    out: LookIn = Path("traces"),
) -> None:
    """Profile the next updates of a running run, or with --snapshot, write down what its card's memory holds."""
    handle = find_run(run, out, lambda root: last_running(root, "capture"))
    tail = handle.event_tail()
    before = tail.read()
    if snapshot:
        answer: Answer = snapshot_file
        wish = ask_for_snapshot(handle)
    else:
        answer = trace_file(max((event.window for event in before if isinstance(event, ProfileStarted)), default=0))
        wish = ask_for_trace(handle, steps)
    typer.echo(visible(f"asked {handle.run_id} {wish}{'; Ctrl-C leaves, the request stands' * wait}"), err=True)
    if wait:
        typer.echo(visible(str(handle.path / wait_for_file(handle, tail, answer))))


def snapshot_file(event: AnyEvent) -> str | None:
    """Answer with the first snapshot."""
    if not isinstance(event, SnapshotWritten):
        return None
    if event.file is None:
        raise GradscopeError(f"no snapshot was written: {event.error or _NO_REASON}", exit_code=ExitCode.FAILED)
    return event.file


def trace_file(before: int) -> Answer:
    """Answer with the trace of the first requested window after window number `before`."""
    window: int | None = None

    def answer(event: AnyEvent) -> str | None:
        nonlocal window
        if isinstance(event, ProfileStarted) and event.requested and event.window > before and window is None:
            window = event.window
        if not isinstance(event, ProfileEnded) or event.window != window:
            return None
        if event.file is None:
            raise GradscopeError(f"no trace could be written: {event.error or _NO_REASON}", exit_code=ExitCode.FAILED)
        return event.file

    return answer


def wait_for_file(handle: RunHandle, tail: JsonlTail[AnyEvent], answer: Answer) -> str:
    """Return the first answer that the events to come give.

    Raises:
        GradscopeError: The run ended first, or the file could not be written.
    """
    while True:
        over = handle.status().status.is_final
        for event in tail.read():
            if (file := answer(event)) is not None:
                return file
        if over:
            raise GradscopeError(
                f"{handle.run_id} was over before it came to that",
                "only measured steps can be captured; give the run a larger budget",
                exit_code=ExitCode.FAILED,
            )
        time.sleep(POLL_SECONDS)


_NO_REASON = "no reason is known"
