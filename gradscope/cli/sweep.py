"""`gradscope sweep PRESET`: every cell of a grid, each a run of its own; started again, it goes on where it was."""

import json
import math
import os
import shlex
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from gradscope.cli.arguments import Out
from gradscope.cli.display import Display
from gradscope.cli.sweep_estimate import estimate_cells, foretold_plan
from gradscope.cli.sweep_notes import idle_notes, refuse_axes, unreadable_notes
from gradscope.cli.sweep_view import SweepView, counts, counts_line
from gradscope.config.labels import cell_labels
from gradscope.config.load import load_preset
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.launch.plan import DONE, Plan, make_plan
from gradscope.launch.slots import AUTO, check_jobs, choose_slots
from gradscope.launch.sweep import Options, State, Sweep
from gradscope.launch.wakeup import catching_signals
from gradscope.rundir.cells import SKIPPED, sweep_folder

WRITING_SHARE = 20.0


def command(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="A preset with a [sweep], by name or path.")],
    *,
    settings: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", metavar="KEY=VALUE", help="Change one setting of every cell; may be repeated."),
    ] = None,
    jobs: Annotated[str, typer.Option("--jobs", metavar="auto|N", help="Cells at once; auto: one a GPU.")] = AUTO,
    cell_limit: Annotated[
        float | None, typer.Option("--cell-limit", metavar="SECONDS", min=0.1, help="Stop a cell after this long.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run cells again that did not end well.")
    ] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End at the first cell that does not end well.")
    ] = False,
    only_estimate: Annotated[
        bool, typer.Option("--estimate", help="Foretell each cell's peak memory and whether it fits; run nothing.")
    ] = False,
    foretells: Annotated[
        bool, typer.Option("--foretell", help="Estimate the cells first; results have it beside the measured peak.")
    ] = False,
    skip_oom: Annotated[
        bool, typer.Option("--skip-oom", help="As --foretell, and run no cell that is foretold not to fit.")
    ] = False,
    room: Annotated[
        str | None,
        typer.Option("--room", metavar="SIZE", help="What a peak may take, such as 24GiB."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and what would run; run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as one line of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes; errors still show.")] = False,
    out: Out = Path("traces"),
) -> None:
    """Run every cell of a grid; cells that have a result already are skipped."""
    wanted = load_preset(preset, settings or ())
    if wanted.sweep is not None:
        refuse_axes(wanted.sweep, settings or ())
    plan = make_plan(wanted, out, retry_failed=retry_failed)
    check_jobs(jobs)
    if cell_limit is not None and not math.isfinite(cell_limit):
        raise GradscopeError(f"--cell-limit: found {cell_limit}, allowed a finite number of seconds")
    _check_estimates(only=only_estimate, foretells=foretells, skip=skip_oom, room=room, dry_run=dry_run)
    display = Display(quiet=quiet)
    for note in (*idle_notes(wanted), *unreadable_notes(sweep_folder(out, wanted.name))):
        display.note(note)
    if dry_run:
        _list(plan, as_json=as_json)
        return
    if only_estimate:
        estimate_cells(plan, display, room=room, as_json=as_json)
        return
    if foretells or skip_oom:
        plan = foretold_plan(plan, display, room=room, skip=skip_oom)
    view = SweepView(plan, display, resume=_resume_command())
    view.begin(retry_failed=retry_failed)
    slots = choose_slots(plan.cells, jobs, os.environ)
    for note in slots.notes:
        display.note(f"note: {note}")
    options = Options(slots=slots.environments, cell_limit_seconds=cell_limit, fail_fast=fail_fast)
    with catching_signals(keep_ignored=True) as wakeup:
        results = ResultFiles(plan, display)
        sweep = Sweep(plan, options, wakeup, view, argv=["gradscope", *sys.argv[1:]], after_cell=results.renew)
        try:
            sweep.begin()
            results.prepare()
            state = sweep.run()
        except GradscopeError:
            view.interrupted()
            raise
        finally:
            results.write()
    view.finish(state)
    typer.echo(
        _as_json(state) if as_json else visible(f"{counts_line(plan, state.outcomes)}\n{_folder(plan)}", keep="\n")
    )
    raise typer.Exit(state.exit_code())


class ResultFiles:
    """`results.csv` and `results.parquet`, written anew after each cell; for large grids, not after every one."""

    def __init__(self, plan: Plan, display: Display) -> None:
        self._plan = plan
        self._display = display
        self._due = 0.0

    def prepare(self) -> None:
        """Import what writes them: that takes a moment, while torch is being imported elsewhere."""
        import_module("gradscope.export.results")
        import_module("polars")

    def renew(self) -> None:
        """Write them, unless that would take more than a twentieth of the time."""
        started = time.monotonic()
        if started >= self._due:
            self.write()
            ended = time.monotonic()
            self._due = ended + WRITING_SHARE * (ended - started)

    def write(self) -> None:
        """Write them; a folder that cannot be written is said and stops nothing."""
        from gradscope.export.results import write_results

        try:
            write_results(self._plan.out, self._plan.preset)
        except OSError as error:
            self._display.note(f"note: results.csv and results.parquet could not be written: {error.strerror}")


def _check_estimates(*, only: bool, foretells: bool, skip: bool, room: str | None, dry_run: bool) -> None:
    if dry_run and (only or foretells or skip):
        raise GradscopeError("--dry-run estimates nothing", "--estimate says which cells fit, and runs nothing either")
    if only and (foretells or skip):
        raise GradscopeError("--estimate runs nothing", "leave it out, or --foretell and --skip-oom")
    if room is not None and not (only or skip):
        raise GradscopeError("--room goes with --estimate or --skip-oom", "leave it out, or add one of them")


def _list(plan: Plan, *, as_json: bool) -> None:
    labels = cell_labels(plan.cells)
    words = {cell: outcome.word for cell, outcome in plan.outcomes.items()}
    if as_json:
        listed = [
            {"cell": cell.hash, "settings": list(cell.settings), "status": words.get(cell.hash)} for cell in plan.cells
        ]
        typer.echo(json.dumps({"folder": str(_folder(plan)), "cells": listed}))
        return
    for cell in plan.cells:
        typer.echo(visible(f"{cell.hash}  {words.get(cell.hash, 'to run'):<9}  {labels[cell.hash]}"))
    typer.echo(
        visible(f"{len(plan.waiting)} of {len(plan.cells)} cells would run, in this order; in {_folder(plan)}"),
        err=True,
    )


def _folder(plan: Plan) -> Path:
    return sweep_folder(plan.out, plan.preset.name).absolute()


def _as_json(state: State) -> str:
    labels = cell_labels(state.plan.cells)
    listed: list[dict[str, Any]] = []
    for cell in state.plan.cells:
        outcome, skip = state.outcomes.get(cell.hash), state.plan.skipped.get(cell.hash)
        peak = state.plan.foretold.get(cell.hash)
        foretold = {"foretold_peak_bytes": peak, "room_bytes": None if skip is None else skip.room_bytes}
        if skip is not None:
            said = {"status": SKIPPED, "run_id": None, "exit_code": None, "reason": skip.reason}
            listed.append({"cell": cell.hash, "label": labels[cell.hash], **said, **foretold})
            continue
        listed.append(
            {
                "cell": cell.hash,
                "label": labels[cell.hash],
                "status": None if outcome is None else outcome.word,
                "run_id": None if outcome is None else outcome.handle.run_id,
                "exit_code": None if outcome is None else outcome.record.exit_code,
                "reason": None if outcome is None else outcome.record.reason,
                **foretold,
            }
        )
    result = {"folder": str(_folder(state.plan)), "ran": len(state.ran), "counts": counts(state.plan, state.outcomes)}
    return json.dumps(result | {"all_done": all(one["status"] == DONE for one in listed), "cells": listed})


def _resume_command() -> str:
    """Return the command that goes on; a cell that failed again is not tried for ever where each failure ends all."""
    words = sys.argv[1:]
    if "--fail-fast" in words:
        words = [word for word in words if word != "--retry-failed"]
    return shlex.join(["gradscope", *words])
