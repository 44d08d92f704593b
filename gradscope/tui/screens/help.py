"""The help: what the screen below shows, and its keys as they are bound at this moment."""

from itertools import groupby
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from gradscope.tui.bindings import EVERYWHERE, Command, commands_of
from gradscope.tui.widgets.foreign import literal

MARGIN = 2


class HelpScreen(ModalScreen[None]):
    """A list of keys over the screen that they belong to."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        border: solid $border; background: $surface; padding: 0 1;
    }
    HelpScreen Static { width: 100%; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss(None)", "close", id="help.close"),
    ]

    def __init__(self, below: Screen[Any]) -> None:
        """`below` is the screen that is explained."""
        super().__init__()
        self._about = below.HELP or ""
        self._commands = commands_of(below)

    def compose(self) -> ComposeResult:
        """One text; the arrow keys scroll it."""
        with VerticalScroll() as box:
            box.border_title = "keys"
            box.border_subtitle = "escape closes"
            yield Static(help_text(self._about, self._commands))


def help_text(about: str, commands: list[Command]) -> Content:
    """Lay out the help: what the screen is for, then the keys by where they work."""
    shown = [command for command in commands if command.name]
    width = max((cell_len(_keys(command)) for command in shown), default=0)
    parts: list[Content] = [literal(about.strip(), keep="\n"), Content("")] if about.strip() else []
    for group, members in groupby(_in_groups(shown), key=lambda command: command.group):
        parts.append(Content.styled(group, "bold"))
        for command in members:
            explanation = f" - {command.explanation}" if command.explanation else ""
            line = f"{_keys(command).rjust(width + MARGIN)}  {command.name}{explanation}"
            parts.append(Content.styled(line, "" if command.enabled else "dim"))
        parts.append(Content(""))
    return Content("\n").join(parts[:-1] if parts else [Content("this screen has no keys of its own")])


def _keys(command: Command) -> str:
    return " ".join(command.keys)


def _in_groups(commands: list[Command]) -> list[Command]:
    """Bring the members of each group together, groups in the order of their first member, the app's last."""
    order = list(dict.fromkeys(command.group for command in commands))
    return sorted(commands, key=lambda command: (command.group == EVERYWHERE, order.index(command.group)))
