"""The `gradscope` command: finds a command's module when it is named, and turns errors into exit codes."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from gradscope import __version__
from gradscope.cli.arguments import folder
from gradscope.cli.open_app import open_app, refuse_before
from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError

COMMANDS: tuple[str, ...] = (
    "run",
    "sweep",
    "presets",
    "runs",
    "show",
    "compare",
    "report",
    "trace",
    "export",
    "attach",
    "stop",
    "capture",
    "prune",
    "tensorboard",
    "doctor",
)
"""In the order of `gradscope --help`. Each is a module of this package with a function `command`."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class CommandGroup(TyperGroup):
    """Imports a command's module when it is asked for, so that one command does not pay for the others."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build one command; `None` for a name that does not exist."""
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
        single.command(cmd_name)(import_module(f"gradscope.cli.{cmd_name}").command)
        return typer.main.get_command(single)


app = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help=(
        "Where a PyTorch training step's memory and time go, and what each optimizer and memory strategy costs. "
        "Without a command, in a terminal, the app opens."
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gradscope {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    out: Annotated[Path, typer.Option("--out", metavar="DIR", parser=folder, help="The app's output root.")] = Path(
        "traces"
    ),
    refresh: float = typer.Option(
        0.5, "--refresh", min=0.1, max=60, help="Seconds between looks of the app at a run; more for a slow link."
    ),
    ascii_only: bool = typer.Option(False, "--ascii", help="Draw the app with ASCII characters only."),
) -> None:
    """Hold the options that come before a command."""
    if context.invoked_subcommand is None:
        open_app(context, out, refresh, ascii_only=ascii_only)
    else:
        refuse_before(context.invoked_subcommand, context)


def main() -> None:
    """Run the command line; the one place where a `GradscopeError` becomes text and an exit code."""
    _open_missing_streams()
    try:
        app(prog_name="gradscope")
    except GradscopeError as error:
        sys.exit(_complain(error.message, error.hint, error.exit_code))
    except KeyboardInterrupt:  # before or after the command itself, which has its own way to stop
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # nobody reads on, and stderr may lead into the same pipe
        _drop_unwritable(sys.stdout)
        _drop_unwritable(sys.stderr)
        sys.exit(1)
    except OSError as error:  # the machine's doing, not ours: a folder that may not be read, a full disk behind stdout
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        code = _complain(f"{where}{error.strerror or error}", "", ExitCode.ENVIRONMENT)
        _drop_unwritable(sys.stdout)
        sys.exit(code)


def _open_missing_streams() -> None:
    """Give a stream that the shell closed (`>&-`) somewhere to go: Python has `None` for it, and files its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # as long as the process


def _complain(message: str, hint: str, exit_code: ExitCode) -> ExitCode:
    """Say what is wrong; names and texts in it may come from anywhere."""
    typer.echo(f"gradscope: {visible(message)}", err=True)
    if hint:
        typer.echo(f"  {visible(hint)}", err=True)
    return exit_code


def _drop_unwritable(stream: TextIO) -> None:
    """Let go of what a stream does not take: Python would try once more at its exit, and complain at length."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
