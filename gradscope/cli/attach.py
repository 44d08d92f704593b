"""`gradscope attach RUN`: follow a run that was started elsewhere, from its beginning."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import RUN_HELP, LookIn
from gradscope.cli.display import Display
from gradscope.cli.follow import DetachPolicy, Leave, exit_code_of, follow, report, summary_text
from gradscope.launch.wakeup import catching_signals
from gradscope.rundir.handle import is_running
from gradscope.rundir.registry import find_run, last_to_follow


def command(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help=f"{RUN_HELP}: the newest that is running, else the newest.")
    ] = "last",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one line of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes; errors still show.")] = False,
    out: LookIn = Path("traces"),
) -> None:
    """Follow a running run; Ctrl-C detaches. Of a run that is over, print the summary."""
    handle = find_run(run, out, last_to_follow)
    display = Display(quiet=quiet)
    record = handle.status()
    if is_running(record):
        display.note(f"run {handle.run_id} in {handle.path}; Ctrl-C detaches")
        with catching_signals(keep_ignored=True) as wakeup:
            try:
                record = follow(handle, display, wakeup, DetachPolicy(handle, display))
            except Leave as leave:
                raise typer.Exit(leave.exit_code) from None
    report(handle, record, display)
    text = summary_text(handle.path, as_json=as_json)
    if text is not None:
        typer.echo(text)
    raise typer.Exit(exit_code_of(record))
