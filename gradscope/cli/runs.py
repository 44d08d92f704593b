"""`gradscope runs`: the runs of an output root and all running ones, running first."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gradscope.analysis.listing import RunRow, age, describe, strategy_words
from gradscope.cli.arguments import LookIn
from gradscope.cli.display import columns_of
from gradscope.core.table import format_table
from gradscope.core.text import display_width
from gradscope.core.units import MISSING, format_bytes, format_ms, format_number
from gradscope.rundir.layout import short_id
from gradscope.rundir.registry import all_runs, running


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, one line a run.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many that are over.")] = 50,
    out: LookIn = Path("traces"),
) -> None:
    """List runs: those that are running, wherever they write, then those of the output root, newest first."""
    going = running()
    paths = {handle.path.resolve() for handle in going}
    over = [handle for handle in all_runs(out) if handle.path.resolve() not in paths]
    rows = [describe(handle) for handle in (*going, *over[:limit])]
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    if not rows:
        typer.echo(f"no runs below {out}, and none running; `gradscope run quick` makes one", err=True)
        return
    typer.echo(table(rows, time.time_ns(), columns_of(sys.stdout)))
    if len(over) > limit:
        typer.echo(f"{len(over) - limit} older runs are not shown; --limit shows more", err=True)


COLUMNS: dict[str, str] = {
    "RUN": "l",
    "PRESET": "l",
    "OPTIMIZER": "l",
    "STRATEGY": "l",
    "STATUS": "l",
    "LOSS": "r",
    "STEP": "r",
    "PEAK": "r",
    "AGE": "r",
}
"""Heads of the table and the sides that their cells lie on."""

DISPENSABLE = ("AGE", "LOSS", "PRESET", "STEP", "PEAK")
"""Columns that give way in a narrow terminal, in this order: rows stay in the order of time, and can be told apart."""


def table(rows: Sequence[RunRow], now_wall_ns: int, width: int | None = None) -> str:
    """Lay out rows for a person, in at most `width` columns as far as that can be."""
    cells = [
        {
            "RUN": short_id(row.run_id),
            "PRESET": row.preset,
            "OPTIMIZER": row.optimizer or MISSING,
            "STRATEGY": strategy_words(row.strategy, row.accumulate, row.mode),
            "STATUS": row.status.value,
            "LOSS": format_number(row.loss),
            "STEP": format_ms(row.step_ms),
            "PEAK": format_bytes(row.peak_bytes),
            "AGE": age(row.created_wall_ns, now_wall_ns),
        }
        for row in rows
    ]
    heads = list(COLUMNS)
    for dispensable in (*DISPENSABLE, None):
        sides = "".join(COLUMNS[head] for head in heads)
        text = format_table(heads, [[row[head] for head in heads] for row in cells], sides)
        if width is None or dispensable is None or max(map(display_width, text.splitlines())) <= width:
            break
        heads.remove(dispensable)
    return text
