"""Sections on what lies beside the trace that is shown: the windows of a run, the ranks of a folder."""

from gradscope.cli.trace_answers import Answers
from gradscope.cli.trace_layout import Pen, ms
from gradscope.core.units import MISSING, format_ms, format_pct


def windows(answers: Answers, pen: Pen) -> list[str]:
    """List a run's windows in order, with the steps that lie between them."""
    rows, last = [], None
    for one in answers.siblings:
        numbers = one.steps.table["number"].to_list()
        mean = None if one.steps.mean is None else one.steps.mean["dur_ns"]
        gap = ""
        if numbers and last is not None and numbers[0] > last + 1:
            gap = f"{numbers[0] - last - 1} not profiled"
        last = numbers[-1] if numbers else last
        span = f"{numbers[0]} to {numbers[-1]}" if numbers else MISSING
        shown = "shown" if one is answers else ""
        rows.append((one.label, span, ms(mean), gap, shown))
    return pen.rows("windows", ("steps", "a step", "before it", ""), rows[-pen.top :])


def ranks(answers: Answers, pen: Pen) -> list[str]:
    """List ranks with their steps and how busy their devices were."""
    rows = []
    for one in answers.siblings:
        found = one.steps
        row = found.mean or next(found.whole.iter_rows(named=True), None)
        if row is None:
            rows.append((one.label, MISSING, *[MISSING] * 4))
            continue
        busy = format_pct(row.get("gpu_busy_pct")) if found.has_device_events else "no device"
        steps = "unknown" if found.count is None else str(found.count)
        host = format_ms((row["cpu_ns"] + row["runtime_ns"]) / 1e6)
        rows.append((one.label, steps, ms(row["dur_ns"]), busy, ms(row["communication_ns"]), host))
    heads = ("steps", "a step", "busy", "communication", "host only")
    return pen.rows("ranks", heads, rows[: pen.top]) + pen.more(len(rows) - pen.top, "ranks")
