"""`gradscope trace T --compare OTHER`: which parts, phases, operators and kernels make a step of T differ."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

import polars as pl

from gradscope.cli.trace_json import rows as plain_rows
from gradscope.cli.trace_layout import Pen, kernel_name
from gradscope.cli.trace_report import TOLD_ELSEWHERE
from gradscope.cli.trace_views import PART_LABELS
from gradscope.core.text import visible
from gradscope.core.units import MISSING, format_ms, format_number_of, format_pct
from gradscope.trace.compare import Comparison
from gradscope.trace.frames import TraceNote

LEAST_MS = 0.0005
"""Differences below half a microsecond print as 0."""


Side = tuple[str, list[TraceNote]]
"""A trace's file, and what loading it had to say."""


def sections(found: Comparison, this: Side, other: Side, pen: Pen) -> list[list[str]]:
    """Lay out a comparison.

    Args:
        found: What is different in this trace (b), seen from the other (a).
        this: This trace.
        other: The other.
        pen: How to lay out.
    """
    head = [*pen.wrapped(f"this:  {visible(this[0])}", "", "  "), *pen.wrapped(f"other: {visible(other[0])}", "", "  ")]
    for title, (_, notes) in (("notes on this", this), ("notes on other", other)):
        told = [note for note in notes if note.code not in TOLD_ELSEWHERE]
        head += [title, *(line for note in told for line in pen.note(note.message, note.count))] if told else []
    if found.a_ms is None or found.b_ms is None:
        return [[*head, "nothing ran in one of them: there is nothing to compare"]]
    what = "a step" if found.per_step else "the whole trace (steps unknown in one of them)"
    change = f" ({format_pct(100 * (found.b_ms / found.a_ms - 1), signed=True)})" if found.a_ms else ""
    head += pen.wrapped(f"{what} takes {format_ms(found.b_ms)} instead of {format_ms(found.a_ms)}{change}", "")
    if found.per_step:
        head += pen.wrapped(
            f"means over {format_number_of(found.steps_b, 'step')} and {found.steps_a} of the other", ""
        )
    labelled = found.parts.with_columns(pl.col("name").replace_strict(PART_LABELS, default=pl.col("name")))
    return [
        head,
        _times("what ran", labelled, pen),
        _times("phases", found.phases, pen),
        _names("operators, own time", found.operators, pen),
        _names("kernels", found.kernels, pen),
    ]


def _times(title: str, table: pl.DataFrame, pen: Pen) -> list[str]:
    told = [row for row in table.iter_rows(named=True) if row["a_ms"] or row["b_ms"]]
    body = [
        (row["name"], _time(row["other"]), _time(row["this"]), _change(row["difference_ms"]))
        for row in ({**row, "other": row["a_ms"], "this": row["b_ms"]} for row in told)
    ]
    return pen.rows(title, ("other", "this", "difference"), body, kept="difference") if body else []


def _names(title: str, table: pl.DataFrame, pen: Pen) -> list[str]:
    table = table.filter(pl.col("difference_ms").abs() >= LEAST_MS)
    if table.is_empty():
        return []
    body = []
    for row in table.head(pen.top).iter_rows(named=True):
        calls = f"{_calls(row['calls_a'])} > {_calls(row['calls_b'])}" if row["calls_a"] != row["calls_b"] else ""
        why = {"a": "only other", "b": "only this"}.get(row["only_in"] or "", calls)
        body.append(
            (kernel_name(row["name"]), _time(row["a_ms"]), _time(row["b_ms"]), _change(row["difference_ms"]), why)
        )
    lines = pen.rows(title, ("other", "this", "difference", "calls"), body, kept="difference")
    return lines + pen.more(table.height - pen.top, "differences")


def _time(value: float | None) -> str:
    return MISSING if value is None else "0" if value == 0 else format_ms(value)


def _change(value: float | None) -> str:
    if value is None:
        return MISSING
    return "0" if abs(value) < LEAST_MS else ("+" if value > 0 else "") + format_ms(value)


def _calls(count: float) -> str:
    return f"{count:.0f}" if count.is_integer() else f"{count:.1f}"


def document(found: Comparison, this: Side, other: Side) -> dict[str, Any]:
    """Return a comparison as plain data; `a` is the other trace, `b` this one."""
    plain: dict[str, Any] = {"schema": 1, "this": this[0], "other": other[0], "difference_ms": found.difference_ms}
    plain["notes"] = {side: [asdict(note) for note in notes] for side, (_, notes) in (("this", this), ("other", other))}
    names: Iterable[str] = (one.name for one in fields(found))
    for name in names:
        value = getattr(found, name)
        plain[name] = plain_rows(value) if isinstance(value, pl.DataFrame) else value
    return plain
