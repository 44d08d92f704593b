"""What a window too small for the screens shows instead of them."""

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from gradscope.tui.terminal import SMALLEST, too_small
from gradscope.tui.widgets.foreign import literal


class TooSmallScreen(Screen[None]):
    """Covers whatever screen there is, and goes when the window has grown."""

    DEFAULT_CSS = """
    TooSmallScreen { align: center middle; }
    TooSmallScreen > Static { width: 100%; height: auto; text-align: center; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._gone = False

    def compose(self) -> ComposeResult:
        """One line, as long as it fits."""
        yield Static()

    def on_resize(self, event: events.Resize) -> None:
        """Say how much is missing."""
        self._look(event.size.width, event.size.height)

    def on_screen_resume(self) -> None:
        """Go if the window grew while another screen lay over this one."""
        self._look(self.app.size.width, self.app.size.height)

    def _look(self, width: int, height: int) -> None:
        if too_small(width, height):
            self.query_one(Static).update(literal(size_text(width, height), keep="\n"))
        elif self.is_active and not self._gone:
            self._gone = True
            self.dismiss(None)


def size_text(width: int, height: int) -> str:
    """Return what fits into so few cells."""
    columns, rows = SMALLEST
    long = f"too small: this is {width}x{height}, gradscope needs {columns}x{rows}"
    if width >= len(long) or height == 1:
        return long
    return f"too small: {width}x{height}\nneeds {columns}x{rows}"
