"""Lines of text to move in: what a line says, and what can be asked and copied of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.panes.base import fitted, one_cell, wrapped
from gradscope.tui.widgets.item_list import Item, ItemList

LABEL = 18
"""Cells of what a line is about, on its left."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line."""

    spans: tuple[Span, ...]
    meaning: str = ""
    """Key in `MEANINGS`."""
    copy: str = ""
    """What is copied of it; by default, its text."""
    place: str = ""
    """What enter opens."""
    skipped: bool = False
    """Cannot be highlighted: an empty line."""

    @property
    def text(self) -> str:
        """What stands there."""
        return "".join(span.text for span in self.spans).strip()


Make = Callable[[int, int], Sequence[Line]]
"""Makes lines for a width and a height."""


class LinesView(ItemList):
    """Lines, one highlighted; made anew when the room changes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "open", key_display="enter", show=False)]
    DEFAULT_CSS = """
    LinesView { height: 1fr; padding: 0 1; }
    """

    _make: Make | None = None
    lines: Sequence[Line] = ()

    @property
    def line(self) -> Line | None:
        """The highlighted line."""
        key = self.highlighted
        return self.lines[int(key)] if key is not None and int(key) < len(self.lines) else None

    def show_lines(self, make: Make) -> None:
        """Show what `make` makes for the room there is."""
        self._make = make
        self._lay_out()

    def on_resize(self) -> None:
        """Make lines for the new width."""
        self._lay_out()

    def _lay_out(self) -> None:
        if self._make is None or not self.size.width:
            return
        self.lines = tuple(self._make(self.size.width, self.size.height))
        items = [
            Item(str(number), partial(_drawn, line), heading=line.skipped) for number, line in enumerate(self.lines)
        ]
        self.show(items)


def _drawn(line: Line, width: int, highlighted: bool) -> Row:
    return fitted(line.spans, width)


def row(label: str, *spans: Span | str, meaning: str = "", copy: str = "", place: str = "", style: str = "") -> Line:
    """Return a line with what it is about on its left."""
    made = [span if isinstance(span, Span) else Span(one_cell(span), style) for span in spans]
    return Line((Span(f"{label:<{LABEL}}", "bold"), *made), meaning, copy, place)


def prose(
    text: str,
    width: int,
    *,
    label: str = "",
    indent: int = LABEL,
    style: str = "",
    meaning: str = "",
    copy: str = "",
    place: str = "",
) -> list[Line]:
    """Return foreign text wrapped into lines, what it is about before the first."""
    broken = wrapped(one_cell(text), max(10, width - indent)) or [""]
    return [
        Line((Span(f"{label if not number else '':<{indent}}", "bold"), Span(line, style)), meaning, copy, place)
        for number, line in enumerate(broken)
    ]


def blank() -> Line:
    """Return an empty line."""
    return Line((), skipped=True)


def heading(text: str) -> Line:
    """Return a line over others."""
    return Line((Span(text, "bold"),), skipped=True)
