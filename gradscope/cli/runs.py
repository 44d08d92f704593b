"""`gradscope runs`: the runs of an output root and all running ones, running first."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gradscope.cli.arguments import LookIn
from gradscope.cli.table import format_table
from gradscope.core.status import FINAL, Status
from gradscope.core.units import format_bytes, format_ms, format_number, format_seconds
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import created_wall_ns
from gradscope.rundir.registry import all_runs, running

OVER = {*FINAL, Status.UNKNOWN}
"""What is not marked as going on: a run from another machine is over as far as this one can tell."""


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, one line a run.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many that are over.")] = 50,
    out: LookIn = Path("traces"),
) -> None:
    """List runs: those that are running, wherever they write, then those of the output root, newest first."""
    going = running()
    paths = {handle.path for handle in going}
    over = [handle for handle in all_runs(out) if handle.path not in paths]
    rows = [describe(handle) for handle in (*going, *over[:limit])]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
        return
    if not rows:
        typer.echo(f"no runs below {out}, and none running; `gradscope run quick` makes one", err=True)
        return
    typer.echo(table(rows, time.time_ns()))
    if len(over) > limit:
        typer.echo(f"{len(over) - limit} older runs are not shown; --limit shows more", err=True)


def describe(handle: RunHandle) -> dict[str, Any]:
    """Return one run's row as plain data; what is not known is `None`."""
    from gradscope.analysis.summary import load_summary

    summary = load_summary(handle.path)
    return {
        "run_id": handle.run_id,
        "path": str(handle.path),
        "preset": summary.identity.preset,
        "status": str(summary.status),
        "exit_code": summary.exit_code,
        "loss": summary.loss.last,
        "step_ms": None if summary.time.step_ms is None else summary.time.step_ms.median,
        "peak_bytes": summary.memory.allocated_peak_bytes,
        "created_wall_ns": summary.provenance.created_wall_ns or created_wall_ns(handle.run_id),
    }


def table(rows: list[dict[str, Any]], now_wall_ns: int) -> str:
    """Lay out rows for a person."""
    cells = [
        [
            row["run_id"],
            row["preset"],
            row["status"] if Status(row["status"]) in OVER else f"{row['status']} ...",
            format_number(row["loss"]),
            format_ms(row["step_ms"]),
            format_bytes(row["peak_bytes"]),
            age(row["created_wall_ns"], now_wall_ns),
        ]
        for row in rows
    ]
    return format_table(["RUN", "PRESET", "STATUS", "LOSS", "STEP", "PEAK", "AGE"], cells, "lllrrrr")


def age(created_wall_ns: int | None, now_wall_ns: int) -> str:
    """Return how long ago that was; a start in the future (a clock was set back) is `now`."""
    if created_wall_ns is None:
        return format_seconds(None)
    seconds = max(0, now_wall_ns - created_wall_ns) // 1_000_000_000
    if seconds >= 2 * 86400:
        return f"{seconds // 86400} days"
    return "now" if seconds == 0 else format_seconds(seconds)
