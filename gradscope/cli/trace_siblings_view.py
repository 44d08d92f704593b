"""Sections on what lies beside the trace that is shown: windows of a run, ranks of a folder; and on their talk."""

from gradscope.cli.trace_layout import Pen, kernel_name, ms, ms_or_zero
from gradscope.core.units import MISSING, format_bytes, format_pct
from gradscope.trace.answers import Answers

STRAGGLERS_SHOWN = 4


def windows(answers: Answers, pen: Pen) -> list[str]:
    """List the stretches of profiled steps in order, with what lies between them."""
    table, rows, last = answers.steps.windows, [], None
    if table.is_empty():
        return pen.missing("windows", f"no profiled steps in {answers.trace.extent}")
    for row in table.head(pen.top).iter_rows(named=True):
        missed = "" if last is None or row["first"] <= last else f"{row['first'] - last - 1} steps"
        gap = "" if row["gap_ns"] is None else ms(row["gap_ns"])
        rows.append((f"steps {row['first']} to {row['last']}", ms(row["dur_ns"]), missed, gap))
        last = row["last"]
    heads = ("time", "not profiled before", "gap before")
    return pen.rows(f"windows{answers.of_all}", heads, rows) + pen.more(table.height - pen.top, "windows")


def ranks(answers: Answers, pen: Pen) -> list[str]:
    """List ranks with their steps and how busy their devices were, and whom the others waited for."""
    waits = {row["rank"]: row for row in answers.stragglers.ranks.iter_rows(named=True)}
    heads, rows = ("steps", "a step", "busy", "comm.", "hidden", "waited", "last"), []
    for number, one in ((one.rank, one) for one in answers.siblings):
        found = one.steps
        row = found.mean or next(found.whole.iter_rows(named=True), None)
        if row is None:
            rows.append((f"rank {number}", *[MISSING] * len(heads)))
            continue
        busy = format_pct(row.get("gpu_busy_pct")) if found.has_device_events else "no device"
        steps = "unknown" if found.count is None else str(found.count)
        talk, wait = one.communication.overlap_pct, waits.get(number, {})
        hidden = "none" if one.communication.side is None else format_pct(talk)
        waited = (ms_or_zero(wait.get("step_wait_ns")), str(wait.get("last_calls", MISSING)))
        rows.append(
            (f"rank {number}", steps, ms(row["dur_ns"]), busy, ms_or_zero(row["communication_ns"]), hidden, *waited)
        )
    lines = pen.rows(f"ranks{answers.of_all}", heads, rows[: pen.top]) + pen.more(len(rows) - pen.top, "ranks")
    late = [
        f"rank {row['straggler']} in step {row['number']} (by {ms(row['spread_ns'])})"
        for row in answers.stragglers.stragglers.iter_rows(named=True)
        if row["straggler"] is not None and row["number"] is not None
    ]
    if late:
        lines += pen.wrapped("came last, others waited: " + ", ".join(late[:STRAGGLERS_SHOWN]))
    for note in answers.stragglers.notes:
        lines += pen.note(note.message, note.count)
    return lines


def communication(answers: Answers, pen: Pen) -> list[str]:
    """Say what communication cost, and how much of it compute hid."""
    found = answers.communication
    if found.side is None:
        return pen.missing("communication", "none in this trace")
    rows = []
    for row in found.collectives.head(pen.top).iter_rows(named=True):
        size = MISSING if row["bytes"] is None else format_bytes(row["bytes"])
        cells = (str(row["calls"]), ms(row["total_ns"]), ms(row["mean_ns"]), ms(row["max_ns"]), size)
        rows.append((kernel_name(row["name"]), *cells))
    lines = pen.rows(
        f"communication, on the {found.side}{answers.of_all}", ("calls", "time", "mean", "max", "sent"), rows
    )
    lines += pen.more(found.collectives.height - pen.top, "collectives")
    hidden = f"{ms(found.overlap_ns)} of {ms(found.communication_ns)} ({format_pct(found.overlap_pct)})"
    return lines + pen.wrapped(f"compute hides {hidden}; the rest is waited for")
