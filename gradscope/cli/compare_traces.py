"""Which operators make two runs differ, where both were profiled."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscope.analysis.unlike import Side
from gradscope.core.units import format_bytes
from gradscope.errors import GradscopeError
from gradscope.rundir.handle import RunHandle

if TYPE_CHECKING:
    from gradscope.trace.compare import Comparison

MOST_BYTES = 32 << 20
"""Of a trace file, packed: larger ones are left to `gradscope trace A --compare B`."""

OPERATORS = 6


def traces_of(side: Side) -> tuple[str, list[Path]]:
    """Return the id and the traces of a side's first profiled run."""
    for run in side.runs:
        found = RunHandle(run.path).traces() if run.path is not None else []
        if found:
            return run.summary.run_id, found
    return "", []


def compared(base: Side, side: Side) -> "tuple[Comparison | None, str]":
    """Compare the traces of two sides.

    Returns:
        The comparison, whose `a` is the base, or `None` and why there is none (empty: a side was not profiled).
    """
    from gradscope.trace.compare import compare
    from gradscope.trace.room import require_to_start
    from gradscope.trace.target import Target, load

    found = [traces_of(one) for one in (base, side)]
    if not all(paths for _, paths in found):
        return None, ""
    size = max(sum(path.stat().st_size for path in paths) for _, paths in found)
    if size > MOST_BYTES:
        return None, f"traces of {format_bytes(size)} are not compared here: `gradscope trace A --compare B` does"
    try:
        require_to_start()
        a, b = (load(Target("windows", paths, run_id=run_id)) for run_id, paths in found)
    except (GradscopeError, OSError) as error:
        return None, f"the traces cannot be compared: {error}"
    return compare(a.traces[a.shown], b.traces[b.shown]), ""


def operator_rows(found: "Comparison") -> list[tuple[str, float, float, float]]:
    """Return the operators (kernels, where there are any) that differ most: name, ms a step in both, difference."""
    import polars as pl

    on_host = found.operators.filter(pl.col("kind") != "annotation")  # ranges hold what is not in any operator
    table = on_host if found.kernels.is_empty() else found.kernels
    rows = table.head(OPERATORS).select("name", "a_ms", "b_ms", "difference_ms")
    return [(str(name or "(no name)"), a, b, difference) for name, a, b, difference in rows.iter_rows() if difference]


def as_data(rows: Sequence[tuple[str, float, float, float]]) -> list[dict[str, Any]]:
    """Return them for JSON."""
    return [
        {"name": name, "baseline_ms": a, "value_ms": b, "difference_ms": difference} for name, a, b, difference in rows
    ]
