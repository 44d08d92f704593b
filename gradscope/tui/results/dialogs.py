"""Small screens over the run screen: which windows to ask, how to export, where TensorBoard is."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gradscope.core.units import format_bytes
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.panes.base import fitted, one_cell
from gradscope.tui.results.server import Address
from gradscope.tui.screens.base import Front
from gradscope.tui.widgets.foreign import literal
from gradscope.tui.widgets.item_list import Item, ItemList

CSS = """
    {name} {{ align: center middle; }}
    {name} > Vertical {{
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        border: solid $border; background: $surface; padding: 0 1;
    }}
    {name} ItemList {{ height: {rows}; max-height: 60%; }}
    {name} Static {{ height: auto; }}
    {name} Input {{ height: 1; border: none; padding: 0; }}
"""


class ChoiceList(ItemList):
    """Things to choose from."""

    BINDING_GROUP_TITLE = "choose"


class ChooseWindow(ModalScreen[int | None]):
    """Dismissed with 0 for all windows, n for the n-th, `None` for no change."""

    DEFAULT_CSS = CSS.format(name="ChooseWindow", rows=8)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,w", "dismiss(None)", "as it is", id="windows.close"),
    ]

    def __init__(self, paths: Sequence[Path]) -> None:
        """`paths`: one a window, oldest first."""
        super().__init__()
        self._paths = paths

    def compose(self) -> ComposeResult:
        """A list."""
        with Vertical() as box:
            box.border_title = "windows of the profiler"
            box.border_subtitle = "enter chooses, escape leaves it"
            yield ChoiceList()

    def on_mount(self) -> None:
        """List them."""
        items = [Item("0", partial(_text_row, "all windows, joined"))]
        for number, path in enumerate(self._paths, start=1):
            size = format_bytes(path.stat().st_size) if path.exists() else "deleted"
            items.append(Item(str(number), partial(_text_row, f"window {number}  {size:>10}  {path.name}")))
        self.query_one(ItemList).show(items)
        self.query_one(ItemList).focus()

    def on_item_list_chosen(self, event: ItemList.Chosen) -> None:
        """Take one."""
        event.stop()
        self.dismiss(int(event.key))


class ExportDialog(ModalScreen[tuple[str, Path] | None]):
    """Dismissed with a format and where to write; `None` for nothing."""

    DEFAULT_CSS = CSS.format(name="ExportDialog", rows=7)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "leave", id="export.close"),
        Binding("tab", "other", "list/path", id="export.other", show=False),
    ]

    def __init__(self, formats: Sequence[tuple[str, str]], folder: Path) -> None:
        """Ask.

        Args:
            formats: Name and summary of each.
            folder: Where to write unless the user says otherwise.
        """
        super().__init__()
        self._formats = formats
        self._folder = folder

    def compose(self) -> ComposeResult:
        """A list of formats, and a path."""
        with Vertical() as box:
            box.border_title = "export this run"
            box.border_subtitle = "enter writes, tab changes the folder, escape leaves"
            yield ChoiceList()
            yield Static(literal("into the folder"), classes="label")
            yield Input(str(self._folder))

    def on_mount(self) -> None:
        """List them."""
        self.query_one(ItemList).show(
            [Item(name, partial(_text_row, f"{name:<13}{summary}")) for name, summary in self._formats]
        )
        self.query_one(ItemList).focus()

    def action_other(self) -> None:
        """Go between the list and the path."""
        box = self.query_one(Input)
        (self.query_one(ItemList) if box.has_focus else box).focus()

    def on_item_list_chosen(self, event: ItemList.Chosen) -> None:
        """Take one."""
        event.stop()
        self._finish()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the highlighted one."""
        event.stop()
        self._finish()

    def _finish(self) -> None:
        name, text = self.query_one(ItemList).highlighted, self.query_one(Input).value.strip()
        if name and text:
            self.dismiss((name, Path(text).expanduser()))


class TensorBoardScreen(ModalScreen[bool]):
    """Says where TensorBoard answers; dismissed with True to stop it."""

    DEFAULT_CSS = CSS.format(name="TensorBoardScreen", rows=1)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,t", "dismiss(False)", "keep it running", id="tensorboard.close"),
        Binding("y", "copy", "copy", id="tensorboard.copy"),
        Binding("s", "dismiss(True)", "stop it", id="tensorboard.stop"),
    ]

    def __init__(self, address: Address) -> None:
        """`address` is where it answers."""
        super().__init__()
        self.address = address

    def compose(self) -> ComposeResult:
        """Where it is, and how to get there."""
        with Vertical() as box:
            box.border_title = "TensorBoard runs"
            where = f"{self.address.url}\nshows {self.address.folder}\nit ends when you leave gradscope"
            yield Static(literal(where, keep="\n"))
            if self.address.forward is not None:
                text = f"\non the machine you sit at:\n{self.address.forward}\nthen open the address above there"
                yield Static(literal(text, keep="\n"))
            what = "the ssh line" if self.address.forward else "the address"
            yield Static(literal(f"\ny copy {what}   s stop it   enter keep it running", keep="\n"))

    def action_copy(self) -> None:
        """Copy how to get there."""
        cast("Front", self.app).copy_text(self.address.forward or self.address.url)


def _text_row(text: str, width: int, highlighted: bool) -> Row:
    return fitted([Span(one_cell(text))], width)
