"""Text that we did not write, on its way to the screen: never markup, never commands to the terminal.

Exception messages, operator and worker names, paths, device names and values of presets go through here, in every
widget, title and notification.
"""

from rich.text import Text
from textual.content import Content

from gradscope.core.text import visible


def literal(text: object, *, keep: str = "") -> Content:
    r"""Return text that is shown as it is, brackets included; control characters are written out.

    For `Static`, `Label`, `OptionList`, `border_title`, notifications and all else that takes textual's content.

    Args:
        text: Anything; `str` of it is shown.
        keep: Control characters to leave as they are: a newline where several lines may be shown.
    """
    return Content(visible(str(text), keep=keep))


def literal_cell(text: object, style: str = "") -> Text:
    """Return the same for a cell of a `DataTable`, which takes rich's text.

    Args:
        text: Anything; `str` of it is shown, on one line.
        style: A rich style.
    """
    return Text(visible(str(text)), style=style, no_wrap=True, end="")
