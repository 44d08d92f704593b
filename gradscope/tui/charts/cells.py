"""Rows of styled text, the common language of charts and the widgets that show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one style. All of its characters are one cell wide."""

    text: str
    style: str = ""
    """A role of `gradscope.tui.palette`, or empty for plain text."""


Row = tuple[Span, ...]
"""One line of cells, neighbours of one style merged."""


class Canvas:
    """A grid of cells to draw on; what is put outside of it is left out."""

    def __init__(self, width: int, height: int) -> None:
        """`width` and `height` in cells; less than 0 counts as 0."""
        self.width = max(0, width)
        self.height = max(0, height)
        self._chars = [[" "] * self.width for _ in range(self.height)]
        self._styles = [[""] * self.width for _ in range(self.height)]

    def put(self, x: int, y: int, char: str, style: str = "") -> None:
        """Set one cell; (0, 0) is the upper left one."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._chars[y][x] = char
            self._styles[y][x] = style

    def text(self, x: int, y: int, text: str, style: str = "") -> None:
        """Set cells from (x, y) to the right."""
        for offset, char in enumerate(text):
            self.put(x + offset, y, char, style)

    def rows(self) -> list[Row]:
        """Return the grid as rows, each exactly `width` cells wide."""
        return [merged(chars, styles) for chars, styles in zip(self._chars, self._styles, strict=True)]


def merged(chars: Sequence[str], styles: Sequence[str]) -> Row:
    """Join cells into spans of one style each."""
    text, start = "".join(chars), 0
    spans: list[Span] = []
    for style, run in groupby(styles):
        end = start + len(list(run))
        spans.append(Span(text[start:end], style))
        start = end
    return tuple(spans)


def plain(rows: Sequence[Row]) -> str:
    """Return rows as text without styles, for tests and for a log."""
    return "\n".join("".join(span.text for span in row) for row in rows)
