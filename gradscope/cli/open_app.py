"""`gradscope` alone: the app where there is a terminal, the help where there is none."""

import gc
import os
import sys
from pathlib import Path

import typer

from gradscope.errors import ExitCode, GradscopeError
from gradscope.tui.terminal import takes_utf8, why_no_app

APP_OPTIONS = {"out": "--out", "refresh": "--refresh", "ascii_only": "--ascii"}
"""Options before a command, by the name of their parameter: they are the app's alone."""


def refuse_before(command: str, context: typer.Context) -> None:
    """Refuse the app's options before a command, where they would have no effect.

    Raises:
        GradscopeError: There is one.
    """
    for option in _given(context):
        where = f"; write it after {command}" if option == "--out" else ""
        raise GradscopeError(f"{option} before a command is an option of the app", f"{command} does not open it{where}")


def open_app(context: typer.Context, out: Path, refresh_seconds: float, *, ascii_only: bool) -> None:
    """Run the app until it is left; leaves with its exit code.

    Raises:
        GradscopeError: There is no terminal to run it in, although it was clearly meant.
    """
    reason = why_no_app({"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}, os.environ)
    if reason is not None:
        if _given(context):
            raise GradscopeError(
                f"the app cannot open: {reason}", "commands work: --help", exit_code=ExitCode.ENVIRONMENT
            )
        typer.echo(context.get_help(), err=True)
        typer.echo(f"\nThe app cannot open here: {reason}.", err=True)
        raise typer.Exit(ExitCode.USAGE)
    gc.disable()  # nothing that imports make is garbage: looking for it costs a tenth of the start
    from gradscope.tui.start import run_app  # textual, which no other command needs

    gc.freeze()
    gc.enable()
    utf8 = takes_utf8(os.environ) and not ascii_only
    raise typer.Exit(run_app(out, refresh_seconds=refresh_seconds, utf8=utf8))


def _given(context: typer.Context) -> list[str]:
    """Return the app's options that were written."""
    sources = {name: context.get_parameter_source(name) for name in APP_OPTIONS}
    return [
        APP_OPTIONS[name] for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"
    ]
