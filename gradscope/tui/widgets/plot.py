"""A rectangle of cells that sends only what changed.

    plot = Plot()
    plot.show(rows)      # exactly as a chart returned them

It is made of tiles, since textual sends a row of a widget from the widget's left edge up to what changed.
"""

from collections.abc import Sequence
from typing import Any

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.charts.cells import Row
from gradscope.tui.widgets.styles import backdrop, strip_of

TILE = 8
"""Columns of a tile at most."""


Line = tuple[str, list[str]]
"""A row's characters, and a style for each."""


class Plot(Widget):
    """Shows rows of cells; a new picture repaints only tiles in which cells changed, and of them only those rows."""

    DEFAULT_CSS = """
    Plot { height: 1fr; }
    """

    class Resized(Message):
        """The plot has another size, and wants rows of it."""

        def __init__(self, plot: "Plot", size: Size) -> None:
            super().__init__()
            self.plot = plot
            self.size = size

        @property
        def control(self) -> "Plot":
            """The plot."""
            return self.plot

    def __init__(self, rows: Sequence[Row] = (), **options: Any) -> None:
        """`rows` to begin with."""
        super().__init__(**options)
        self._given: list[Row] = list(rows)
        self._lines = [_expanded(row) for row in rows]
        self._tiles: list[Tile] = []
        self._tile_layout = _TileLayout()

    @property
    def layout(self) -> Layout:
        """Tiles side by side."""
        return self._tile_layout

    def compose(self) -> ComposeResult:
        """As many tiles as the terminal could need for this plot now; more come when it grows."""
        self._tiles = [Tile(self, index * TILE) for index in range(-(-self.app.size.width // TILE))]
        yield from self._tiles

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; what does not fit is cut, what is missing is blank."""
        width, height = self.size
        for y in range(max(len(rows), len(self._given))):
            new = rows[y] if y < len(rows) else ()
            old = self._given[y] if y < len(self._given) else ()
            if new is old or new == old:
                continue
            before, after = self._lines[y] if y < len(self._lines) else _expanded(()), _expanded(new)
            if y < len(self._lines):
                self._lines[y] = after
            else:
                self._lines.append(after)
            if y < height:
                self._compare(y, _padded(before, width), _padded(after, width), width)
        del self._lines[len(rows) :]
        self._given = list(rows)
        for tile in self._tiles:
            tile.repaint()

    def _compare(self, y: int, before: Line, after: Line, width: int) -> None:
        """Tell tiles which of their cells changed in a row."""
        for index, tile in enumerate(self._tiles):
            start = index * TILE
            stop = width if tile is self._tiles[-1] else start + TILE
            if before[0][start:stop] != after[0][start:stop] or before[1][start:stop] != after[1][start:stop]:
                tile.changed(y, _last_change(before, after, start, min(stop, width)) - start + 1)

    def cells(self, y: int, start: int, stop: int) -> Line:
        """Return characters and styles of a part of a row, blank where there are none."""
        chars, styles = self._lines[y] if y < len(self._lines) else _expanded(())
        return _padded((chars[start:stop], styles[start:stop]), stop - start)

    def on_resize(self, event: events.Resize) -> None:
        """Have tiles for the whole width, and ask for rows."""
        missing = -(-event.size.width // TILE) - len(self._tiles)
        if missing > 0:
            more = [Tile(self, (len(self._tiles) + index) * TILE) for index in range(missing)]
            self._tiles += more
            self.mount(*more)
        self.post_message(self.Resized(self, event.size))


class Tile(Widget):
    """At most `TILE` columns of a plot."""

    DEFAULT_CSS = """
    Tile { width: auto; height: auto; }
    """

    ALLOW_SELECT = False

    def __init__(self, plot: Plot, left: int) -> None:
        """`left` is its first column in the plot."""
        super().__init__()
        self._plot = plot
        self._left = left
        self._dirty: list[Region] = []
        self._under: Style | None = None

    def changed(self, y: int, columns: int) -> None:
        """Take note that some of the first so many cells of a row changed."""
        self._dirty.append(Region(0, y, columns, 1))

    def repaint(self) -> None:
        """Send what changed."""
        if self._dirty:
            self.refresh(*self._dirty)
            self._dirty = []

    def notify_style_update(self) -> None:
        """Another theme."""
        self._under = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """Return one line of the tile."""
        if self._under is None:
            self._under = backdrop(self)
        chars, styles = self._plot.cells(y, self._left, self._left + self.size.width)
        return strip_of(chars, styles, self.app, self._under)

    def get_line_filters(self) -> Sequence[Any]:
        """None: `strip_of` has chosen the colours that this terminal has."""
        return ()


class _TileLayout(Layout):
    """Puts tiles side by side; those that are beyond the plot's width are nowhere."""

    name = "tiles"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Place as many as fit; the last one there is takes all that is left."""
        parent.pre_layout(self)
        placements = []
        for index, tile in enumerate(children):
            left = index * TILE
            if left >= size.width:
                break
            width = size.width - left if index == len(children) - 1 else min(TILE, size.width - left)
            region = Region(left, 0, width, size.height)
            placements.append(WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, tile))
        return placements


def _expanded(row: Row) -> Line:
    """Return a row as cells."""
    chars = "".join(span.text for span in row)
    return chars, [span.style for span in row for _ in span.text]


def _padded(line: Line, length: int) -> Line:
    """Return a line filled up with blanks."""
    missing = length - len(line[0])
    return (line[0] + " " * missing, line[1] + [""] * missing) if missing > 0 else line


def _last_change(before: Line, after: Line, start: int, stop: int) -> int:
    """Return the last column in which two rows differ."""
    for x in range(stop - 1, start, -1):
        if before[0][x : x + 1] != after[0][x : x + 1] or before[1][x : x + 1] != after[1][x : x + 1]:
            return x
    return start
