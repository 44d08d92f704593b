"""The help: what the screen below shows, and its keys as they are bound at this moment."""

from itertools import groupby
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from gradscope.core.text import display_width, visible
from gradscope.tui.bindings import EVERYWHERE, Command, commands_of
from gradscope.tui.widgets.foreign import literal


class HelpScreen(ModalScreen[None]):
    """A list of keys over the screen that they belong to."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 80; max-width: 100%; height: auto; max-height: 100%;
        border: solid $border; background: $surface; padding: 0 1;
    }
    HelpScreen Static { width: 100%; height: auto; }
    HelpScreen .group { text-style: bold; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss(None)", "close", id="help.close"),
    ]

    def __init__(self, below: Screen[Any]) -> None:
        """`below` is the screen that is explained."""
        super().__init__()
        self._about = (below.HELP or "").strip()
        self._commands = commands_of(below)

    def compose(self) -> ComposeResult:
        """What the screen is for, then the keys by where they work; the arrow keys scroll."""
        with VerticalScroll() as box:
            box.border_title = "keys"
            box.border_subtitle = "escape closes"
            if self._about:
                yield Static(literal(self._about, keep="\n"))
            widths = widest(self._commands)
            for group, members in groupby(in_groups(self._commands), key=lambda command: command.group):
                told = list(members)
                yield Static(literal(group), classes="group")
                yield Static(table_of([command for command in told if command.explanation], *widths))
                moves = [f"{_keys(command)} {command.name}" for command in told if not command.explanation]
                if moves:
                    yield Static(literal(", ".join(moves)))


def table_of(commands: list[Command], keys_width: int, name_width: int) -> Table:
    """Lay out keys, names and explanations, the first two in so many cells."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(width=keys_width)
    table.add_column(width=name_width)
    table.add_column(ratio=1)
    for command in commands:
        cells = (_keys(command), command.name, command.explanation)
        table.add_row(*(Text(visible(cell)) for cell in cells), style="" if command.enabled else "dim")
    return table


def widest(commands: list[Command]) -> tuple[int, int]:
    """Return the cells that keys and names of commands with an explanation take."""
    told = [command for command in commands if command.explanation]
    keys = max((display_width(_keys(command)) for command in told), default=0)
    return keys, max((display_width(command.name) for command in told), default=0)


def in_groups(commands: list[Command]) -> list[Command]:
    """Bring the members of each group together, groups in the order of their first member, the app's last."""
    order = list(dict.fromkeys(command.group for command in commands))
    return sorted(commands, key=lambda command: (command.group == EVERYWHERE, order.index(command.group)))


def _keys(command: Command) -> str:
    return " ".join(command.keys)
