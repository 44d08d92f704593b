"""`gradscope runs`: the runs of an output root and all running ones, running first."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gradscope.cli.arguments import LookIn
from gradscope.cli.display import columns_of
from gradscope.cli.table import format_table
from gradscope.core.text import display_width
from gradscope.core.units import MISSING, format_bytes, format_ms, format_number
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import created_wall_ns, short_id
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
            typer.echo(json.dumps(row))
        return
    if not rows:
        typer.echo(f"no runs below {out}, and none running; `gradscope run quick` makes one", err=True)
        return
    typer.echo(table(rows, time.time_ns(), columns_of(sys.stdout)))
    if len(over) > limit:
        typer.echo(f"{len(over) - limit} older runs are not shown; --limit shows more", err=True)


def describe(handle: RunHandle) -> dict[str, Any]:
    """Return one run's row as plain data; what is not known is `None`."""
    from gradscope.analysis.summary import load_summary

    summary = load_summary(handle.path)
    who = summary.identity
    return {
        "run_id": handle.run_id,
        "path": str(handle.path),
        "preset": who.preset,
        "model": who.model,
        "optimizer": who.optimizer,
        "strategy": who.strategy,
        "accumulate": who.micro_steps,
        "mode": who.accumulation_mode,
        "device": who.device,
        "precision": who.precision,
        "status": str(summary.status),
        "exit_code": summary.exit_code,
        "loss": summary.loss.last,
        "step_ms": None if summary.time.step_ms is None else summary.time.step_ms.median,
        "peak_bytes": summary.memory.allocated_peak_bytes,
        "created_wall_ns": summary.provenance.created_wall_ns or created_wall_ns(handle.run_id),
    }


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


def table(rows: list[dict[str, Any]], now_wall_ns: int, width: int | None = None) -> str:
    """Lay out rows for a person, in at most `width` columns as far as that can be."""
    cells = [
        {
            "RUN": short_id(row["run_id"]),
            "PRESET": row["preset"],
            "OPTIMIZER": row["optimizer"] or MISSING,
            "STRATEGY": strategy(row),
            "STATUS": row["status"],
            "LOSS": format_number(row["loss"]),
            "STEP": format_ms(row["step_ms"]),
            "PEAK": format_bytes(row["peak_bytes"]),
            "AGE": age(row["created_wall_ns"], now_wall_ns),
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


def strategy(row: dict[str, Any]) -> str:
    """Return a strategy with its micro-batches: `accumulate x4`, `split x4`, `checkpoint x4`, `checkpoint split x4`."""
    name, count = row["strategy"] or MISSING, row["accumulate"]
    if not count or count == 1:
        return str(name)
    checkpoints = ["checkpoint"] if name.startswith("checkpoint") else []
    grows = [] if checkpoints else ["accumulate"]
    return " ".join([*checkpoints, *(["split"] if row["mode"] == "split" else grows), f"x{count}"])


def age(created_wall_ns: int | None, now_wall_ns: int) -> str:
    """Return how long ago that was, in one unit; a start in the future (a clock was set back) is `now`."""
    if created_wall_ns is None:
        return MISSING
    seconds = max(0, now_wall_ns - created_wall_ns) // 1_000_000_000
    for unit, unit_seconds in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds} {unit}"
    return "now" if seconds == 0 else f"{seconds} s"
