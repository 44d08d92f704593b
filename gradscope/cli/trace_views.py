"""The sections of `gradscope trace`, each a function from answers to lines: what a person reads first on top."""

import polars as pl

from gradscope.cli.trace_layout import GAP, INDENT, Pen, kernel_name, ms, ms_or_zero, no_device, pct
from gradscope.core.text import display_width
from gradscope.core.units import MISSING, format_bytes, format_number_of, format_pct
from gradscope.trace.answers import Answers

PART_LABELS = {
    "compute": "kernels",
    "memcpy": "copies",
    "memset": "fills",
    "communication": "communication",
    "runtime": "runtime calls",
    "dataloader": "data loading",
    "cpu": "operators on the CPU",
    "other": "other",
}
"""Parts of a step's time, in the order in which one hides another."""
STEP_COLUMNS = {
    "kernels": ("compute",),
    "comm.": ("communication",),
    "copies": ("memcpy", "memset"),
    "runtime": ("runtime",),
    "data": ("dataloader",),
    "operators": ("cpu",),
    "other": ("other",),
}
"""Parts of a step by the column that they stand in."""
NARROW_COLUMNS = {
    **{head: STEP_COLUMNS[head] for head in ("kernels", "comm.", "copies")},
    "host": ("runtime", "dataloader", "cpu"),
    "other": ("other",),
}
"""The same where a terminal has no room for all of them."""
STEP_NAMES = "ProfilerStep"
"""Marks of steps, which torch counts among the operators."""
OPERATORS_MEAN = (
    "share: of the time in which the host was in a step or a call; host: each call whole, so that one inside a call of "
    "its own name counts in both, as torch has it (once where it is all that the outer one called)"
)
NO_STEPS = "unknown, no ProfilerStep marks in {}"
MARK_STEPS = " (call prof.step() in the loop)"


def overview(answers: Answers, pen: Pen) -> list[str]:
    """Say where a step's time went."""
    found = answers.steps
    if found.whole.is_empty():
        return pen.missing("overview", "no work was recorded")
    if answers.step is not None:
        row = found.table.filter(pl.col("number") == answers.step).sum().row(0, named=True)  # it may be marked twice
        title, per = f"overview of step {answers.step}", "time"
    elif found.mean is not None:
        row = found.mean
        title, per = f"overview, mean of {format_number_of(found.complete_count, 'step')}", "a step"
    else:
        row = found.whole.row(0, named=True)
        title, per = "overview of the whole trace", "time"
    whole = row["dur_ns"]
    rows = []
    for part, label in PART_LABELS.items():
        time_ns = row[f"{part}_ns"]
        if time_ns or part in ("cpu", "other"):
            rows.append((label, pen.bar(time_ns / whole if whole else None), pct(time_ns, whole), ms(time_ns)))
    rows.append(("all", "", "", ms(whole)))
    lines = pen.rows(title, ("", "share", per), rows, left=2)
    return lines + _busy(answers, pen)


def _busy(answers: Answers, pen: Pen) -> list[str]:
    """Say how busy the devices were: a union of kernels, so never more than all the time."""
    found = answers.steps
    if not found.has_device_events:
        return pen.wrapped(f"{no_device(answers.trace)}: nothing is said of a GPU")
    lines = []
    if answers.step is not None:
        for row in found.devices.filter(pl.col("number") == answers.step).iter_rows(named=True):
            text = f"busy {format_pct(row['busy_pct'])} of the step, {ms(row['busy_ns'])}"
            lines += pen.wrapped(f"device {row['device']}: {text}")
        return lines[: pen.top]
    for row in found.totals.iter_rows(named=True):
        share = "" if row["in_steps_pct"] is None else f"busy {format_pct(row['in_steps_pct'])} of the steps' time, "
        raw = f" (sum {ms(row['raw_sum_ns'])})" if row["raw_sum_ns"] > row["union_ns"] else ""
        kernels = format_number_of(row["kernels"], "kernel")
        lines += pen.wrapped(f"device {row['device']}: {share}{kernels}, {ms(row['union_ns'])}{raw}")
    return lines[: pen.top]


def steps(answers: Answers, pen: Pen) -> list[str]:
    """List steps, with what is wrong with each: what stands in a row beside `busy` adds up to its time."""
    found = answers.steps
    if found.count is None:
        return pen.missing(
            "steps", NO_STEPS.format(answers.trace.extent) + ("" if answers.trace.cut_at else MARK_STEPS)
        )
    if not found.count:
        return []
    table = found.table if answers.step is None else found.table.filter(found.table["number"] == answers.step)
    device = found.has_device_events
    for columns, busy in ((STEP_COLUMNS, device), (STEP_COLUMNS, False), (NARROW_COLUMNS, False)):
        heads, rows = _step_cells(table, columns, pen, busy=busy)
        widths = [max(map(display_width, column)) for column in zip(("eps", *heads), *rows, strict=True)]
        if len(INDENT) + sum(widths) + len(GAP) * len(heads) <= pen.width:
            break
    return pen.rows("steps", heads, rows) + pen.more(table.height - pen.top, "steps")


def _step_cells(
    table: pl.DataFrame, columns: dict[str, tuple[str, ...]], pen: Pen, *, busy: bool
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and rows of the steps that are shown; a column only where one of all steps has something in it."""
    sums = {head: pl.sum_horizontal(f"{part}_ns" for part in parts) for head, parts in columns.items()}
    times = table.select(**sums)
    shown = [head for head in columns if head == "other" or times[head].sum()]
    rows: list[tuple[str, ...]] = []
    last_window: int | None = None
    for row, time in zip(table.head(pen.top).iter_rows(named=True), times.iter_rows(named=True), strict=False):
        gap = "new window" if last_window not in (None, row["window"]) else None
        last_window = row["window"]
        lost = format_number_of(row["lost_kernels"], "lost kernel") if row["lost_kernels"] else None
        remark = pen.joined(lost, gap, None if row["complete"] or lost else "no mean")
        cells = [format_pct(row["gpu_busy_pct"])] if busy else []
        cells += [ms_or_zero(time[head]) for head in shown]
        rows.append((str(row["number"]), ms(row["dur_ns"]), *cells, remark))
    heads = ["time", *(["busy"] if busy else []), *shown]
    return ([*heads, ""], rows) if any(row[-1] for row in rows) else (heads, [row[:-1] for row in rows])


def operators(answers: Answers, pen: Pen) -> list[str]:
    """List operators by their own time on the host."""
    table = answers.operators
    table = table.filter(~pl.col("name").str.starts_with(STEP_NAMES))
    if table.is_empty():
        return pen.missing("operators", "none in this trace")
    device, has_memory = answers.has_device, table["self_memory_bytes"].null_count() < table.height
    heads = ["calls", "self host", "share", "host"]
    heads += ["device"] if device else []
    heads += ["memory"] if has_memory else []
    rows = []
    for row in table.head(pen.top).iter_rows(named=True):
        cells = [
            str(row["calls"]),
            ms(row["self_host_ns"]),
            pct(row["self_host_ns"], answers.host_time_ns),
            ms(row["host_ns"]),
        ]
        cells += [ms_or_zero(row["self_device_ns"])] if device else []
        cells += [format_bytes(row["self_memory_bytes"])] if has_memory else []
        rows.append((_operator(row), *cells))
    title = "operators" if answers.step is None else f"operators, step {answers.step}"
    lines = pen.rows(title, heads, rows) + pen.more(table.height - pen.top, "operators")
    return lines + (pen.wrapped(OPERATORS_MEAN) if pen.detailed else [])


def _operator(row: dict[str, object]) -> str:
    """Return what stands for a row: the name, and by what it is told apart."""
    name, shapes, stack = str(row["name"] or ""), row.get("shapes"), row.get("stack")
    if isinstance(stack, list):
        return f"{name} {stack[0]}" if stack else name
    return f"{name} {shapes}" if shapes else name


def kernels(answers: Answers, pen: Pen) -> list[str]:
    """List kernels, copies and fills by their time."""
    if not answers.has_device:
        return pen.missing("kernels", no_device(answers.trace))
    table = answers.kernels
    whole = int(table["total_ns"].sum() or 0)
    occupied = table["occupancy_pct"].null_count() < table.height
    late = table.height > 0 and bool((table["stamped_ns"] > table["total_ns"]).any())
    heads = ["calls", "time", *(["stamped"] if late else []), "share", "mean", *(["occup."] if occupied else []), "TC"]
    rows = []
    for row in table.head(pen.top).iter_rows(named=True):
        cells = [
            str(row["calls"]),
            ms(row["total_ns"]),
            *([ms(row["stamped_ns"])] if late else []),
            pct(row["total_ns"], whole),
            ms(row["mean_ns"]),
        ]
        cells += [MISSING if row["occupancy_pct"] is None else f"{row['occupancy_pct']:.0f} %"] if occupied else []
        cells.append({True: "yes", False: "no", None: ""}[row["tensor_cores"]])
        rows.append((kernel_name(row["name"]), *cells))
    title = "kernels" if answers.step is None else f"kernels, step {answers.step}"
    return pen.rows(title, heads, rows) + pen.more(table.height - pen.top, "kernels")


def modules(answers: Answers, pen: Pen) -> list[str]:
    """List modules by path."""
    found = answers.modules
    if found.frame.is_empty():
        return pen.missing("modules", "; ".join(note.message for note in found.notes))
    device = answers.has_device
    heads = ["calls", "self host", "host", *(["device"] if device else [])]
    rows = []
    for row in found.frame.head(pen.top).iter_rows(named=True):
        cells = [MISSING if row["calls"] is None else str(row["calls"]), ms(row["self_host_ns"]), ms(row["host_ns"])]
        cells += [ms_or_zero(row["device_ns"])] if device else []
        rows.append(("  " * row["level"] + row["module"], *cells))
    title = "modules" if answers.step is None else f"modules, step {answers.step}"
    return pen.rows(title, heads, rows) + pen.more(found.frame.height - pen.top, "modules")
