"""From the roles of spans to what a terminal shows, by how many colours it has.

A span's style is a role of the palette, with modifiers before it: `loss`, `dim parameters`, `bold`, `reverse cursor`.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui.palette import PALETTE

Depth = Literal["full", "16", "none"]
"""Colours of a terminal: 256 or more; 16; none."""

MODIFIERS = ("dim", "bold", "reverse", "underline", "italic")
"""What may stand before a role, or alone."""

SHOWS_ON_BLANKS = ("reverse", "underline")
"""Modifiers that are seen where there is no character."""

LEAST_CONTRAST = 2.5
"""Of a role's colour against the background; in a light theme colours are darkened until they have it."""

UNSEEN = 12
"""How far each of red, green and blue may be off, of 255, before a backdrop is no longer the same colour."""

DIMMED = 0.55
"""How much of a dimmed colour is left; the rest is background."""


def depth_of(app: App[Any]) -> Depth:
    """Return how many colours to draw with: `NO_COLOR`, the theme and the terminal have a say.

    Where rich knows nothing of the terminal, textual writes full colours, and so do we.
    """
    if app.no_color:
        return "none"
    if app.native_ansi_color or app.console.color_system == "standard":
        return "16"
    return "full"


def role_style(style: str, app: App[Any]) -> Style:
    """Return what a span's style looks like in an app: colour and attributes, without a background.

    Args:
        style: Modifiers and a role; a role that the palette does not have is drawn plain.
        app: Where it is shown.
    """
    background = app.theme_variables.get("background", "")
    return _role_style(style, depth_of(app), background)


def backdrop(widget: Widget) -> Style:
    """Return what lies below a widget's cells, as the terminal gets it: its colours after the app's filters."""
    _, background = widget.background_colors
    color = widget.visual_style.foreground
    style = Style.from_color(
        None if color is None else color.rich_color,
        None if background.a == 0 else background.rich_color,
    )
    segments = [Segment(" ", style)]
    for line_filter in widget.app.get_line_filters():
        segments = line_filter.apply(segments, background)
    found = segments[0].style or Style.null()
    return Style.from_color(_sent(found.color), _sent(found.bgcolor))


def strip_of(chars: str, styles: Sequence[str], app: App[Any], under: Style) -> Strip:
    """Return cells as a strip in as few segments as can be: a blank takes the style of what stands before it.

    Args:
        chars: A character a cell.
        styles: A span's style a cell.
        app: Where it is shown.
        under: What `backdrop` returned.
    """
    segments: list[Segment] = []
    start, blank = 0, Style(bgcolor=under.bgcolor)
    for style, cells in groupby(_calm(chars, styles)):
        end = start + sum(1 for _ in cells)
        text = chars[start:end]
        unseen = text.isspace() and not _on_blanks(style)
        segments.append(Segment(text, blank if unseen else under + role_style(style, app)))
        start = end
    return Strip(segments, len(chars))


def _calm(chars: str, styles: Sequence[str]) -> list[str]:
    """Return styles with those of blanks replaced by a neighbour's: nobody sees them, and each change costs bytes."""
    calm = list(styles)
    last: str | None = None
    for index, char in enumerate(chars):
        if char != " " or _on_blanks(styles[index]):
            last = styles[index]
        elif last is not None and not _on_blanks(last):
            calm[index] = last
        else:
            last, calm[index] = None, ""
    following: str | None = None
    for index in range(len(chars) - 1, -1, -1):  # blanks before the first character
        if chars[index] == " " and calm[index] == "" and following is not None and not _on_blanks(following):
            calm[index] = following
        else:
            following = calm[index]
    return calm


@lru_cache(256)
def _on_blanks(style: str) -> bool:
    return any(word in SHOWS_ON_BLANKS for word in style.split())


@lru_cache(1024)
def _role_style(style: str, depth: Depth, background: str) -> Style:
    *before, role = style.split() or [""]
    colour = PALETTE.get(role)  # `dim` alone is a role, before another one it is a modifier
    words = before if colour else [*before, role]
    attributes: dict[str, Any] = {word: True for word in words if word in MODIFIERS}
    if colour is None or depth == "none":
        return Style(**attributes)
    if depth == "16":
        return Style(color=colour.ansi, **attributes)
    try:
        under = Color.parse(background) if background else Color(0, 0, 0)
    except ValueError:
        under = Color(0, 0, 0)
    full = _readable(Color.parse(colour.full), under)
    if attributes.pop("dim", False):
        full = under.blend(full, DIMMED)
    return Style(color=_short(full.rich_color), **attributes)


def _readable(color: Color, under: Color) -> Color:
    """Darken or lighten a colour until it stands out from what is under it."""
    target = Color(0, 0, 0) if _luminance(under) > 0.5 else Color(255, 255, 255)
    for part in range(10):
        blended = color.blend(target, part / 10)
        light, dark = sorted((_luminance(blended), _luminance(under)), reverse=True)
        if (light + 0.05) / (dark + 0.05) >= LEAST_CONTRAST:
            return blended
    return target


def _luminance(color: Color) -> float:
    """Relative luminance as WCAG 2 defines it."""

    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = color.normalized
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def _short(color: RichColor) -> RichColor:
    """Return the nearest of the 256 colours: half the bytes of a full one, in every span that is sent."""
    return _nearest(*(color.triplet or color.get_truecolor()))


@lru_cache(1024)
def _nearest(red: int, green: int, blue: int) -> RichColor:
    def distance(number: int) -> int:
        other = RichColor.from_ansi(number).get_truecolor()
        return (red - other[0]) ** 2 + (green - other[1]) ** 2 + (blue - other[2]) ** 2

    return RichColor.from_ansi(min(range(16, 256), key=distance))  # the first 16 are anything a user likes


def _sent(color: RichColor | None) -> RichColor | None:
    """Return a colour as it is sent: none where it is the terminal's own, short where nobody sees a difference."""
    if color is None or color.is_default:
        return None
    if color.triplet is None:
        return color
    short = _short(color)
    parts = zip(color.triplet, short.get_truecolor(), strict=True)
    return short if all(abs(part - other) <= UNSEEN for part, other in parts) else color
