"""Bars that lie: one with its label and figure, several below each other, and one made of shares with a legend."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.tui.charts.axis import joined
from gradscope.tui.charts.cells import Canvas, Row, Span
from gradscope.tui.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class Part:
    """One category of a bar of shares, or one bar of several."""

    label: str
    value: float | None
    role: str
    fill: int = 0
    """Index into `Glyphs.fills`."""
    text: str = ""
    """The value as text, for a person."""


def bar(share: float | None, width: int, glyphs: Glyphs, role: str, *, fill: int = 0) -> Row:
    """Return a bar over `share` (0 to 1) of `width` cells; the rest, and a missing one, is blank."""
    if width < 1:
        return ()
    parts = len(glyphs.eighths) + 1 if fill == 0 else 1
    filled = round(min(1.0, max(0.0, share or 0.0)) * width * parts)
    text = glyphs.fills[fill % len(glyphs.fills)] * (filled // parts)
    if filled % parts:
        text += glyphs.eighths[filled % parts - 1]
    return joined((Span(text, role), Span(" " * (width - len(text)))))


def meter(label: str, share: float | None, text: str, width: int, glyphs: Glyphs, *, role: str = "") -> Row:
    """Return one line: label, bar, figure; the bar takes what room there is, the figure goes last when it is narrow."""
    label, text = _cut(label, width, glyphs), _cut(text, width, glyphs)
    room = width - len(label) - len(text) - 2
    if room < 3 or share is None:
        line = _cut(f"{label} {text}" if label and text else label + text, width, glyphs)
        return joined((Span(line + " " * (width - len(line))),))
    return joined((Span(f"{label} "),), bar(share, room, glyphs, role), (Span(f" {text}"),))


def shares(parts: Sequence[Part], width: int, glyphs: Glyphs, *, total: float | None = None) -> Row:
    """Return one bar of all parts side by side, each in its own fill.

    Args:
        parts: Missing ones and those not above 0 take no cell.
        width: Cells.
        glyphs: Characters to draw with.
        total: What the whole width stands for; by default, the sum of the parts.
    """
    present = [part for part in parts if part.value is not None and part.value > 0]
    whole = max(sum(part.value or 0.0 for part in present), total or 0.0)
    if width < 1:
        return ()
    spans, end, before = [], 0.0, 0
    for part in present:
        end += part.value or 0.0
        cells = round(end / whole * width)
        spans.append(Span(glyphs.fills[part.fill % len(glyphs.fills)] * (cells - before), part.role))
        before = cells
    return joined(tuple(spans), (Span(" " * (width - before)),))


def legend(parts: Sequence[Part], width: int, glyphs: Glyphs) -> Row:
    """Return one line that names each part beside its fill, with its text; those that do not fit are left out."""
    spans: list[Span] = []
    used = 0
    for part in parts:
        name = f" {part.label} {part.text}".rstrip()
        gap = "  " if spans else ""
        if used + len(gap) + 1 + len(name) > width:
            break
        spans += [Span(gap), Span(glyphs.fills[part.fill % len(glyphs.fills)], part.role), Span(name)]
        used += len(gap) + 1 + len(name)
    return joined(tuple(spans), (Span(" " * max(0, width - used)),))


def bars(parts: Sequence[Part], width: int, height: int, glyphs: Glyphs, *, top: float | None = None) -> list[Row]:
    """Return one line a part: label, bar, text, in columns; `height` rows, each `width` wide.

    Args:
        parts: From the top; those beyond `height` are left out.
        width: Cells.
        height: Rows.
        glyphs: Characters to draw with.
        top: The value whose bar takes the whole room; by default the highest one.
    """
    shown = parts[: max(0, height)]
    label_width = min(max((len(part.label) for part in shown), default=0), max(0, width // 3))
    text_width = min(max((len(part.text) for part in shown), default=0), max(0, width - label_width))
    room = width - label_width - text_width - 2
    whole = top or max((part.value or 0.0 for part in shown), default=0.0)
    rows = []
    for part in shown:
        label = f"{_cut(part.label, label_width, glyphs):<{label_width}}"
        text = f"{_cut(part.text, text_width, glyphs):>{text_width}}"
        if room < 1:
            line = f"{label} {text}"[:width]
            rows.append(joined((Span(line + " " * (width - len(line))),)))
            continue
        share = None if part.value is None or not whole else part.value / whole
        rows.append(
            joined((Span(f"{label} "),), bar(share, room, glyphs, part.role, fill=part.fill), (Span(f" {text}"),))
        )
    return rows + Canvas(width, max(0, height - len(rows))).rows()


def _cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Return `text` in at most `width` cells."""
    if len(text) <= width:
        return text
    return text[: width - 1] + glyphs.ellipsis if width > 0 else ""
