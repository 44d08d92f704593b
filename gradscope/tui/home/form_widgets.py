"""What keys act on in the form of a preset: the list of fields, the value of one, and the words to find some by."""

from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input

from gradscope.tui.widgets.item_list import ItemList


class FieldList(ItemList):
    """The fields."""

    BINDING_GROUP_TITLE = "fields"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "change", key_display="enter", tooltip="Type a value for the highlighted field"),
    ]

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._ahead: list[events.Key] | None = None
        """Keys that came while a field is being opened; `None` otherwise."""

    def on_key(self, event: events.Key) -> None:
        """Open the field at once: what is typed ahead belongs to its value, and is no command."""
        if self._ahead is not None:
            event.stop()
            self._ahead.append(event)
        elif event.key == "enter" and self.highlighted is not None:
            event.stop()
            self._ahead = []
            self.call_later(self._open)

    def _open(self) -> None:
        """Hand over to the value once all keys that were sent here have come."""
        if self.message_queue_size:
            self.call_later(self._open)
            return
        keys, self._ahead = self._ahead or [], None
        value = self.screen.query_one(ValueInput)
        self.screen.set_focus(value)
        for key in keys:
            value._forward_event(events.Key(key.key, key.character))


class ValueInput(Input):
    """The value of the highlighted field."""

    BINDING_GROUP_TITLE = "typing a value"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "take it", key_display="enter", tooltip="Keep this value"),
        Binding("escape", "screen.leave_value", "as before", tooltip="Put back what the field had"),
        Binding("up", "screen.choice(-1)", "choice before", show=False, tooltip="The choice before this one"),
        Binding("down", "screen.choice(1)", "next choice", show=False, tooltip="The next choice"),
    ]


class FilterInput(Input):
    """Words that fields must have."""

    BINDING_GROUP_TITLE = "finding a field"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "screen.to_fields", "to the fields", key_display="enter", tooltip="Go to what was found"),
        Binding("escape", "screen.clear_filter", "all fields", tooltip="List all fields again"),
    ]
