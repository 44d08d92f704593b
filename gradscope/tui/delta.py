"""Only cells that changed go to the terminal.

Textual sends what it painted: the whole screen after each change of layout, often several times over, and a widget's
row from its left edge on. Over a slow line that is seconds. Here what it is about to send is compared, cell by cell,
with what was sent before.

This leans on how textual hands its updates to the terminal. Updates of another kind go out as they are.
"""

import re
from collections.abc import Iterator
from typing import Any

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.style import Style
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.screen import Screen
from textual.strip import Strip

SURE = re.compile(
    "["
    "\x20-\x7e\xa1-\xac\xae-\xff"  # Latin-1 without the soft hyphen
    "\u2010-\u2027\u2030-\u205e\u2190-\u21ff"  # dashes, dots, arrows
    "\u2500-\u25ff\u2713\u2717\u2800-\u28ff"  # lines, blocks, shapes, ticks, braille
    "]*"
)
"""Text of characters that take one cell on any terminal; of others nobody knows what a terminal makes of them."""

NEAR = 4
"""Cells between two changes that are sent again rather than jumped over: a jump costs as many bytes."""

SEEN_ON_BLANKS = ("reverse", "underline", "underline2", "overline", "strike")

Cell = tuple[str, Style]
"""A character and its style. Blanks that look alike are equal."""

Run = tuple[int, int, list[Cell], bool]
"""What to send: row, column, cells, and whether their widths are sure."""


class Delta:
    """What a terminal shows, as far as it was sent through here."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._shown: list[list[Cell | None]] = []
        self._plain: dict[Style, tuple[Style, Style]] = {}
        self._codes: dict[Style, str] = {}
        self._system: str | None = None

    def forget(self) -> None:
        """Take it that nobody knows what the terminal shows: all of the next update is sent."""
        self._size = (0, 0)

    def of(self, update: RenderableType | None) -> Any:
        """Return what sends the changes in an update; they count as sent once it has been rendered."""
        if isinstance(update, LayoutUpdate | ChopsUpdate):
            return _Changes(self, update)
        if update is not None:
            self.forget()
        return update

    def changes(self, update: LayoutUpdate | ChopsUpdate, console: Console) -> str:
        """Return what brings the terminal up to date, and take it as done."""
        if self._system != console.color_system:
            self._system = console.color_system
            self._codes.clear()
        self._fit(*_size(update))
        system = COLOR_SYSTEMS[self._system or "truecolor"]
        pen = _Pen(self._codes, system)
        row, column = -1, 0
        for y, x, cells, sure in self._runs(update):
            if y != row or x < column or not sure:
                pen.sent.append(f"\x1b[{y + 1};{x + 1}H")
            elif x > column:
                pen.sent.append(f"\x1b[{x - column}C")
            for text, style in cells:
                if style is not pen.style and not (text == " " and self._alike(style, pen.style)):
                    pen.take(style)
                pen.write(text)
            row, column = y, x + len(cells)
            if not sure or column >= self._size[0]:  # after the last column, terminals differ in where the cursor is
                row = -1
        return pen.finish()

    def _fit(self, width: int, height: int) -> None:
        if (width, height) != self._size:
            self._size = (width, height)
            self._shown = [[None] * width for _ in range(height)]

    def _runs(self, update: LayoutUpdate | ChopsUpdate) -> Iterator[Run]:
        for y, x, strip in _strips(update):
            shown = self._shown[y]
            cells = self._cells(strip)
            if cells is None:
                # sent as it is, with all that stands to its right now, and again whenever something is to stand there
                shown[x:] = [None] * (len(shown) - x)
                yield y, x, [(text, self._interned(style)[0]) for text, style, _ in strip], False
                continue
            del cells[len(shown) - x :]
            start = end = -1
            for index, cell in enumerate(cells):
                if shown[x + index] == cell:
                    continue
                if start >= 0 and index - end > NEAR:
                    yield y, x + start, cells[start : end + 1], True
                    start = -1
                start, end = index if start < 0 else start, index
                shown[x + index] = cell
            if start >= 0:
                yield y, x + start, cells[start : end + 1], True

    def _cells(self, strip: Strip) -> list[Cell] | None:
        """Return a strip's cells; `None` where it is not sure which characters take how many."""
        cells: list[Cell] = []
        for text, style, control in strip:
            if control or SURE.fullmatch(text) is None:
                return None
            own, blank = self._interned(style)
            cells += [(char, blank if char == " " else own) for char in text]
        return cells

    def _interned(self, style: Style | None) -> tuple[Style, Style]:
        """Return a style, always the same object for equal ones, and what it is on blanks."""
        style = style or Style.null()
        found = self._plain.get(style)
        if found is None:
            blank = style
            if not style.link and not any(getattr(style, name) for name in SEEN_ON_BLANKS):
                blank = Style(bgcolor=style.bgcolor)
                blank = self._plain.setdefault(blank, (blank, blank))[0]
            found = self._plain[style] = (style, blank)
        return found

    def _alike(self, blank: Style, style: Style | None) -> bool:
        """Whether a blank looks the same in another style."""
        return style is not None and self._interned(style)[1] is blank


class _Pen:
    """Writes text in styles, each change of style once."""

    def __init__(self, codes: dict[Style, str], system: ColorSystem) -> None:
        self.style: Style | None = None
        self.sent: list[str] = []
        self._codes = codes
        self._system = system

    def take(self, style: Style) -> None:
        code = self._codes.get(style)
        if code is None:
            ansi = Strip.render_ansi(style, self._system)
            code = self._codes[style] = f"\x1b[0;{ansi}m" if ansi else "\x1b[m"
        self.sent.append(code)
        self.style = style

    def write(self, text: str) -> None:
        self.sent.append(text)

    def finish(self) -> str:
        if self.style is not None:
            self.sent.append("\x1b[m")
        return "".join(self.sent)


class _Changes(CompositorUpdate):
    """An update of which only what changed is sent."""

    def __init__(self, delta: Delta, update: LayoutUpdate | ChopsUpdate) -> None:
        self._delta = delta
        self._update = update

    def render_segments(self, console: Console) -> str:
        return self._delta.changes(self._update, console)


class ThriftyApp(App[None]):
    """An app that sends only cells that changed. It sends all of them after a resize, a suspension, and on request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.delta = Delta()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        super()._display(screen, self.delta.of(renderable))

    def on_mount(self) -> None:
        """After a suspension the shell has written over the screen."""
        self.app_resume_signal.subscribe(self, lambda _: self.delta.forget())

    async def on_event(self, event: events.Event) -> None:
        """After a resize, terminals differ in what they show."""
        if isinstance(event, events.Resize):
            self.delta.forget()
        await super().on_event(event)

    def action_redraw(self) -> None:
        """Send the whole screen again."""
        self.delta.forget()
        self.screen.refresh()


def _size(update: LayoutUpdate | ChopsUpdate) -> tuple[int, int]:
    if isinstance(update, LayoutUpdate):
        return update.region.right, update.region.bottom
    return max((ends[-1] for ends in update.chop_ends), default=0), len(update.chops)


def _strips(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield what an update paints: row, column, strip."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                yield y, x, strip
                x += strip.cell_length
        return
    for y, start, stop in update.spans:
        for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if chop is not None and x < stop and end > start:
                yield y, x, chop
