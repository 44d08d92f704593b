"""A list to choose from: rows of cells, one highlighted, headings between them, scrolled by moving.

It draws what it is handed and knows nothing of what the rows mean. Only rows that changed are drawn again, and the
highlight stays with its item when others come and go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.charts.cells import Row
from gradscope.tui.widgets.foreign import literal
from gradscope.tui.widgets.styles import role_style


@dataclass(frozen=True, slots=True)
class Item:
    """One row. A heading cannot be highlighted."""

    key: str
    """Unique in its list."""
    draw: Callable[[int, bool], Row]
    """Draws it, given the width and whether it is the one that keys act on."""
    heading: bool = False


class ItemList(Widget, can_focus=True):
    """A list with one highlighted item; keys move it, enter chooses it."""

    DEFAULT_CSS = """
    ItemList { height: 1fr; }
    ItemList .item-list--focused {
        color: $block-cursor-foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    ItemList .item-list--highlighted {
        color: $block-cursor-blurred-foreground; background: $block-cursor-blurred-background;
        text-style: $block-cursor-blurred-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"item-list--focused", "item-list--highlighted"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "choose", key_display="enter", tooltip="Take the highlighted one"),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "a page up", show=False),
        Binding("pagedown", "page(1)", "a page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
    ]

    SHOWS_WITHOUT_FOCUS: ClassVar[bool] = True
    """Whether the highlighted row is told from others while something else has the focus."""

    @dataclass
    class Highlighted(Message):
        """Another item is highlighted."""

        list: "ItemList"
        key: str

        @property
        def control(self) -> "ItemList":
            """The list."""
            return self.list

    @dataclass
    class Chosen(Message):
        """An item was chosen."""

        list: "ItemList"
        key: str

        @property
        def control(self) -> "ItemList":
            """The list."""
            return self.list

    @dataclass
    class Left(Message):
        """The user wants to move past the first (-1) or the last (1) item."""

        list: "ItemList"
        direction: int

        @property
        def control(self) -> "ItemList":
            """The list."""
            return self.list

    def __init__(self, name: str = "", **options: Any) -> None:
        """`name` stands above the list, with the place in it where it does not fit."""
        super().__init__(**options)
        self.border_title = name
        self._title = name
        self._items: tuple[Item, ...] = ()
        self._cursor = -1
        self._top = 0
        self._drawn: list[Row] = []

    @property
    def items(self) -> tuple[Item, ...]:
        """What is listed."""
        return self._items

    @property
    def highlighted(self) -> str | None:
        """Key of the highlighted item; `None` in a list without any."""
        return self._items[self._cursor].key if 0 <= self._cursor < len(self._items) else None

    def show(self, items: Sequence[Item]) -> None:
        """List these; the highlight stays with its item, or near where it was."""
        key, place = self.highlighted, self._cursor
        self._items = tuple(items)
        found = next((i for i, item in enumerate(self._items) if item.key == key), None)
        self._cursor = self._nearest(max(0, place)) if found is None else found
        self._redraw()
        if self.highlighted is not None and self.highlighted != key:
            self.post_message(self.Highlighted(self, self.highlighted))

    def highlight(self, key: str) -> bool:
        """Highlight an item; returns whether it is there."""
        place = next((i for i, item in enumerate(self._items) if item.key == key and not item.heading), None)
        if place is not None:
            self._go(place)
        return place is not None

    def highlight_edge(self, direction: int) -> None:
        """Highlight the first (-1) or the last (1) item."""
        self._go(self._nearest(0 if direction < 0 else len(self._items) - 1))

    def action_choose(self) -> None:
        """Take the highlighted item."""
        if self.highlighted is not None:
            self.post_message(self.Chosen(self, self.highlighted))

    def action_move(self, direction: int) -> None:
        """Highlight the next item in a direction."""
        place = self._cursor + direction
        while 0 <= place < len(self._items):
            if not self._items[place].heading:
                self._go(place)
                return
            place += direction
        self._top = 0 if direction < 0 else self._top  # show a heading above the first
        self.refresh()
        self.post_message(self.Left(self, direction))

    def action_page(self, direction: int) -> None:
        """Move by what is seen at once."""
        if self._items:
            wanted = self._cursor + direction * max(1, self.size.height - 1)
            self._go(self._nearest(max(0, min(len(self._items) - 1, wanted))))

    def action_edge(self, direction: int) -> None:
        """Go to the first or last item."""
        self.highlight_edge(direction)

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a click on the highlighted item chooses it."""
        place = event.get_content_offset(self)
        index = -1 if place is None else self._top + place.y
        if 0 <= index < len(self._items) and not self._items[index].heading:
            if index == self._cursor:
                self.action_choose()
            else:
                self._go(index)

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self.action_move(1)

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self.action_move(-1)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self._redraw()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Mark the highlighted row with the focus; without it, the row is shown but not marked."""
        super().watch_has_focus(has_focus)
        self._draw_again(self._cursor)

    def render_line(self, y: int) -> Strip:
        """Return one line of cells."""
        width, index = self.size.width, y + self._top
        base = self.rich_style
        if not 0 <= index < len(self._drawn):
            return Strip.blank(width, base)
        if index == self._cursor and (self.has_focus or self.SHOWS_WITHOUT_FOCUS):
            name = "item-list--focused" if self.has_focus else "item-list--highlighted"
            base += self.get_component_rich_style(name, partial=True)
            segments = [Segment(span.text, base) for span in self._drawn[index]]
        else:
            segments = [Segment(span.text, base + role_style(span.style, self.app)) for span in self._drawn[index]]
        return Strip(segments).adjust_cell_length(width, base)

    def _go(self, place: int) -> None:
        if place == self._cursor or not 0 <= place < len(self._items):
            return
        before, self._cursor = self._cursor, place
        if self._scroll():
            self.refresh()
        self._draw_again(before)
        self._draw_again(place)
        self.post_message(self.Highlighted(self, self._items[place].key))

    def _nearest(self, place: int) -> int:
        """Return the item nearest to a place that may hold a heading; -1 where there is none."""
        places = [i for i, item in enumerate(self._items) if not item.heading]
        return min(places, key=lambda i: abs(i - place), default=-1)

    def _scroll(self) -> bool:
        """Bring the highlighted row into view, with the heading above it where there is one."""
        height = max(1, self.size.height)
        first = self._cursor
        if first > 0 and self._items[first - 1].heading and height > 1:
            first -= 1
        top = max(min(self._top, first), self._cursor - height + 1)
        top = max(0, min(top, len(self._items) - height))
        changed, self._top = top != self._top, top
        self._say_position()
        return changed

    def _say_position(self) -> None:
        text = self._title
        if len(self._items) > self.size.height > 0:
            choices = [i for i, item in enumerate(self._items) if not item.heading]
            if self._cursor in choices:
                text = f"{self._title} {choices.index(self._cursor) + 1}/{len(choices)}"
        if str(self.border_title or "") != text:
            self.border_title = literal(text)

    def _redraw(self) -> None:
        before, self._drawn = self._drawn, [self._row(index) for index in range(len(self._items))]
        if self._scroll() or len(before) != len(self._drawn):
            self.refresh()
            return
        for index, (old, new) in enumerate(zip(before, self._drawn, strict=True)):
            if old != new:
                self._refresh_row(index)

    def _row(self, index: int) -> Row:
        return self._items[index].draw(self.size.width, index == self._cursor and self.has_focus)

    def _draw_again(self, index: int) -> None:
        if 0 <= index < len(self._items):
            self._drawn[index] = self._row(index)
            self._refresh_row(index)

    def _refresh_row(self, index: int) -> None:
        y = index - self._top
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))
