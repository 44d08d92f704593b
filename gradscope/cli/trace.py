"""`gradscope trace FILE|RUN|FOLDER`: steps, operators, kernels, idle, memory and findings of any PyTorch trace."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradscope.cli.arguments import RUN_HELP, folder
from gradscope.errors import GradscopeError

if TYPE_CHECKING:
    import polars as pl

    from gradscope.trace.answers import Answers
    from gradscope.trace.target import Loaded, Target

GROUPINGS = {"name": "name", "shape": "name+shape", "stack": "stack"}
VIEW_HELP = (
    "Only this section: overview, phases, operators, kernels, modules, steps, idle, communication, ranks, windows, "
    "memory, findings. May be repeated."
)
ROWS = 8
MOST_ROWS = 1_000_000
"""Of a section, whatever is asked for."""
SQL_ROWS = 40
"""Rows of an answer to a query that are printed as a table, if --top does not say."""
IGNORED = {
    "--cut-steps": (
        ("--to", "--top", "--json", "--view", "--by", "--step", "--rank"),
        "it writes steps A to B of one file as a trace, nothing else",
    ),
    "--compare": (
        ("--to", "--view", "--by", "--step"),
        "it compares whole traces, operators by name; --json prints that for other programs",
    ),
    "--sql": (("--view",), "the query names its tables"),
    "--to": (("--top",), "it writes the whole table; --sql with limit asks for less"),
    "--json": (("--top",), "it prints all rows"),
}
"""Option to those that would have no meaning beside it, and why."""


def command(
    target: Annotated[
        str, typer.Argument(metavar="FILE|RUN|FOLDER", help=f"A trace, a folder with one a rank, or a run. {RUN_HELP}.")
    ] = "last",
    *,
    view: Annotated[list[str] | None, typer.Option("--view", metavar="NAME", help=VIEW_HELP)] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, max=MOST_ROWS, metavar="N", help=f"Rows of each section; {ROWS} if not given."),
    ] = None,
    step: Annotated[int | None, typer.Option("--step", metavar="K", help="Only this step.")] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="name|shape|stack", help="What a row of operators is; name if not given."),
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", metavar="R", help="Of a folder: the rank to show.")] = None,
    window: Annotated[
        int | None, typer.Option("--window", min=1, metavar="N", help="Of a run: the profiled window to show.")
    ] = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="OTHER", help="Tell what this trace does otherwise than OTHER.")
    ] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="QUERY", help="Ask in SQL; tables are events, operators, steps, ...")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="csv|parquet|json", help="Write the table that --view or --sql names.")
    ] = None,
    cut_steps: Annotated[
        str | None,
        typer.Option("--cut-steps", metavar="A:B", help="Write steps A to B as a trace of its own, to --out."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where --to and --cut-steps write.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file that --out names; load what is too large.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress on stderr.")] = False,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", parser=folder, help="The output root that runs lie in.")
    ] = Path("traces"),
) -> None:
    """Tell where time and memory went, from the trace that torch.profiler wrote."""
    from gradscope.cli.display import Display, is_terminal
    from gradscope.cli.trace_target import announce, resolve
    from gradscope.trace.room import require_to_start
    from gradscope.trace.target import load

    views = [name.strip() for text in view or [] for name in text.split(",") if name.strip()] or None
    require_to_start()
    given = {"--view": views, "--top": top, "--step": step, "--by": by, "--rank": rank, "--compare": compare}
    given |= {"--sql": sql, "--to": to, "--cut-steps": cut_steps, "--json": as_json or None}
    _check_ignored({option for option, value in given.items() if value is not None})
    by = by or "name"
    _check(views, by=by, sql=sql, to=to, cut_steps=cut_steps, out=out, compare=compare, as_json=as_json)
    if by != "name" and views and "operators" not in views:
        raise GradscopeError(f"--by {by} is of operators, which --view leaves out", "add --view operators")
    rows = top or ROWS
    display = Display(quiet=quiet)
    progress = display.progress if is_terminal(sys.stderr) else _silent
    found = resolve(target, root)
    if cut_steps is not None and out is not None:
        _cut(found, cut_steps, out, window, force=force, display_note=display.note, progress=progress)
        display.clear()
        return
    other = None if compare is None else resolve(compare, root)
    announce([*found.paths, *(other.paths if other else [])], display.note, force=force)
    stacks = by == "stack" or "stack" in (sql or "") or (to is not None and views == ["events"])
    loaded = load(found, rank=rank, window=window, with_stacks=stacks, progress=progress)
    display.clear()
    answers = _answers(loaded, by, step)
    if other is not None:
        against = load(other, progress=progress)
        display.clear()
        _compare(answers, _answers(against, by, None), rows, as_json=as_json)
    elif sql is not None:
        kind = to or ("json" if as_json else None)
        _answer_query(answers, sql, kind, out, top or SQL_ROWS, force=force, note=display.note)
    elif to is not None:
        name = (views or ["operators"])[0]
        if views is None:
            display.note(f"the table is {name}; --view names another one")
        _tell_whole(answers, [name], display.note)
        _emit(answers.table(name), to, out, found.paths, force=force, note=display.note)
    elif as_json:
        if step is not None:
            display.note(f"operators, kernels and modules are of step {step}, all other parts of all steps")
        _print_json(answers, views)
    else:
        _print(answers, views, rows)


def _silent(line: str) -> None:
    """Show no progress."""


def _check(
    views: list[str] | None,
    *,
    by: str,
    sql: str | None,
    to: str | None,
    cut_steps: str | None,
    out: Path | None,
    compare: str | None,
    as_json: bool,
) -> None:
    """Refuse options that do not go together, before anything is loaded.

    Raises:
        GradscopeError: They do not.
    """
    if by not in GROUPINGS:
        raise GradscopeError(f"--by is one of {', '.join(GROUPINGS)}, not {by!r}")
    asked = [
        name
        for name, value in (("--sql", sql), ("--cut-steps", cut_steps), ("--compare", compare))
        if value is not None
    ]
    if len(asked) > 1:
        raise GradscopeError(f"{' and '.join(asked)} are two different questions", "ask one at a time")
    if cut_steps is not None:
        from gradscope.trace.cut import parse_steps

        parse_steps(cut_steps)
        if out is None:
            raise GradscopeError(
                "--cut-steps needs a file to write", "name it with --out, as in --out small.pt.trace.json.gz"
            )
    elif out is not None and to is None:
        raise GradscopeError(
            "--out needs --to or --cut-steps", "for example --to csv --view operators --out operators.csv"
        )
    if to is not None:
        from gradscope.trace.table_export import FORMATS

        if to not in FORMATS:
            raise GradscopeError(f"there is no format {to!r}", f"--to is one of {', '.join(FORMATS)}")
        if as_json:
            raise GradscopeError("--to and --json are two forms of output", "leave one of them out")
        if views and sql is None:
            _check_table(views)
    elif views and sql is None:
        from gradscope.cli.trace_report import check_views

        check_views(views)


def _check_ignored(given: set[str]) -> None:
    """Refuse options that another one would leave without a meaning.

    Raises:
        GradscopeError: There is one.
    """
    for option, (others, hint) in IGNORED.items():
        for other in others:
            if {option, other} <= given:
                raise GradscopeError(f"{option} and {other} do not go together", hint)


def _check_table(views: list[str]) -> None:
    from gradscope.trace.answers import TABLES

    if len(views) > 1:
        raise GradscopeError("--to writes one table", "name one with --view")
    if views[0] not in TABLES:
        raise GradscopeError(f"there is no table {views[0]!r}", f"the tables are {', '.join(TABLES)}")


def _answers(loaded: "Loaded", by: str, step: int | None) -> "Answers":
    from gradscope.trace.answers import Answers

    answers = Answers(loaded, loaded.shown, GROUPINGS[by], step)  # type: ignore[arg-type]  # one of the literals, by its check
    answers.check_step()
    return answers


def _print(answers: "Answers", views: list[str] | None, top: int) -> None:
    from gradscope.cli.display import columns_of
    from gradscope.cli.trace_layout import make_pen
    from gradscope.cli.trace_report import render

    typer.echo(render(answers, make_pen(columns_of(sys.stdout), top, detailed=views is not None), views))


def _compare(answers: "Answers", other: "Answers", top: int, *, as_json: bool) -> None:
    from gradscope.cli import trace_compare_view
    from gradscope.cli.display import columns_of
    from gradscope.cli.trace_layout import make_pen
    from gradscope.cli.trace_report import printable
    from gradscope.trace.compare import compare

    found = compare(other.trace, answers.trace, steps_a=other.steps, steps_b=answers.steps)
    this, past = (
        (str(one.trace.path), [*one.loaded.notes, *one.trace.notes, *one.steps.notes]) for one in (answers, other)
    )
    if as_json:
        _print_document(trace_compare_view.document(found, this, past))
        return
    pen = make_pen(columns_of(sys.stdout), top)
    typer.echo(printable(trace_compare_view.sections(found, this, past, pen), pen))


def _print_json(answers: "Answers", views: list[str] | None) -> None:
    from gradscope.cli.trace_json import document

    _print_document(document(answers, views))


def _print_document(document: dict[str, Any]) -> None:
    import msgspec

    from gradscope.trace.table_export import safe_json

    typer.echo(msgspec.json.format(safe_json(document), indent=2).decode())


def _answer_query(
    answers: "Answers",
    sql: str,
    kind: str | None,
    out: Path | None,
    top: int,
    *,
    force: bool,
    note: Callable[[str], None],
) -> None:
    from gradscope.cli.display import columns_of
    from gradscope.cli.trace_table import as_table
    from gradscope.trace.answers import TABLES
    from gradscope.trace.sql import query

    asked: list[str] = []

    def maker(name: str) -> "Callable[[], pl.DataFrame]":
        def made() -> "pl.DataFrame":
            asked.append(name)
            return answers.table(name)

        return made

    answer = query({name: maker(name) for name in TABLES}, sql)
    _tell_whole(answers, asked, note)
    if kind is not None:
        _emit(answer, kind, out, answers.loaded.target.paths, force=force, note=note)
        return
    typer.echo(as_table(answer.head(top), columns_of(sys.stdout)))
    if answer.height > top:
        note(f"{answer.height - top} more rows are not shown; --to csv writes all of them")


def _tell_whole(answers: "Answers", names: list[str], note: Callable[[str], None]) -> None:
    """Say which tables are of all steps although one was chosen."""
    from gradscope.trace.answers import OF_ALL_STEPS

    whole = [name for name in OF_ALL_STEPS if name in names and answers.step is not None]
    if whole:
        note(f"of all steps, not of step {answers.step} alone: {', '.join(whole)}")


def _emit(
    table: "pl.DataFrame",
    kind: str,
    out: Path | None,
    inputs: list[Path],
    *,
    force: bool,
    note: Callable[[str], None],
) -> None:
    """Write a table to a file or to stdout; a terminal gets no bytes that it would obey."""
    from gradscope.core.text import visible
    from gradscope.core.units import format_bytes, format_number_of
    from gradscope.trace.table_export import to_bytes, write_table

    if out is not None:
        size_bytes = write_table(table, kind, out, force=force, inputs=inputs)
        note(f"{out}: {format_number_of(table.height, 'row')}, {format_bytes(size_bytes)}")
        return
    terminal = sys.stdout.isatty()
    if kind == "parquet" and terminal:
        raise GradscopeError("Parquet is no text for a terminal", "name a file with --out, or redirect stdout")
    content = to_bytes(table, kind)
    if terminal:
        typer.echo(visible(content.decode(), keep="\n"), nl=False)
    else:
        typer.echo(content, nl=False)


def _cut(
    target: "Target",
    steps: str,
    out: Path,
    window: int | None,
    *,
    force: bool,
    display_note: Callable[[str], None],
    progress: Callable[[str], None],
) -> None:
    from gradscope.cli.trace_target import one_file
    from gradscope.core.units import format_bytes, format_number_of
    from gradscope.rundir.layout import TRACE_GLOB
    from gradscope.trace.cut import cut_trace, parse_steps

    first, last = parse_steps(steps)
    done = cut_trace(one_file(target, window), out, first, last, force=force, progress=progress)
    numbers = f"step {done.steps[0]}" if len(done.steps) == 1 else f"steps {done.steps[0]} to {done.steps[-1]}"
    typer.echo(f"{done.path}: {numbers}, {done.kept} of {done.of} events, {format_bytes(done.size_bytes)}")
    if len(done.steps) < last - first + 1:
        display_note(f"{last - first + 1 - len(done.steps)} of the steps asked for are not in the trace")
    if done.clipped:
        display_note(f"{format_number_of(done.clipped, 'host slice')} longer than these steps: clipped to them")
    if done.broken:
        display_note(f"{format_number_of(done.broken, 'event')} without a usable time or phase: left out")
    suffix = TRACE_GLOB.removeprefix("*").removesuffix(".gz").removesuffix("*")
    if suffix not in out.name:
        display_note(f"TensorBoard's profiler finds it only under a name that ends in {suffix} or {suffix}.gz")
