"""`gradscope stop RUN`: end a run, and wait until it is over and written."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.core.text import visible
from gradscope.launch.stop import stop_and_wait
from gradscope.rundir.registry import find_run


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, an id, a unique prefix of one, or `last`.")],
    kill: Annotated[bool, typer.Option("--kill", help="Do not wait for the end of a step.")] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The output root to look in.")] = Path("traces"),
) -> None:
    """Stop a run gracefully: its trace, samples and summary are written, within 10 s."""
    handle = find_run(run, out)
    if handle.status().status.is_final:
        typer.echo(visible(f"{handle.run_id} was over already"), err=True)
    record = stop_and_wait(handle, kill=kill)
    reason = f": {record.reason}" if record.reason else ""
    typer.echo(visible(f"{handle.run_id} {record.status}{reason}"))
