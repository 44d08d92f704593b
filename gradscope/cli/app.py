"""The `gradscope` command: finds a command's module when it is named, and turns errors into exit codes."""

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from gradscope import __version__
from gradscope.errors import GradscopeError

COMMANDS: tuple[str, ...] = (
    "run",
    "presets",
    "runs",
    "show",
    "attach",
    "stop",
    "capture",
    "tensorboard",
    "doctor",
)
"""In the order of `gradscope --help`. Each is a module of this package with a function `command`."""


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
    no_args_is_help=True,
    help="Where a PyTorch training step's memory and time go, and what each optimizer and memory strategy costs.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gradscope {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Hold the options that come before a command."""


def main() -> None:
    """Run the command line; the one place where a `GradscopeError` becomes text and an exit code."""
    try:
        app(prog_name="gradscope")
    except GradscopeError as error:
        typer.echo(f"gradscope: {error.message}", err=True)
        if error.hint:
            typer.echo(f"  {error.hint}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
