"""All about the highlighted run in three lines, whatever columns have room. Pure."""

from collections.abc import Sequence

from gradscope.analysis.listing import age
from gradscope.core.text import display_width, visible
from gradscope.core.units import MISSING, format_rate
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.text import clock, fitted
from gradscope.tui.runs.columns import BY_NAME
from gradscope.tui.runs.view import Entry

LINES = 3


def about(entry: Entry | None, now_wall_ns: int, width: int, glyphs: Glyphs) -> list[Row]:
    """Return what is known of a run: what it is, its numbers or why there are none, where it lies."""
    if entry is None:
        return [() for _ in range(LINES)]
    return [
        (Span(_joined(_identity(entry, now_wall_ns), width, glyphs)),),
        (Span(_joined(_outcome(entry, now_wall_ns), width, glyphs), "" if not entry.reason else "warn"),),
        (Span(_tail(str(entry.path), width, glyphs), "axis"),),
    ]


def _identity(entry: Entry, now_wall_ns: int) -> list[str]:
    row = entry.row
    how_old = age(row.created_wall_ns, now_wall_ns)
    old = "" if how_old == MISSING else "just started" if how_old == "now" else f"{how_old} ago"
    parts = [row.preset, row.model, row.optimizer, entry.strategy, row.device, row.precision, old]
    return [part for part in parts if part]


def _outcome(entry: Entry, now_wall_ns: int) -> list[str]:
    row, run = entry.row, entry.running
    if entry.reason and run is None:
        return [f"{row.status.value}: {entry.reason}", *([entry.hint] if entry.hint else [])]
    parts = []
    if run is not None:
        parts.append(BY_NAME["status"].text(entry, now_wall_ns))
        if run.standing.seconds_left is not None:
            parts.append(f"{clock(run.standing.seconds_left)} left")
        if run.elsewhere:
            parts.append("writes to another output root")
    else:
        parts.append(row.status.value)
    for name in ("loss", "step", "peak"):
        text = BY_NAME[name].text(entry, now_wall_ns)
        if text != MISSING:
            parts.append(f"{name} {text}")
    if row.samples_per_s is not None:
        parts.append(format_rate(row.samples_per_s, "samples"))
    for name, word in (("energy", "a step"), ("gpu", "GPU busy"), ("took", "in all")):
        text = BY_NAME[name].text(entry, now_wall_ns)
        if text != MISSING:
            parts.append(f"{text} {word}")
    return parts


def _joined(parts: Sequence[str], width: int, glyphs: Glyphs) -> str:
    return fitted(f" {glyphs.dot} ".join(parts), width, glyphs.ellipsis)


def _tail(text: str, width: int, glyphs: Glyphs) -> str:
    """Return the end of a path where it does not fit: its last parts say most."""
    shown = visible(text)
    if display_width(shown) <= width:
        return shown
    room = width - display_width(glyphs.ellipsis)
    while display_width(shown) > room:
        shown = shown[max(1, (len(shown) - room) // 2) :]
    return glyphs.ellipsis + shown
