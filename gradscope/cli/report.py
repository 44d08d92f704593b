"""`gradscope report SWEEP`: what a grid's results say, as text, Markdown, CSV, JSON, or a page that opens offline."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradscope.cli.arguments import Out, folder
from gradscope.errors import ExitCode, GradscopeError

if TYPE_CHECKING:
    from gradscope.analysis.curves import Curve
    from gradscope.analysis.grid_report import GridReport
    from gradscope.analysis.results import Row
    from gradscope.config.schema import Preset

WIDTH = 80

RESULT_SUFFIXES = (".csv", ".parquet")

SWEEP_HELP = "A preset with a [sweep] (its name or file), or a folder of runs."


def command(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help=SWEEP_HELP)],
    *,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="M", help="What cells are ranked by; loss_last if not given.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option("--against", metavar="B", help="Read losses at equal step, samples, seconds or energy."),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the pivot tables as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", parser=folder, help="Write one page that opens without internet."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE", parser=folder, help="Write the rows, as .csv or .parquet."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    check_claims: Annotated[
        bool, typer.Option("--check-claims", help="Leave with 5 where a claim is refuted.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
    out: Out = Path("traces"),
) -> None:
    """Tell which cell of a grid to choose and why: tables, effects, Pareto front, claims."""
    from gradscope.analysis.grid_report import report
    from gradscope.cli.display import Display
    from gradscope.cli.sweep_notes import unreadable_notes

    display = Display(quiet=quiet)
    budgets = _budgets(against or ())
    if as_markdown + as_csv + as_json > 1:
        raise GradscopeError("--markdown, --csv and --json are several outputs", "leave one of them")
    _check_metric(metric)
    for target in (html, results):
        _check_target(target, force=force)
    if results is not None and results.suffix not in RESULT_SUFFIXES:
        raise GradscopeError(f"--results {results}: the name has to end in {' or '.join(RESULT_SUFFIXES)}")
    name, rows, preset = _read(sweep, out)
    if metric is not None and rows and all(row.value(metric) is None for row in rows):
        raise GradscopeError(f"--metric {metric}: it was not measured in any run of {name}")
    curves = _curves(rows) if html is not None or {"seconds", "energy"} & set(budgets) else {}
    found = report(name, rows, preset, metric=metric, curves=curves, against=budgets)
    for note in unreadable_notes(_folder(sweep, out, name)):
        display.note(note)
    if found.counts.get("missing"):
        display.note(
            f"{found.counts['missing']} of {len(rows)} cells have no run yet; `gradscope sweep {sweep}` makes them"
        )
    if html is not None:
        from gradscope.export.report_html import write_page

        display.note(f"wrote {write_page(found, curves, html, replace=force)}")
    if results is not None:
        from gradscope.export.results import frame, write_frame

        display.note(f"wrote {write_frame(frame(rows), results, replace=force)}")
    _print(
        found, as_markdown=as_markdown, as_csv=as_csv, as_json=as_json, silent=html is not None or results is not None
    )
    if check_claims and any(one.verdict.value == "refuted" for one in found.claims):
        raise typer.Exit(ExitCode.CLAIM_FAILED)


def _print(found: "GridReport", *, as_markdown: bool, as_csv: bool, as_json: bool, silent: bool) -> None:
    """Print the report; where a file was asked for, only in the form that was asked for too."""
    from gradscope.cli.display import columns_of

    if as_json:
        typer.echo(json.dumps(_plain(found), allow_nan=False))
    elif as_markdown:
        from gradscope.export.report_markdown import render as markdown

        typer.echo(markdown(found), nl=False)
    elif as_csv:
        from gradscope.export.report_csv import render as csv

        typer.echo(csv(found), nl=False)
    elif not silent:
        from gradscope.export import report_text

        typer.echo(report_text.render(found, columns_of(sys.stdout) or WIDTH))


def _plain(found: "GridReport") -> dict[str, Any]:
    """Return the report as JSON has it: rows by column, what is not finite left out."""
    import msgspec

    from gradscope.analysis.results import as_columns, columns

    names = columns(found.rows)
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(found, rows=[]))
    plain["rows"] = [as_columns(row, names) for row in found.rows]
    finite: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))  # NaN and infinity become null
    return finite


def _read(text: str, out: Path) -> "tuple[str, list[Row], Preset | None]":
    """Return a grid's name, its rows, and its preset if there is one."""
    from gradscope.analysis.results import rows, rows_of_runs
    from gradscope.config.load import load_preset
    from gradscope.config.places import preset_names
    from gradscope.rundir.layout import MANIFEST, STATUS

    path = folder(text)
    if path.is_dir():
        runs = path.resolve()
        if runs.name in preset_names() and (preset := load_preset(runs.name)).sweep is not None:
            return preset.name, rows(runs.parent, preset), preset
        if any((runs / file).exists() for file in (MANIFEST, STATUS)):
            raise GradscopeError(
                f"{path} is a single run", f"`gradscope show {path}` tells of it; report takes the folder above"
            )
        found = rows_of_runs(runs)
        if not found:
            raise GradscopeError(f"there is no run in the folder {path}", "name a preset's folder in the output root")
        return runs.name, found, None
    preset = load_preset(text)
    if preset.sweep is None:
        raise GradscopeError(f"preset {preset.name!r} has no [sweep]", "`gradscope show RUN` tells of a single run")
    return preset.name, rows(out, preset), preset


def _folder(text: str, out: Path, name: str) -> Path:
    from gradscope.rundir.cells import sweep_folder

    path = folder(text)
    return path.resolve() if path.is_dir() else sweep_folder(out, name)


def _curves(rows: "list[Row]") -> "dict[str, Curve]":
    from gradscope.analysis.curves import read_curve

    return {row.cell: read_curve(Path(row.path)) for row in rows if row.done and row.path is not None}


def _budgets(texts: "list[str] | tuple[()]") -> list[str]:
    from gradscope.analysis.curves import BUDGETS

    for text in texts:
        if text not in BUDGETS:
            raise GradscopeError(f"--against {text}: there is no such budget", f"it is one of {', '.join(BUDGETS)}")
    return list(texts)


def _check_metric(metric: str | None) -> None:
    from gradscope.analysis.results import OF_SUMMARY

    if metric is not None and metric not in OF_SUMMARY:
        import difflib

        near = difflib.get_close_matches(metric, OF_SUMMARY, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"such as {', '.join(OF_SUMMARY[:7])}"
        raise GradscopeError(f"--metric {metric}: the results have no such column", hint)


def _check_target(target: Path | None, *, force: bool) -> None:
    if target is not None:
        from gradscope.core.target_file import check_target

        check_target(target, force=force)
