"""What all panes share: how they are looked at, what they return, and text cut to cells.

A pane is two pure functions over a `RunView`: `draw` fills a rectangle, `meter` says the same in one line.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradscope.core.text import visible
from gradscope.tui.charts.axis import joined
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.kept import Kept
from gradscope.tui.view import RunView


@dataclass(frozen=True, slots=True)
class Look:
    """How a pane is looked at: all that keys change."""

    glyphs: Glyphs
    cursor: int | None = None
    """The step under the cursor; `None` follows the newest."""
    window: tuple[int, int] | None = None
    """First step in the charts, and how many; `None` shows the whole run."""
    logarithmic: bool = False
    metric: int = 0
    """Which of its metrics the pane shows; any number, taken modulo how many there are."""
    device: int = 0
    """Which card the utilization is of, counted from the run's own."""
    back: int = 0
    """Lines that the log is scrolled back by."""
    kept: Kept = field(default_factory=Kept, compare=False)
    """Bins and axes of the frames before."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A pane's content: what stands in its frame's upper edge, and the rows within."""

    name: str
    """Left in the edge: the pane's name and what of it is shown."""
    figures: tuple[str, ...]
    """Right in the edge, the most important first; what does not fit is left out from the end."""
    rows: list[Row]
    """Exactly as many as asked for, each exactly as wide."""


Draw = Callable[[RunView, int, int, Look], Drawn]
Meter = Callable[[RunView, int, Look], Row]
Metrics = Callable[[RunView], Sequence[str]]


def only_one(view: RunView) -> Sequence[str]:
    """Of a pane that shows one thing only."""
    return ()


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane of the live screen."""

    name: str
    key: str
    draw: Draw
    meter: Meter
    metrics: Metrics = only_one
    """Names of what `next metric` goes through."""


def chosen(names: Sequence[str], index: int) -> str:
    """Return the metric that is shown."""
    return names[index % len(names)]


def one_cell(text: str) -> str:
    """Return text of which every character takes one cell: control characters written out, wide ones a `?`.

    Foreign text that stands among charts goes through here; the log shows it as it is.
    """
    return "".join(
        ""
        if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf")
        else "?"
        if unicodedata.east_asian_width(char) in "WF"
        else char
        for char in visible(text)
    )


def in_ascii(text: str, glyphs: Glyphs) -> str:
    """Return our own text for a terminal that may not show more than ASCII."""
    if glyphs.unicode:
        return text
    return text.translate(_TO_ASCII).encode("ascii", "replace").decode()


_TO_ASCII = str.maketrans({"·": "-", "×": "x", "→": "->", "–": "-", "…": "~", "°": " ", "Δ": "d"})  # noqa: RUF001


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Return `text` in at most `width` cells, an ellipsis at its end where some is left out."""
    if len(text) <= width:
        return text
    return text[: width - 1] + glyphs.ellipsis if width > 0 else ""


def fitted(spans: Sequence[Span], width: int) -> Row:
    """Return spans cut or filled up to exactly `width` cells, neighbours of one style merged."""
    room = width
    kept: list[Span] = []
    for span in spans:
        if len(span.text) >= room:
            kept.append(span if len(span.text) == room else Span(span.text[: max(0, room)], span.style))
            room = 0
            break
        kept.append(span)
        room -= len(span.text)
    return joined((*kept, Span(" " * room)))


def blank(width: int) -> Row:
    """Return an empty row."""
    return fitted((), width)


def filled_up(rows: Sequence[Sequence[Span]], width: int, height: int) -> list[Row]:
    """Return exactly `height` rows of exactly `width` cells."""
    kept = [fitted(row, width) for row in rows[:height]]
    return kept + [blank(width)] * (height - len(kept))


def message(text: str, width: int, height: int, glyphs: Glyphs, style: str = "dim") -> list[Row]:
    """Return a rectangle with a few words in its middle, wrapped."""
    lines = wrapped(in_ascii(text, glyphs), width - 4)[: max(0, height)]
    above = max(0, (height - len(lines)) // 2)
    middle = [(Span(" " * max(0, (width - len(line)) // 2)), Span(line, style)) for line in lines]
    return filled_up([*[()] * above, *middle], width, height)


def wrapped(text: str, width: int) -> list[str]:
    """Break text into lines of at most `width` cells, between words where that can be."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        rest = word
        if line and len(line) + 1 + len(rest) <= width:
            line = f"{line} {rest}"
            continue
        if line:
            lines.append(line)
        while len(rest) > max(1, width):
            lines.append(rest[: max(1, width)])
            rest = rest[max(1, width) :]
        line = rest
    return [*lines, line] if line else lines
