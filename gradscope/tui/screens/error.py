"""The error panel: what went wrong in a sentence, what still works, and where to read more."""

from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from gradscope.tui.screens.base import Front
from gradscope.tui.widgets.foreign import literal


class ErrorScreen(ModalScreen[None]):
    """Shows an error over what still works."""

    DEFAULT_CSS = """
    ErrorScreen { align: center middle; }
    ErrorScreen > VerticalScroll {
        width: auto; min-width: 36; max-width: 100%; height: auto; max-height: 100%;
        border: solid $error; background: $surface; padding: 0 2;
    }
    ErrorScreen Static { width: auto; max-width: 76; height: auto; }
    ErrorScreen .message { text-style: bold; }
    ErrorScreen .keys { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "dismiss(None)", "go on", id="error.close"),
        Binding("y", "copy", "copy", id="error.copy"),
        Binding("q", "app.quit", "quit", id="error.quit"),
    ]

    def __init__(self, message: str, details: str = "", *, copied: str = "") -> None:
        """All texts are shown as they are.

        Args:
            message: What went wrong, in a line.
            details: What was done about it, what to do, where to read more; may have several lines.
            copied: What the key `y` copies; the message where empty.
        """
        super().__init__()
        self.message = message
        self.details = details
        self._copied = copied or message

    def compose(self) -> ComposeResult:
        """The message, the details, the keys."""
        with VerticalScroll() as box:
            box.border_title = "something went wrong"
            yield Static(literal(self.message), classes="message")
            if self.details:
                yield Static(literal(self.details, keep="\n"))
            yield Static(literal("enter go on   y copy   q quit"), classes="keys")

    def action_copy(self) -> None:
        """Copy where to read more."""
        cast("Front", self.app).copy_text(self._copied)
