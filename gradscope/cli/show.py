"""`gradscope show RUN`: one run's numbers, whether it is going on, over, killed, or copied from another machine."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import RUN_HELP, LookIn


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=f"{RUN_HELP}: the newest.")] = "last",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    out: LookIn = Path("traces"),
) -> None:
    """Show the numbers of one run."""
    import msgspec

    from gradscope.analysis.summary import load_summary
    from gradscope.export.summary_text import render
    from gradscope.rundir.registry import find_run

    handle = find_run(run, out)
    summary = load_summary(handle.path)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    else:
        typer.echo(render(summary, run_dir=handle.path))
