"""The memory section of `gradscope trace`: the peak of each device, and what was alive then."""

from gradscope.cli.trace_layout import INDENT, Pen, pct
from gradscope.core.text import visible
from gradscope.core.units import format_bytes, format_count
from gradscope.trace.answers import Answers
from gradscope.trace.memory_timeline import DeviceMemory

OUTSIDE = "(outside of operators)"


def memory(answers: Answers, pen: Pen) -> list[str]:
    """Say what was allocated at the most, and by whom."""
    found = answers.memory
    if found.missing is not None:
        return pen.missing("memory", found.missing)
    lines: list[str] = []
    for device in found.devices:
        lines += _device(device, pen, answers.of_all)
    return lines


def _device(device: DeviceMemory, pen: Pen, of_all: str) -> list[str]:
    least = ", relative to the window's start" if device.relative else ""
    step = "" if device.peak_step is None else f" in step {device.peak_step}"
    reserved = None if device.reserved_peak_bytes is None else f"reserved {format_bytes(device.reserved_peak_bytes)}"
    title = f"memory of {visible(device.device)}, peak {format_bytes(device.peak_bytes)}{step}{least}{of_all}"
    per_step = None
    if device.bytes_per_step is not None and device.allocations_per_step is not None:
        per_step = (
            f"a step allocates {format_bytes(device.bytes_per_step)} in "
            f"{format_count(round(device.allocations_per_step))} blocks"
        )
    stays = int(device.never_freed["bytes"].sum() or 0)
    kept = f"{format_bytes(stays)} not freed in the window" if stays else None
    lines = pen.wrapped(title, "", INDENT)
    lines += pen.wrapped(pen.joined(reserved, per_step, kept)) if (reserved or per_step or kept) else []
    rows = []
    for row in device.alive_at_peak.head(pen.top).iter_rows(named=True):
        asked, inner = row["asked_by"], row["operator"]
        rows.append(
            (
                asked or inner or OUTSIDE,
                str(row["count"]),
                pct(row["bytes"], device.peak_bytes),
                format_bytes(row["bytes"]),
            )
        )
    if device.older_at_peak_bytes:
        older = device.older_at_peak_bytes
        rows.append(("(born before the window)", "", pct(older, device.peak_bytes), format_bytes(older)))
    if rows:
        lines += pen.rows(f"{INDENT}alive at the peak, by operator", ("blocks", "share", "size"), rows)
    lines += pen.more(device.alive_at_peak.height - pen.top, "operators")
    lines += [line for note in device.notes for line in pen.note(note.message, note.count)]
    return lines
