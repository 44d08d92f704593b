"""`gradscope doctor`: what works on this machine, and the remedy for what does not."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import Out


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a check, one a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the checks still show.")] = False,
    out: Out = Path("traces"),
) -> None:
    """Check what runs need. Exit code 6 if not even a run on the CPU would work; a missing GPU is no failure."""
    import msgspec

    from gradscope.cli.display import columns_of
    from gradscope.core.table import format_table
    from gradscope.errors import ExitCode
    from gradscope.launch.checks import run_checks

    def say(text: str) -> None:
        if not quiet:
            typer.echo(f"{text} ...", err=True)

    checks = run_checks(out, os.environ, say)
    if as_json:
        for check in checks:
            typer.echo(msgspec.json.encode(check).decode())
    else:
        rows = [[check.name, "ok" if check.ok else "NO" if check.needed else "no", check.detail] for check in checks]
        width = columns_of(sys.stdout)
        typer.echo(format_table(["check", "", "found"], rows, width=width))
        remedies = [[check.name, check.remedy] for check in checks if check.remedy]
        if remedies:
            typer.echo("\n" + format_table(["check", "remedy"], remedies, width=width))
    if any(check.needed and not check.ok for check in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)
