"""Rows of cells as they are: a panel of text that a pure function laid out."""

from collections.abc import Sequence
from typing import Any

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.charts.cells import Row
from gradscope.tui.widgets.styles import role_style


class Rows(Widget):
    """Shows rows; what does not fit is cut. Only rows that changed are drawn again."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rows: tuple[Row, ...] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Show these."""
        before, self.rows = self.rows, tuple(rows)
        for y in range(max(len(before), len(self.rows))):
            if before[y : y + 1] != self.rows[y : y + 1] and y < self.size.height:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return one line of cells."""
        base = self.rich_style
        if y >= len(self.rows):
            return Strip.blank(self.size.width, base)
        segments = [Segment(span.text, base + role_style(span.style, self.app)) for span in self.rows[y]]
        return Strip(segments).adjust_cell_length(self.size.width, base)
