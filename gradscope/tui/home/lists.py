"""The three lists of the home screen, and what stands in them."""

from collections.abc import Container
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.rows import heading, preset_row
from gradscope.tui.home.text import fitted, short_seconds
from gradscope.tui.home.view import FIRST, HomeView, group_of
from gradscope.tui.widgets.item_list import Item, ItemList


class HomeList(ItemList):
    """One of the three, which are one list to whoever moves in them."""

    @dataclass
    class Ended(Message):
        """The user wants the first (-1) or the last (1) line of all lists."""

        direction: int

    def action_edge(self, direction: int) -> None:
        """Go to the first or last line of all lists."""
        self.post_message(self.Ended(direction))


class PresetList(HomeList):
    """The presets."""

    BINDING_GROUP_TITLE = "presets"
    SHOWS_WITHOUT_FOCUS = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "choose",
            "run",
            key_display="enter",
            tooltip="Start the highlighted preset and watch it; a grid opens as a sweep",
        ),
    ]


class RunningList(HomeList):
    """The runs that are going on."""

    BINDING_GROUP_TITLE = "running"
    SHOWS_WITHOUT_FOCUS = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "watch", key_display="enter", tooltip="Watch the highlighted run"),
    ]


class RecentList(HomeList):
    """The runs that are over."""

    BINDING_GROUP_TITLE = "recent"
    SHOWS_WITHOUT_FOCUS = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "open", key_display="enter", tooltip="Open the highlighted run"),
    ]


def preset_items(view: HomeView, glyphs: Glyphs, changed: Container[str] = ()) -> list[Item]:
    """Return presets with a heading over each group, and a mark at those that were `changed` in their forms."""
    items: list[Item] = []
    for group, members in groupby(view.presets, key=group_of):
        items.append(Item(f"heading {group}", partial(heading, group, glyphs), heading=True))
        items += [Item(item.name, partial(preset_row, item, glyphs, item.name in changed)) for item in members]
    return items


def nothing_yet(view: HomeView, glyphs: Glyphs, width: int, highlighted: bool) -> Row:
    """Return the line in place of runs that are over."""
    if view.unreadable:
        return (Span(fitted(view.unreadable, width, glyphs.ellipsis), "warn"),)
    quick = next((item.outlook for item in view.presets if item.name == FIRST), None)
    seconds = None if quick is None else quick.expected.seconds
    takes = "" if seconds is None else f", which takes about {short_seconds(seconds)}"
    words = f"none yet: enter on {FIRST} starts one{takes}" if view.is_new_here else "none is over yet"
    return (Span(fitted(words, width, glyphs.ellipsis), "axis"),)
