"""A table to move in, sort and filter: it draws only the lines that are seen, however many there are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.charts.cells import Row
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.results.table import Column, head, layout, line, matching, sorted_rows
from gradscope.tui.widgets.styles import role_style


class TableView(Widget, can_focus=True):
    """Rows of any kind under sortable columns."""

    BINDING_GROUP_TITLE = "table"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "more", key_display="enter", tooltip="What there is behind the highlighted row"),
        Binding("s", "sort(1)", "sort", tooltip="Sort by the next column; its title has an arrow"),
        Binding("S", "sort(-1)", "sort back", show=False, tooltip="Sort by the column before"),
        Binding("r", "reverse", "reverse", show=False, tooltip="Turn the order around"),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "a page up", show=False),
        Binding("pagedown", "page(1)", "a page down", show=False),
        Binding("home", "edge(-1)", "first", show=False),
        Binding("end", "edge(1)", "last", show=False),
    ]
    DEFAULT_CSS = """
    TableView { height: 1fr; }
    TableView .table--focused {
        color: $block-cursor-foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    TableView .table--highlighted {
        color: $block-cursor-blurred-foreground; background: $block-cursor-blurred-background;
        text-style: $block-cursor-blurred-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--focused", "table--highlighted"}

    @dataclass
    class Moved(Message):
        """Another row is highlighted."""

        table: "TableView"

        @property
        def control(self) -> "TableView":
            """The table."""
            return self.table

    @dataclass
    class Chosen(Message):
        """A row was chosen."""

        table: "TableView"
        row: Any

        @property
        def control(self) -> "TableView":
            """The table."""
            return self.table

    def __init__(self, glyphs: Glyphs, **options: Any) -> None:
        super().__init__(**options)
        self._glyphs = glyphs
        self.columns: Sequence[Column] = ()
        self.rows: list[Any] = []
        """What is listed: filtered and sorted."""
        self.all_rows: Sequence[Any] = ()
        self.sorted_by = 0
        self.reversed = False
        self.words = ""
        self.cursor = 0
        self._top = 0
        self._key: Callable[[Any], Any] = id

    @property
    def row(self) -> Any | None:
        """The highlighted row; `None` in an empty table."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def show(
        self, columns: Sequence[Column], rows: Sequence[Any], *, sorted_by: int = 0, key: Callable[[Any], Any] = id
    ) -> None:
        """List these rows; order and filter stay if the columns do.

        Args:
            columns: Left to right.
            rows: One object a row.
            sorted_by: Index of the column that they are sorted by at first.
            key: What a row is told by: the highlight stays with it.
        """
        if [column.title for column in columns] != [column.title for column in self.columns]:
            self.sorted_by, self.reversed, self.cursor, self._top = sorted_by, False, 0, 0
        self.columns, self.all_rows, self._key = columns, rows, key
        self._arrange()

    def filter(self, words: str) -> None:
        """List only rows whose names hold these words."""
        self.words = words
        self._arrange()

    def _arrange(self, *, follow: bool = True) -> None:
        before = self._key(self.row) if self.row is not None else None
        rows = matching(self.all_rows, self.columns, self.words) if self.columns else []
        self.rows = sorted_rows(rows, self.columns[self.sorted_by], reverse=self.reversed) if rows else []
        found = next((place for place, row in enumerate(self.rows) if self._key(row) == before), None)
        self.cursor = found if found is not None and follow else min(self.cursor, max(0, len(self.rows) - 1))
        self._scroll()
        self.refresh()
        self.post_message(self.Moved(self))

    # keys

    def action_choose(self) -> None:
        """Take the highlighted row."""
        if self.row is not None:
            self.post_message(self.Chosen(self, self.row))

    def action_sort(self, by: int) -> None:
        """Sort by another column, from the top."""
        if self.columns:
            self.sorted_by, self.reversed = (self.sorted_by + by) % len(self.columns), False
            self.cursor = 0
            self._arrange(follow=False)

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.reversed = not self.reversed
        self.cursor = 0
        self._arrange(follow=False)

    def action_move(self, by: int) -> None:
        """Highlight another row."""
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move by what is seen at once."""
        self._go(self.cursor + by * max(1, self.size.height - 2))

    def action_edge(self, to: int) -> None:
        """Go to the first or last row."""
        self._go(0 if to < 0 else len(self.rows) - 1)

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a click on the highlighted row chooses it."""
        place = event.get_content_offset(self)
        index = -1 if place is None or place.y < 1 else self._top + place.y - 1
        if index == self.cursor:
            self.action_choose()
        elif 0 <= index < len(self.rows):
            self._go(index)

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self._go(self.cursor + 3)

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self._go(self.cursor - 3)

    def on_resize(self) -> None:
        """Keep the highlighted row in sight."""
        self._scroll()
        self.refresh()

    def on_focus(self) -> None:
        """Mark the highlighted row."""
        self.refresh()

    def on_blur(self) -> None:
        """Mark it less."""
        self.refresh()

    def _go(self, place: int) -> None:
        place = max(0, min(len(self.rows) - 1, place))
        if place != self.cursor and self.rows:
            self.cursor = place
            self._scroll()
            self.refresh()
            self.post_message(self.Moved(self))

    def _scroll(self) -> None:
        height = max(1, self.size.height - 1)
        self._top = max(min(self._top, self.cursor), self.cursor - height + 1)
        self._top = max(0, min(self._top, len(self.rows) - height))

    # drawing

    def render_line(self, y: int) -> Strip:
        """Return one line: the titles, or a row."""
        width, base = self.size.width, self.rich_style
        places = layout(self.columns, width, self.sorted_by)
        if y == 0:
            mark = self.columns[self.sorted_by] if self.columns else None
            up = mark is not None and mark.ascending != self.reversed
            return self._strip(head(places, width, self._glyphs, mark, up=up), base)
        index = self._top + y - 1
        if not 0 <= index < len(self.rows):
            return Strip.blank(width, base)
        row = line(self.rows[index], places, width, self._glyphs)
        if index != self.cursor:
            return self._strip(row, base)
        name = "table--focused" if self.has_focus else "table--highlighted"
        base += self.get_component_rich_style(name, partial=True)
        return Strip([Segment(span.text, base) for span in row]).adjust_cell_length(width, base)

    def _strip(self, row: Row, base: Any) -> Strip:
        segments = [Segment(span.text, base + role_style(span.style, self.app)) for span in row]
        return Strip(segments).adjust_cell_length(self.size.width, base)
