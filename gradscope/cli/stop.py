"""`gradscope stop RUN`: end a run, and wait until it is over and written."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import RUN_HELP, LookIn
from gradscope.core.text import visible
from gradscope.launch.stop import stop_and_wait
from gradscope.rundir.registry import LAST, find_run, last_running


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=f"{RUN_HELP}: the newest that is running.")],
    kill: Annotated[bool, typer.Option("--kill", help="Do not wait for the end of a step.")] = False,
    out: LookIn = Path("traces"),
) -> None:
    """Stop a run gracefully: its trace, samples and summary are written, within 10 s."""
    handle = find_run(run, out, lambda root: last_running(root, "stop"))
    if handle.status().status.is_final:
        over = f"{handle.run_id} was over already"
        typer.echo(visible(f"no run below {out} is running; {over}" if run == LAST else over), err=True)
    record = stop_and_wait(handle, kill=kill)
    reason = f": {record.reason}" if record.reason else ""
    typer.echo(visible(f"{handle.run_id} {record.status}{reason}"))
