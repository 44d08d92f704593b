"""Telling widgets what they say already costs a repaint of the whole widget: these do not."""

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static


def say(line: Static, text: Content) -> None:
    """Show text in a widget of fixed size, unless it shows just that."""
    if str(line.content) != str(text):
        line.update(text, layout=False)


def entitle(widget: Widget, title: Content) -> None:
    """Set a widget's title in its upper edge, unless it has just that."""
    if str(widget.border_title or "") != str(title):
        widget.border_title = title
