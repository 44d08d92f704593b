"""`gradscope sweep PRESET --estimate`, `--foretell` and `--skip-oom`: what memory the cells of a grid will need."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import typer

from gradscope.cli.display import Display
from gradscope.cli.look_ahead import given_room
from gradscope.config.labels import cell_labels
from gradscope.core.table import format_table
from gradscope.core.text import visible
from gradscope.core.units import format_bytes
from gradscope.errors import ExitCode
from gradscope.launch.estimate import Estimator
from gradscope.launch.foretell import Foretold, foretell
from gradscope.launch.plan import Plan, with_foretold

FITS = {True: "fits", False: "DOES NOT FIT", None: "room not known"}


def foretold_plan(plan: Plan, display: Display, *, room: str | None, skip: bool) -> Plan:
    """Return a plan with the foretold peaks of what is to run; with `skip`, what does not fit is not to run."""
    if not plan.waiting:
        return plan
    found = _foretell(plan, display, only_waiting=True, room=room)
    labels = cell_labels(plan.cells)
    for cell in plan.waiting:
        if (error := found[cell.hash].error) is not None:
            display.note(f"no estimate of {labels[cell.hash]}: {error.message}")
    if skip and any(one.estimate is not None and one.room is None for one in found.values()):
        display.note("nothing is skipped where the card is not here: say what a peak may take with --room")
    return with_foretold(plan, found, skip=skip)


def estimate_cells(plan: Plan, display: Display, *, room: str | None, as_json: bool) -> None:
    """Print the foretold peak of every cell and whether it fits; run nothing."""
    found = _foretell(plan, display, only_waiting=False, room=room)
    display.clear()
    labels = cell_labels(plan.cells)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "preset": plan.preset.name,
                    "cells": [
                        {
                            "cell": cell.hash,
                            "label": labels[cell.hash],
                            "settings": list(cell.settings),
                            **_as_data(found[cell.hash]),
                        }
                        for cell in plan.cells
                    ],
                }
            )
        )
    else:
        typer.echo(_text(plan, found, labels))
    if any(one.error is not None for one in found.values()):
        raise typer.Exit(ExitCode.FAILED)
    if any(one.fits is False for one in found.values()):
        raise typer.Exit(ExitCode.OUT_OF_MEMORY)


def _foretell(plan: Plan, display: Display, *, only_waiting: bool, room: str | None) -> dict[str, Foretold]:
    cells = plan.waiting if only_waiting else plan.cells
    labels = cell_labels(plan.cells)
    space = None if room is None else given_room(room)
    with Estimator() as estimator:
        return foretell(
            cells,
            estimator,
            room=space,
            say=lambda number, cell: display.progress(f"estimating cell {number} of {len(cells)}: {labels[cell.hash]}"),
        )


def _text(plan: Plan, found: Mapping[str, Foretold], labels: Mapping[str, str]) -> str:
    rows = []
    for cell in plan.cells:
        one = found[cell.hash]
        if one.estimate is None:
            said = "" if one.error is None else visible(one.error.message)
            rows.append([cell.hash, "n/a", "", "n/a", visible(f"{labels[cell.hash]}: {said}")])
            continue
        peak, phase = format_bytes(one.estimate.peak_bytes), one.estimate.peak_phase
        rows.append([cell.hash, peak, phase, FITS[one.fits], visible(labels[cell.hash])])
    rooms = list(dict.fromkeys(one.room for one in found.values() if one.room is not None))
    fitting = sum(one.fits is True for one in found.values())
    last = f"{fitting} of {len(rows)} cells fit"
    if rooms:
        least = min(rooms, key=lambda room: room.size_bytes)
        last += f" into {format_bytes(least.size_bytes)} ({least.source})"
    table = format_table(["cell", "foretold peak", "in", "", "settings"], rows, "lrlll")
    return f"{table}\n\n{visible(last)}"


def _as_data(one: Foretold) -> dict[str, Any]:
    room = one.room
    return {
        "estimate": msgspec.to_builtins(one.estimate),
        "room_bytes": None if room is None else room.size_bytes,
        "room_source": None if room is None else room.source,
        "fits": one.fits,
        "error": None if one.error is None else one.error.message,
    }
