"""Sections of `gradscope trace` as text: a head line, aligned rows, bars; names made visible and shortened.

Nothing here knows what the numbers mean. At most `width` columns, no colour, ASCII where stdout shows no more.
"""

import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradscope.core.text import display_width, visible
from gradscope.core.units import MISSING, format_ms

if TYPE_CHECKING:
    from gradscope.trace.frames import Trace

GAP = "  "
INDENT = "  "
LEAST_NAME = 12
"""Columns that a name keeps, however narrow the terminal: cells are left out before."""
LEAST_WIDTH = 30
"""Of a terminal; a narrower one wraps by itself."""
NARROW = 60
"""From this width down a title stands in a line of its own where it would be cut."""
LEAST_BAR = 8
BESIDE_BARS = 46
"""Columns of a row that are not its bar."""
NO_BREAK = "\u00a0"
UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|[num]?s|[KMGTP]?i?B)(?![A-Za-z]))")
"""The space between a number and its unit: no line ends there."""
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that differ between a terminal with UTF-8 and one without."""

    dot: str
    cut: str
    full: str
    eighths: str


UNICODE = Glyphs("·", "…", "█", "▏▎▍▌▋▊▉")
ASCII = Glyphs("-", "..", "#", "")


@dataclass(frozen=True, slots=True)
class Pen:
    """How text is laid out."""

    width: int = 80
    glyphs: Glyphs = UNICODE
    top: int = 8
    """Rows of a table before the rest is only counted."""
    detailed: bool = False
    """Whether sections were asked for by name: then none leaves out text to stay short."""

    def joined(self, *words: str | None) -> str:
        """Return words with dots between them; missing ones are left out."""
        return f" {self.glyphs.dot} ".join(word for word in words if word)

    def name(self, text: str | None, width: int) -> str:
        """Return foreign text in at most `width` columns: made visible, and shortened in the middle."""
        return shortened(self.plain(text if text else "(no name)"), width, self.glyphs.cut)

    def plain(self, text: str) -> str:
        """Return foreign text as the terminal shows it: what that obeys, or has no character for, is written out."""
        shown = visible(text)
        return shown if self.glyphs is not ASCII else shown.encode("ascii", "backslashreplace").decode()

    @property
    def bar_width(self) -> int:
        """Columns of a bar that stands for the whole."""
        return max(LEAST_BAR, self.width - BESIDE_BARS)

    def bar(self, share: float | None) -> str:
        """Return a bar for a share of the whole, from 0 to 1; never empty for more than nothing."""
        if share is None:
            return ""
        steps = len(self.glyphs.eighths) + 1
        filled = round(max(0.0, min(1.0, share)) * self.bar_width * steps)
        filled = max(1, filled) if share > 0 and self.glyphs.eighths else filled
        full, part = divmod(filled, steps)
        return self.glyphs.full * full + (self.glyphs.eighths[part - 1] if part else "")

    def wrapped(self, text: str, first: str = INDENT, rest: str | None = None) -> list[str]:
        """Return a sentence as lines; `first` and `rest` stand before them."""
        rest = " " * len(first) if rest is None else rest
        bound = UNIT.sub(NO_BREAK, self.plain(text))
        lines = textwrap.wrap(bound, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
        return [line.replace(NO_BREAK, " ") for line in lines] or [first.rstrip()]

    def opposite(self, left: str, right: str) -> list[str]:
        """Return a text on the left and one on the right edge: on one line if there is room, else on two."""
        gap = self.width - display_width(left) - display_width(right)
        if not right:
            return [left]
        if gap >= len(GAP):
            return [left + " " * gap + right]
        if display_width(right) > self.width:
            return [left, *self.wrapped(right)]
        return [left, " " * (self.width - display_width(right)) + right]

    def rows(
        self, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, kept: str | None = None
    ) -> list[str]:
        """Lay out a table under its title: the first column holds names and takes the room that the others leave.

        Args:
            title: Stands in the head line over the names.
            heads: Heads of the other columns.
            rows: A name and as many cells as there are heads.
            left: How many columns, names included, are left-aligned; the others are right-aligned. Of two, the second
                holds bars.
            kept: Head of the column that is left out last, where there is no room.
        """
        title = self.plain(title)
        body = [[row[0], *map(self.plain, row[1:])] for row in rows]
        names = [self.plain(row[0] if row[0] else "(no name)") for row in body]
        longest = max(map(display_width, names), default=0)
        columns = list(zip(heads, *(row[1:] for row in body), strict=True))
        widths = [max(map(display_width, column)) for column in columns]
        if left == 2:
            widths[0] = self.bar_width
        omitted: list[str] = []
        while widths and _taken(widths) + (longest if left == 2 else min(LEAST_NAME, longest)) > self.width:
            others = [number for number in range(len(widths)) if heads[number] != kept]
            place = 0 if left == 2 or not others else others[-1]  # bars only repeat a number; heads go by weight
            omitted += filter(None, [heads[place]])
            heads, left = [*heads[:place], *heads[place + 1 :]], 1
            body = [[*row[: place + 1], *row[place + 2 :]] for row in body]
            del widths[place]
        room = max(min(LEAST_NAME, longest), self.width - _taken(widths))
        skipped = sum(width + len(GAP) for width in widths[: left - 1])  # bars have no head: the title may stand there
        above: list[str] = []
        if self.width <= NARROW and display_width(title) > room + len(INDENT) + skipped:
            above, title = self.wrapped(title, " " * (len(title) - len(title.lstrip()))), ""
        title = shortened(title, room + len(INDENT) + skipped, self.glyphs.cut)
        lines = [*above, self._line(title, heads[left - 1 :], widths[left - 1 :], room + len(INDENT) + skipped, 1)]
        for name, row in zip(names, body, strict=True):
            cell = INDENT + shortened(name, room, self.glyphs.cut)
            lines.append(self._line(cell, row[1:], widths, room + len(INDENT), left))
        return lines + (self.wrapped(f"no room for {', '.join(reversed(omitted))}") if omitted else [])

    @staticmethod
    def _line(first: str, cells: Sequence[str], widths: Sequence[int], room: int, left: int) -> str:
        parts = [first + " " * (room - display_width(first))]  # a long title takes the room of the head beside it
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True), start=1):
            padding = " " * (width - display_width(cell))
            parts.append(cell + padding if number < left else padding + cell)
        return GAP.join(parts).rstrip()

    def missing(self, title: str, why: str) -> list[str]:
        """Return a section that has nothing to show, as one sentence."""
        return self.wrapped(f"{title}: {why}", "", INDENT)

    def note(self, message: str, count: int) -> list[str]:
        """Return a remark, with how often it holds where the remark itself does not say so."""
        counted = count > 1 and str(count) not in message
        return self.wrapped(f"{message} ({count})" if counted else message, f"{INDENT}- ", f"{INDENT}  ")

    def more(self, count: int, thing: str) -> list[str]:
        """Return the line that counts what is not shown; none where everything is."""
        return self.wrapped(f"{self.glyphs.cut} {count} more {thing}; --top shows more") if count > 0 else []


def make_pen(width: int | None, top: int, *, detailed: bool = False) -> Pen:
    """Return a pen for stdout."""
    width = max(LEAST_WIDTH, width or 80)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return Pen(width=width, glyphs=UNICODE if unicode else ASCII, top=top, detailed=detailed)


def _taken(widths: Sequence[int]) -> int:
    """Return the columns that a row takes beside its name."""
    return sum(widths) + len(GAP) * len(widths) + len(INDENT)


def shortened(text: str, width: int, cut: str = "…") -> str:
    """Return text in at most `width` terminal cells; what is too long loses its middle: both ends tell it apart."""
    if display_width(text) <= width:
        return text
    room = max(0, width - display_width(cut))
    tail_room = room // 2
    tail = ""
    for character in reversed(text):
        if display_width(character + tail) > tail_room:
            break
        tail = character + tail
    head = ""
    for character in text:
        if display_width(head + character) > room - display_width(tail):
            break
        head += character
    return head + cut + tail


def no_device(trace: "Trace") -> str:
    """Say that nothing ran on a device, as far as a trace tells."""
    return f"no device events in {trace.extent}"


def ms(duration_ns: float | None) -> str:
    """Format a duration in nanoseconds."""
    return format_ms(None if duration_ns is None else duration_ns / NS_PER_MS)


def ms_or_zero(duration_ns: float | None) -> str:
    """Format a duration where most are none at all."""
    return "0" if duration_ns == 0 else ms(duration_ns)


def pct(part: float | None, whole: float | None) -> str:
    """Format a share of a whole, `n/a` where there is none."""
    if part is None or not whole:
        return MISSING
    return f"{100 * part / whole:.1f} %"


def kernel_name(name: str | None) -> str:
    """Return a kernel's name without what C++ puts around it: what it returns, and the list of its parameters."""
    if name is None:
        return ""
    name = name.removeprefix("void ")
    if not name.endswith(")"):
        return name
    depth = 0
    for place in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if not depth:
            return name[:place]
    return name
