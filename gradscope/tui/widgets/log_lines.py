"""Rows of foreign text over a plot: of all rows of cells, only these may hold characters two cells wide."""

from collections.abc import Sequence
from typing import Any

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.charts.cells import Row
from gradscope.tui.widgets.styles import backdrop, role_style


class LogLines(Widget):
    """Lies over other widgets, wherever it is put, and repaints only rows that changed."""

    DEFAULT_CSS = """
    LogLines { position: absolute; layer: above; display: none; }
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._rows: list[Row] = []

    def place(self, x: int, y: int, width: int, height: int) -> None:
        """Lie over these cells of the parent."""
        self.styles.offset = (x, y)
        self.styles.width = width
        self.styles.height = height
        self.display = width > 0 and height > 0

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows from the top; each is cut to the width."""
        before, self._rows = self._rows, list(rows)
        for y in range(max(len(before), len(rows))):
            if before[y : y + 1] != self._rows[y : y + 1]:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        under = backdrop(self)
        row = self._rows[y] if y < len(self._rows) else ()
        segments = [Segment(span.text, under + role_style(span.style, self.app)) for span in row if span.text]
        return Strip(segments).adjust_cell_length(self.size.width, under)

    def get_line_filters(self) -> Sequence[Any]:
        """None: the styles are those that this terminal has."""
        return ()
