"""The list of runs to move in, sort, filter and mark: it draws only the lines that are seen, however many there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.text import fitted
from gradscope.tui.runs.columns import CYCLE, USUAL, Column, sorted_entries
from gradscope.tui.runs.filter import Filter, chosen
from gradscope.tui.runs.layout import Layout, head, laid_out, line, widths_of
from gradscope.tui.runs.view import Entry
from gradscope.tui.widgets.styles import role_style


class RunTable(Widget, can_focus=True):
    """Runs under columns that sort them."""

    BINDING_GROUP_TITLE = "list"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "open", key_display="enter", tooltip="Watch the run, or see its results"),
        Binding("space", "mark", "mark", key_display="space", tooltip="Mark the run, to compare or delete several"),
        Binding("asterisk", "mark_all", "mark all", key_display="*", show=False, tooltip="Mark all that are listed"),
        Binding("u", "unmark", "unmark all", show=False, tooltip="Take all marks away"),
        Binding("s", "sort(1)", "sort", tooltip="Sort by the next column; its title has an arrow"),
        Binding("S", "reverse", "reverse", show=False, tooltip="Turn the order around"),
        Binding("1", "sort_by(1)", "sort by it", key_display="1-9", show=False, tooltip="Sort by that column"),
        *(Binding(f"{number}", f"sort_by({number})", show=False) for number in range(2, 10)),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "a page up", show=False),
        Binding("pagedown", "page(1)", "a page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
    ]
    DEFAULT_CSS = """
    RunTable { height: 1fr; }
    RunTable .table--focused {
        color: $block-cursor-foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    RunTable .table--highlighted {
        color: $block-cursor-blurred-foreground; background: $block-cursor-blurred-background;
        text-style: $block-cursor-blurred-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--focused", "table--highlighted"}

    @dataclass
    class Changed(Message):
        """Another run is highlighted, or others are listed, sorted or marked."""

    @dataclass
    class Chosen(Message):
        """A run was chosen."""

        entry: Entry

    def __init__(self, glyphs: Glyphs, **options: Any) -> None:
        super().__init__(**options)
        self._glyphs = glyphs
        self._now_wall_ns = 0
        self._all: Sequence[Entry] = ()
        self._wanted = Filter()
        self._widths: dict[str, int] = {}
        self._top = 0
        self.entries: list[Entry] = []
        """What is listed: filtered and sorted."""
        self.cursor = 0
        self.sorted_by: Column = USUAL
        self.reversed = False
        self.marked: dict[str, None] = {}
        """Paths of marked runs, in the order in which they were marked."""
        self.empty = ""
        """Said where nothing is listed."""

    @property
    def entry(self) -> Entry | None:
        """The highlighted run; `None` in an empty list."""
        return self.entries[self.cursor] if 0 <= self.cursor < len(self.entries) else None

    @property
    def marked_entries(self) -> list[Entry]:
        """Marked runs in the order in which they were marked, also those that are not listed now."""
        by_path = {entry.row.path: entry for entry in self._all}
        return [by_path[path] for path in self.marked]

    def show(self, entries: Sequence[Entry], now_wall_ns: int) -> None:
        """List these runs; order, filter and marks stay, and the highlight stays with its run."""
        self._all, self._now_wall_ns = entries, now_wall_ns
        self._widths = widths_of(entries)
        there = {entry.row.path for entry in entries}
        self.marked = {path: None for path in self.marked if path in there}
        self._arrange(follow=True)

    def grow_older(self, now_wall_ns: int) -> None:
        """Show the ages of now."""
        self._now_wall_ns = now_wall_ns
        self.refresh()

    def filter(self, wanted: Filter) -> None:
        """List only runs that fit."""
        self._wanted = wanted
        self._arrange(follow=True)

    def _arrange(self, *, follow: bool) -> None:
        before = self.entry.row.path if self.entry is not None else None
        fitting = chosen(self._all, self._wanted, self._now_wall_ns)
        self.entries = sorted_entries(fitting, self.sorted_by, self._now_wall_ns, reverse=self.reversed)
        found = next((at for at, entry in enumerate(self.entries) if entry.row.path == before), None)
        stays = min(self.cursor, max(0, len(self.entries) - 1))
        self.cursor = (found if found is not None else stays) if follow else 0
        self._scroll()
        self.refresh()
        self.post_message(self.Changed())

    # keys

    def action_choose(self) -> None:
        """Open the highlighted run."""
        if self.entry is not None:
            self.post_message(self.Chosen(self.entry))

    def action_mark(self) -> None:
        """Mark the highlighted run, or take its mark away, and go on to the next."""
        if self.entry is None:
            return
        path = self.entry.row.path
        if path in self.marked:
            del self.marked[path]
        else:
            self.marked[path] = None
        self._go(self.cursor + 1)
        self.refresh()
        self.post_message(self.Changed())

    def action_mark_all(self) -> None:
        """Mark all runs that are listed."""
        self.marked.update(dict.fromkeys(entry.row.path for entry in self.entries))
        self.refresh()
        self.post_message(self.Changed())

    def action_unmark(self) -> None:
        """Take all marks away."""
        self.marked.clear()
        self.refresh()
        self.post_message(self.Changed())

    def action_sort(self, by: int) -> None:
        """Sort by the next column, from the top; also by one that has no room, which gets it then."""
        columns = [column for column in CYCLE if column.name in self._widths]
        if columns:
            self._sort((columns.index(self.sorted_by) + by) % len(columns), columns)

    def action_sort_by(self, number: int) -> None:
        """Sort by a column that is shown, counted from the left; once more turns the order around."""
        shown = [column for column, _ in self.layout_now.places]
        if number <= len(shown):
            self._sort(number - 1, shown)

    def _sort(self, at: int, columns: Sequence[Column]) -> None:
        again = columns[at] is self.sorted_by
        self.sorted_by, self.reversed = columns[at], again and not self.reversed
        self._arrange(follow=False)

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.reversed = not self.reversed
        self._arrange(follow=False)

    def action_move(self, by: int) -> None:
        """Highlight another run."""
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move by what is seen at once."""
        self._go(self.cursor + by * max(1, self.size.height - 2))

    def action_edge(self, to: int) -> None:
        """Go to the first or last run."""
        self._go(0 if to < 0 else len(self.entries) - 1)

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a click on the highlighted run opens it."""
        place = event.get_content_offset(self)
        index = -1 if place is None or place.y < 1 else self._top + place.y - 1
        if index == self.cursor:
            self.action_choose()
        elif 0 <= index < len(self.entries):
            self._go(index)

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self._go(self.cursor + 3)

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self._go(self.cursor - 3)

    def on_resize(self) -> None:
        """Keep the highlighted run in sight."""
        self._scroll()
        self.refresh()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Mark the highlighted run more with the focus."""
        super().watch_has_focus(has_focus)
        self.refresh()

    def _go(self, place: int) -> None:
        place = max(0, min(len(self.entries) - 1, place))
        if place == self.cursor or not self.entries:
            return
        before, self.cursor = self.cursor, place
        if self._scroll():
            self.refresh()
        for index in (before, place):
            self.refresh(Region(0, 1 + index - self._top, self.size.width, 1))
        self.post_message(self.Changed())

    def _scroll(self) -> bool:
        """Bring the highlighted run into view; returns whether others are seen now."""
        height, before = max(1, self.size.height - 1), self._top
        top = max(min(before, self.cursor), self.cursor - height + 1)
        self._top = max(0, min(top, len(self.entries) - height))
        return self._top != before

    # drawing

    @property
    def layout_now(self) -> Layout:
        """Which columns are shown."""
        return laid_out(self._widths, self.size.width, self.sorted_by)

    def render_line(self, y: int) -> Strip:
        """Return one line: the titles, or a run."""
        width, base, glyphs = self.size.width, self.rich_style, self._glyphs
        index = self._top + y - 1
        if y == 0 and self._all:
            up = self.sorted_by.ascending != self.reversed
            return self._strip(head(self.layout_now, glyphs, self.sorted_by, up=up), base)
        if not self.entries and y == 1:
            return self._strip((Span(fitted(f"  {self.empty}", width, glyphs.ellipsis), "axis"),), base)
        if y == 0 or not 0 <= index < len(self.entries):
            return Strip.blank(width, base)
        entry, here = self.entries[index], index == self.cursor
        marked = entry.row.path in self.marked
        row = line(entry, self.layout_now, glyphs, self._now_wall_ns, highlighted=here, marked=marked)
        if not here:
            return self._strip(row, base)
        name = "table--focused" if self.has_focus else "table--highlighted"
        base += self.get_component_rich_style(name, partial=True)
        return Strip([Segment(span.text, base) for span in row]).adjust_cell_length(width, base)

    def _strip(self, row: Row, base: Any) -> Strip:
        segments = [Segment(span.text, base + role_style(span.style, self.app)) for span in row]
        return Strip(segments).adjust_cell_length(self.size.width, base)
