"""`gradscope export RUN --to FORMAT`: a run, or a trace, in a form that other programs and people take."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import RUN_HELP, folder
from gradscope.cli.display import Display
from gradscope.core.paths import home_expanded
from gradscope.errors import GradscopeError
from gradscope.export.formats import FOLDER, FORMATS, Format, state_note

STDOUT = "-"
TEXTS = ", ".join(name for name, one in FORMATS.items() if one.text is not None)
FORMATS_HELP = "; ".join(f"{name}: {one.summary}" for name, one in FORMATS.items())


def command(
    target: Annotated[
        str, typer.Argument(metavar="RUN|TRACE", help=f"{RUN_HELP}; for chrome, any trace file.")
    ] = "last",
    *,
    to: Annotated[str, typer.Option("--to", metavar="|".join(FORMATS), help=f"{FORMATS_HELP}.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="A file, or a folder (a name without an ending is one); - is stdout, "
            f"for {TEXTS}. If not given, the folder {FOLDER} in the run's own.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", parser=folder, help="The output root that runs lie in.")
    ] = Path("traces"),
) -> None:
    """Write a run as tables, a log folder, a trace, or a text; prints the files it wrote."""
    from gradscope.core.text import visible

    display = Display(quiet=quiet)
    form = FORMATS.get(to)
    if form is None:
        raise GradscopeError(f"there is no format {to!r}", f"--to is one of {', '.join(FORMATS)}")
    if out == "":
        raise GradscopeError("the name of a file is empty", "--out names a file or a folder")
    source = _source(target, form, root)
    if out == STDOUT:
        _print(form, source, display)
        return
    if out is None and source.is_file():
        raise GradscopeError(f"{source} is no run, so it has no folder to export to", "name a file with --out")
    where = source / FOLDER if out is None else home_expanded(out)
    for path in form.write(source, where, force=force, note=display.note):
        typer.echo(visible(str(path)))
    if form.name == "tensorboard":
        display.note(f"`gradscope tensorboard {where}` shows it")


def _source(text: str, form: Format, root: Path) -> Path:
    """Return the run or the trace that a user means."""
    from gradscope.rundir.registry import find_run

    path = home_expanded(text)
    if path.is_dir() or not path.exists():
        return find_run(str(path) if path.is_dir() else text, root).path
    if not path.is_file():
        raise GradscopeError(f"{path} is neither a file nor a folder", "name a run or a trace")
    if not form.takes_traces:
        which = " and ".join(name for name, one in FORMATS.items() if one.takes_traces)
        raise GradscopeError(
            f"{path} is a file, and {form.name} is of runs: traces go to {which}",
            "`gradscope trace FILE --to csv` writes a trace's tables",
        )
    return path


def _print(form: Format, source: Path, display: Display) -> None:
    """Write a text to stdout; a terminal gets no bytes that it would obey."""
    from gradscope.core.text import visible

    if form.text is None:
        raise GradscopeError(f"{form.name} is no text for stdout", f"name a file with --out; {TEXTS} go there")
    if (going_on := state_note(source)) is not None:
        display.note(going_on)
    content = form.text(source)
    if sys.stdout.isatty():
        typer.echo(visible(content.decode(), keep="\n"), nl=False)
    else:
        typer.echo(content, nl=False)
