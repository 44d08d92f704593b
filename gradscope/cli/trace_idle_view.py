"""The idle section of `gradscope trace`: when devices had nothing to do, and what the host was doing meanwhile."""

import polars as pl

from gradscope.cli.trace_layout import Pen, kernel_name, ms, ms_or_zero, no_device
from gradscope.core.units import MISSING, format_pct
from gradscope.trace.answers import Answers

LONGEST_SHOWN = 4
"""Gaps told one by one, of a section of the usual length."""

MEANING = "host wait: launched too late; kernel wait: launched in time; other: held up otherwise"


def idle(answers: Answers, pen: Pen) -> list[str]:
    """Say how long devices idled by reason, and tell of the longest gaps."""
    if not answers.has_device:
        return pen.missing("idle", no_device(answers.trace))
    found = answers.idle
    by_kind = found.by_kind
    several = by_kind["device"].n_unique() > 1
    rows = []
    for row in by_kind.head(pen.top).iter_rows(named=True):
        device = f"device {row['device']}, " if several else ""
        share = row["step_pct"]
        bar = pen.bar(None if share is None else share / 100)
        name = device + row["kind"]
        rows.append((name, bar, str(row["gaps"]), format_pct(share), ms_or_zero(row["idle_ns"])))
    lines = pen.rows(f"idle devices{answers.of_all}", ("", "gaps", "share", "time"), rows, left=2) + pen.wrapped(
        MEANING
    )
    delays = found.launch_delays.filter(pl.col("kind") != "other")["queue_ns"]
    if len(delays):
        lines += pen.wrapped(
            f"work begins {ms(_float(delays.median()))} after its launch in the median{answers.of_all}"
        )
    return lines + _longest(answers, pen)


def _longest(answers: Answers, pen: Pen) -> list[str]:
    table = answers.idle.longest
    if answers.step is not None:
        table = table.filter(pl.col("number") == answers.step)
    rows = []
    for row in table.head(min(LONGEST_SHOWN, pen.top) if pen.top <= 8 else pen.top).iter_rows(named=True):
        step = MISSING if row["number"] is None else str(row["number"])
        doing = row["host_op"] or "(nothing recorded)"
        after = pen.name(kernel_name(row["after"] or "the end"), 22)
        rows.append((doing, step, ms(row["dur_ns"]), row["kind"], after))
    return pen.rows("  longest gaps: host did", ("step", "time", "reason", "then"), rows) if rows else []


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
