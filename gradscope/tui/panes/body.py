"""All panes together: frames, titles, and the lines that stand for the panes that have no room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradscope.tui.charts.axis import joined
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.arrange import Arrangement, Box, arrange
from gradscope.tui.panes.base import Drawn, Look, cut, filled_up, fitted, in_ascii
from gradscope.tui.panes.registry import PANES
from gradscope.tui.view import RunView

FRAME_FROM = 5
"""Height from which a pane has a frame; below it has a title only."""

NAME_CELLS = 7
"""Of a pane's key and name before its line."""

CORNERS = {True: ("┌", "┐", "└", "┘"), False: ("+", "+", "+", "+")}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which panes are shown, and how: all that keys change."""

    active: str = "memory"
    zoomed: bool = False
    off: frozenset[str] = frozenset()
    metric: Mapping[str, int] | None = None
    """By pane; those that are not named show their first."""


@dataclass(frozen=True, slots=True)
class Body:
    """What to show below the header."""

    rows: list[Row]
    log: Box | None
    """Where the log's lines go; they are foreign text and not in `rows`."""
    log_rows: list[Row]
    arrangement: Arrangement


def shown(choice: Choice) -> list[str]:
    """Return the panes that are switched on."""
    return [name for name in PANES if name not in choice.off]


def draw_body(view: RunView, width: int, height: int, look: Look, choice: Choice) -> Body:
    """Draw the panes that are switched on into a rectangle."""
    placed = arrange(shown(choice), choice.active, width, height, zoomed=choice.zoomed)
    if not placed.panes:
        text = Span(" every pane is switched off; 1 to 5 bring them back", "dim")
        return Body(filled_up([(text,)], width, height), None, [], placed)
    grid: list[list[tuple[int, Row]]] = [[] for _ in range(height)]
    log_box, log_rows = None, list[Row]()
    for name, box in placed.panes.items():
        own_look = look_at(name, look, choice)
        inner = inside(box)
        drawn = PANES[name].draw(view, inner.width, inner.height, own_look)
        if name == "log":
            log_box, log_rows = inner, drawn.rows
            drawn = replace(drawn, rows=filled_up((), inner.width, inner.height))
        rows = framed(name, drawn, box, look.glyphs, active=name == choice.active and len(placed.panes) > 1)
        for offset, row in enumerate(rows):
            grid[box.y + offset].append((box.x, row))
    for name, box in placed.meters.items():
        grid[box.y].append((box.x, _line(name, view, box.width, look_at(name, look, choice))))
    rows = [joined(*(row for _, row in sorted(line, key=lambda part: part[0]))) for line in grid]
    return Body([fitted(row, width) for row in rows], log_box, log_rows, placed)


def look_at(name: str, look: Look, choice: Choice) -> Look:
    """Return how one pane is looked at."""
    metric = (choice.metric or {}).get(name, 0)
    return look if metric == look.metric else replace(look, metric=metric)


def inside(box: Box) -> Box:
    """Return what is within a pane's frame."""
    if box.height < FRAME_FROM:
        return Box(box.x, box.y + 1, box.width, max(0, box.height - 1))
    return Box(box.x + 1, box.y + 1, max(0, box.width - 2), box.height - 2)


def framed(name: str, drawn: Drawn, box: Box, glyphs: Glyphs, *, active: bool) -> list[Row]:
    """Put a frame around a pane; the upper edge holds its key, its name, and as many figures as fit."""
    style = "bold" if active else ""
    edge = "" if active else "axis"
    upper_left, upper_right, lower_left, lower_right = CORNERS[glyphs.unicode]
    mark = glyphs.selected if active else glyphs.horizontal
    title = f" {PANES[name].key} {in_ascii(drawn.name, glyphs)} "
    room = box.width - 4
    title = cut(title, room, glyphs)
    figures = _figures(drawn.figures, room - len(title) - 2, glyphs)
    figures = f" {figures} " if figures else ""
    dashes = glyphs.horizontal * max(0, room - len(title) - len(figures))
    top = (
        Span(f"{upper_left}{mark}", edge),
        Span(title, style or "bold"),
        Span(dashes, edge),
        Span(figures),
        Span(f"{glyphs.horizontal}{upper_right}", edge),
    )
    if box.height < FRAME_FROM:
        return [fitted(top, box.width), *drawn.rows][: box.height]
    side = (Span(glyphs.vertical, edge),)
    bottom = (Span(f"{lower_left}{glyphs.horizontal * max(0, box.width - 2)}{lower_right}", edge),)
    rows = [joined(side, row, side) for row in drawn.rows]
    return [fitted(row, box.width) for row in (top, *rows, bottom)]


def _figures(figures: Sequence[str], width: int, glyphs: Glyphs) -> str:
    """Join as many figures as fit; the first one is cut rather than left out."""
    separator = f" {glyphs.dot} "
    kept = [in_ascii(figure, glyphs) for figure in figures]
    while len(kept) > 1 and len(separator.join(kept)) > width:
        kept.pop()
    return cut(separator.join(kept), width, glyphs) if width > 3 else ""


def _line(name: str, view: RunView, width: int, look: Look) -> Row:
    head = f" {PANES[name].key} {SHORT_NAMES[name]}".ljust(NAME_CELLS + 1)
    line = PANES[name].meter(view, max(0, width - len(head) - 1), look)
    return fitted((Span(head, "bold"), *line), width)


SHORT_NAMES = {"memory": "mem", "time": "time", "utilization": "util", "loss": "loss", "log": "log"}
