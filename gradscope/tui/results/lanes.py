"""The timeline of one step: lanes by thread and stream, and their drawing as a pure function.

A lane has one strand a depth of nesting; the slices of a strand do not overlap, so that each column of the screen costs
two binary searches, however many slices there are.
"""

from __future__ import annotations  # array cannot be subscripted while a module is loaded before Python 3.12

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from gradscope.tui.charts.cells import Canvas, Row
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.palette import PHASE_ROLES
from gradscope.tui.panes.base import one_cell

PHASE_PREFIX = "gradscope: "
CURVES = 6
"""Roles that names are spread over."""
LEAST_NAME = 4
"""Cells from which on a slice holds its name."""
ENGINE_PREFIX = "autograd::engine::evaluate_function: "
FULL = 0.9
"""Of a cell: covered so much it is drawn whole."""
LABEL_SHARE = 6
LABEL_MOST = 18
TICK_CELLS = 14
LEAST_SPAN_NS = 50


@dataclass(frozen=True, slots=True)
class Slice:
    """One call or kernel."""

    name: str
    start_ns: int
    end_ns: int

    @property
    def dur_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Strand:
    """Slices of one depth, by time, none over another."""

    starts: array[int]
    ends: array[int]
    names: array[int]
    """Indices into `Lanes.names`."""

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def covered(self) -> array[int]:
        """Time of all slices before each one, and of all of them."""
        sums, total = array("q", [0]), 0
        for start, end in zip(self.starts, self.ends, strict=True):
            total += end - start
            sums.append(total)
        return sums

    def within(self, start: float, end: float) -> tuple[int, int]:
        """Return first and last (exclusive) slice that overlap a time."""
        return bisect_right(self.ends, start), bisect_left(self.starts, end)


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread of the host or a stream of a device."""

    label: str
    on_device: bool
    strands: tuple[Strand, ...]


@dataclass(frozen=True)
class Lanes:
    """All that ran in one step."""

    step: int | None
    """`None`: the whole trace, which marks no steps."""
    steps: tuple[int, ...]
    """Numbers of the steps there are."""
    start_ns: int
    end_ns: int
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    count: int
    """Slices."""

    @cached_property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """Lane and depth of each line."""
        return tuple((index, depth) for index, lane in enumerate(self.lanes) for depth in range(len(lane.strands)))

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """A colour by name: a phase's own, or one that stays the same for a name."""
        return tuple(_role(name) for name in self.names)

    @property
    def span_ns(self) -> int:
        """How long the step took."""
        return max(1, self.end_ns - self.start_ns)

    def strand(self, row: int) -> Strand:
        """Return the slices of a line."""
        lane, depth = self.rows[row]
        return self.lanes[lane].strands[depth]

    def at(self, row: int, time_ns: float) -> int | None:
        """Return the index of the slice at a time in a line; `None` where there is none."""
        strand = self.strand(row)
        place = bisect_right(strand.starts, time_ns) - 1
        return place if place >= 0 and time_ns <= strand.ends[place] else None

    def slice(self, row: int, index: int) -> Slice:
        """Return one slice."""
        strand = self.strand(row)
        return Slice(self.names[strand.names[index]], strand.starts[index], strand.ends[index])


@dataclass(frozen=True, slots=True)
class Viewport:
    """What of the lanes is seen, and where the cursor is."""

    start_ns: float
    end_ns: float
    row: int = 0
    """Line of the cursor, counted over all lanes."""
    cursor_ns: float = 0.0
    top: int = 0
    """First line that is shown."""

    @property
    def span_ns(self) -> float:
        """Time that is seen."""
        return max(1.0, self.end_ns - self.start_ns)


def strands(slices: Iterable[tuple[int, int, int]]) -> tuple[Strand, ...]:
    """Put slices (start, end, name's index), sorted by start and the longer first, on as few strands as nest them."""
    open_ends: list[int] = []
    made: list[tuple[array[int], array[int], array[int]]] = []
    for start, end, name in slices:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        depth = len(open_ends)
        if depth == len(made):
            made.append((array("q"), array("q"), array("q")))
        starts, ends, names = made[depth]
        starts.append(start)
        ends.append(end)
        names.append(name)
        open_ends.append(end)
    return tuple(Strand(*columns) for columns in made)


def plot_width(width: int) -> int:
    """Return the cells of a drawing `width` wide that are time; the others hold the lanes' names."""
    return max(1, width - label_width(width))


def label_width(width: int) -> int:
    """Return the cells that the lanes' names take."""
    return min(LABEL_MOST, max(8, width // LABEL_SHARE))


def draw(lanes: Lanes, view: Viewport, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """Draw lanes below a line of times: `height` rows, each `width` wide.

    Args:
        lanes: Of one step.
        view: What of it.
        width: Cells.
        height: Rows.
        glyphs: Characters to draw with.
    """
    canvas = Canvas(width, height)
    left, cells = label_width(width), plot_width(width)
    pen = _Pen(canvas, lanes, view, left, cells, glyphs)
    _ruler(pen)
    cursor_x = column_of(view, cells)
    for y in range(1, height):
        row = view.top + y - 1
        if row >= len(lanes.rows):
            break
        lane, depth = lanes.rows[row]
        if depth == 0 or y == 1:
            label = one_cell(lanes.lanes[lane].label)[: left - 1]
            canvas.text(0, y, label, "bold" if lane == lanes.rows[min(view.row, len(lanes.rows) - 1)][0] else "axis")
        chosen = lanes.at(row, view.cursor_ns) if row == view.row else None
        if cursor_x is not None:
            canvas.put(left + cursor_x, y, glyphs.cursor, "axis")
        _strand(pen, row, y, chosen)
        if row == view.row and cursor_x is not None and chosen is None:
            canvas.put(left + cursor_x, y, glyphs.cursor, "bold cursor")
    return canvas.rows()


def column_of(view: Viewport, cells: int) -> int | None:
    """Return the column of the cursor; `None` where it is out of sight."""
    column = int((view.cursor_ns - view.start_ns) / view.span_ns * cells)
    return column if 0 <= column < cells else None


@dataclass(frozen=True, slots=True)
class _Pen:
    """Where and how lines are drawn."""

    canvas: Canvas
    lanes: Lanes
    view: Viewport
    left: int
    cells: int
    glyphs: Glyphs


def _strand(pen: _Pen, row: int, y: int, chosen: int | None) -> None:
    strand, names = pen.lanes.strand(row), pen.lanes.names
    for start, end, index, share in _segments(strand, pen.view, pen.cells):
        role = pen.lanes.roles[strand.names[index]]
        style = "reverse cursor" if index == chosen else f"reverse {role}"
        length = end - start
        if length == 1 and share < FULL and index != chosen:
            pen.canvas.put(pen.left + start, y, _density(share, pen.glyphs), role)
            continue
        edge = (pen.glyphs.eighths[:1] or "|") if length > 1 else " "
        name = _short(one_cell(names[strand.names[index]]), length - 1) if length >= LEAST_NAME else ""
        pen.canvas.text(pen.left + start, y, f"{edge}{name:<{length - 1}}", style)


def _short(name: str, cells: int) -> str:
    """Return a name in at most so many cells: what stands before its last part goes first."""
    if len(name) > cells:
        name = name.removeprefix(ENGINE_PREFIX)
    if len(name) > cells:
        name = name.rpartition("::")[2].rpartition(": ")[2]
    return name[:cells]


def _segments(strand: Strand, view: Viewport, cells: int) -> Iterator[tuple[int, int, int, float]]:
    """Yield runs of columns that one slice fills: first, last (exclusive), the slice, its columns' covered share."""
    per_cell = view.span_ns / cells
    column = 0
    while column < cells:
        start = view.start_ns + column * per_cell
        first, last = strand.within(start, start + per_cell)
        if first >= last:
            if first >= len(strand):
                return
            column = max(column + 1, int((strand.starts[first] - view.start_ns) / per_cell))  # skip what is empty
            continue
        index = _largest(strand, first, last, start, start + per_cell)
        end = column + 1
        if strand.ends[index] > start + per_cell:  # it goes on: up to the column that it fills less than half of
            end = max(end, min(cells, round((strand.ends[index] - view.start_ns) / per_cell)))
        yield column, end, index, _share(strand, first, last, start, start + per_cell)
        column = end


def _largest(strand: Strand, first: int, last: int, start: float, end: float) -> int:
    """Return the slice that covers most of a column; of very many, one of the first."""
    return max(
        range(first, min(last, first + 8)),
        key=lambda index: min(strand.ends[index], end) - max(strand.starts[index], start),
    )


def _share(strand: Strand, first: int, last: int, start: float, end: float) -> float:
    """Return how much of a column is covered, 0 to 1."""
    covered = strand.covered[last] - strand.covered[first]
    before = max(0.0, start - strand.starts[first])
    after = max(0.0, strand.ends[last - 1] - end)
    return max(0.0, min(1.0, (covered - before - after) / (end - start)))


def _density(share: float, glyphs: Glyphs) -> str:
    return glyphs.fills[max(0, min(3, int((1.0 - share) * 4)))]


def _role(name: str) -> str:
    phase = name.removeprefix(PHASE_PREFIX)
    if phase != name and phase in PHASE_ROLES:
        return phase
    return f"curve_{crc32(name.encode('utf-8', 'replace')) % CURVES}"


def _ruler(pen: _Pen) -> None:
    view, lanes, glyphs = pen.view, pen.lanes, pen.glyphs
    unit, size = time_unit(view.span_ns)
    step = round_step(view.span_ns / max(1, pen.cells // TICK_CELLS))
    number = int(-(-(view.start_ns - lanes.start_ns) // step))
    title = "all" if lanes.step is None else f"step {lanes.step}"
    pen.canvas.text(0, 0, title[: pen.left - 1], "bold")
    pen.canvas.text(pen.left, 0, glyphs.horizontal * pen.cells, "axis")
    while (time_ns := lanes.start_ns + number * step) <= view.end_ns:
        x = int((time_ns - view.start_ns) / view.span_ns * pen.cells)
        text = f"{glyphs.tick}{number * step / size:.10g} {unit}"
        if x + len(text) <= pen.cells:
            pen.canvas.text(pen.left + x, 0, text, "axis")
        number += 1


def time_unit(span_ns: float) -> tuple[str, float]:
    """Return the unit of an axis that long, and how many ns one is."""
    for name, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if span_ns >= 2 * size:
            return name, size
    return "ns", 1.0


def round_step(least: float) -> float:
    """Return the next of 1, 2, 5 times a power of 10."""
    power = 1.0
    while power * 10 <= least:
        power *= 10
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least) if least > 1 else 1.0


def exact(time_ns: float) -> str:
    """Return a time to the nanosecond, in ms."""
    return f"{time_ns / 1e6:,.6f}".replace(",", " ")


def whole(lanes: Lanes) -> Viewport:
    """Return the view of a whole step, the cursor at its beginning."""
    return Viewport(lanes.start_ns, lanes.end_ns, cursor_ns=lanes.start_ns)


def zoomed(lanes: Lanes, view: Viewport, factor: float) -> Viewport:
    """Return a view of `factor` times the time, the cursor where it was on the screen."""
    span = max(LEAST_SPAN_NS, min(lanes.span_ns, view.span_ns * factor))
    at = min(1.0, max(0.0, (view.cursor_ns - view.start_ns) / view.span_ns))
    return shown(lanes, view, view.cursor_ns - at * span, span)


def panned(lanes: Lanes, view: Viewport, share: float) -> Viewport:
    """Return a view moved by a share of what is seen, the cursor with it."""
    moved = shown(lanes, view, view.start_ns + share * view.span_ns, view.span_ns)
    cursor = view.cursor_ns + moved.start_ns - view.start_ns
    if moved.start_ns == view.start_ns:  # at an end: only the cursor moves
        cursor = view.cursor_ns + share * view.span_ns
    return with_cursor(lanes, moved, cursor)


def with_cursor(lanes: Lanes, view: Viewport, cursor_ns: float) -> Viewport:
    """Return the view with the cursor at a time, moved as little as shows it."""
    cursor = min(float(lanes.end_ns), max(float(lanes.start_ns), cursor_ns))
    start = view.start_ns
    if cursor < start or cursor >= view.end_ns:
        start = cursor - view.span_ns / 2
    moved = shown(lanes, view, start, view.span_ns)
    return Viewport(moved.start_ns, moved.end_ns, view.row, cursor, view.top)


def shown(lanes: Lanes, view: Viewport, start_ns: float, span_ns: float) -> Viewport:
    """Return a view of a time, kept within the step."""
    start = min(max(start_ns, lanes.start_ns), lanes.end_ns - span_ns)
    return Viewport(start, start + span_ns, view.row, view.cursor_ns, view.top)


def with_row(lanes: Lanes, view: Viewport, row: int, height: int) -> Viewport:
    """Return the view with the cursor in another line, scrolled as little as shows it in `height` lines."""
    row = max(0, min(len(lanes.rows) - 1, row))
    top = max(min(view.top, row), row - max(1, height) + 1)
    top = max(0, min(top, len(lanes.rows) - height))
    return Viewport(view.start_ns, view.end_ns, row, view.cursor_ns, top)


def neighbour(lanes: Lanes, view: Viewport, direction: int) -> int | None:
    """Return the slice before or after the cursor in its line; `None` where there is none."""
    strand: Sequence[int] = lanes.strand(view.row).starts
    here = lanes.at(view.row, view.cursor_ns)
    place = bisect_right(strand, view.cursor_ns) - 1 if here is None else here
    place = place + direction if here is not None or direction > 0 else place
    return place if 0 <= place < len(strand) else None
