"""A question that is answered by one key, before something that cannot be taken back."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from gradscope.tui.widgets.foreign import literal


class ConfirmScreen(ModalScreen[bool]):
    """Dismissed with `True` for yes, `False` for no. Escape means no.

    Example:
        self.app.push_screen(ConfirmScreen("stop this run?", "it keeps what it has measured", yes="stop"), self._stop)
    """

    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; }
    ConfirmScreen > VerticalScroll {
        width: auto; min-width: 36; max-width: 100%; height: auto; max-height: 100%;
        border: solid $warning; background: $surface; padding: 0 2;
    }
    ConfirmScreen Static { width: auto; max-width: 72; height: auto; }
    ConfirmScreen .question { text-style: bold; }
    ConfirmScreen .keys { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree(False)", "yes", id="confirm.yes"),
        Binding("Y", "agree(True)", "yes, where it weighs more", id="confirm.firm"),
        Binding("n,escape,q", "dismiss(False)", "no", id="confirm.no"),
    ]

    def __init__(
        self, question: str, detail: str = "", *, yes: str = "yes", no: str = "no", firm: bool = False
    ) -> None:
        """All texts are shown as they are.

        Args:
            question: One line.
            detail: What will happen, and what will not; may have several lines.
            yes: What the key `y` does, in a word or two.
            no: What the keys `n` and escape do.
            firm: Whether `y` is not enough, which is pressed by habit: it takes `Y`.
        """
        super().__init__()
        self.question = question
        self.detail = detail
        self.firm = firm
        self._keys = f"{'Y' if firm else 'y'} {yes}   n {no}"

    def action_agree(self, firmly: bool) -> None:
        """Answer yes, with the key that it takes."""
        if firmly or not self.firm:
            self.dismiss(True)

    def compose(self) -> ComposeResult:
        """The question, the detail, the keys."""
        with VerticalScroll():
            yield Static(literal(self.question), classes="question")
            if self.detail:
                yield Static(literal(self.detail, keep="\n"))
            yield Static(literal(self._keys), classes="keys")
