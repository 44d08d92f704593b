"""Where the panes stand, at any size: as many as fit side by side and below each other, the others as one line each."""

from collections.abc import Sequence
from dataclasses import dataclass

TWO_COLUMNS_FROM = 120
LEAST_HEIGHT = 9
"""Of a chart pane, frame included, when several stand below each other."""
LOG_HEIGHT = 8
"""Of the log where it stands as a strip below the charts, frame included."""
LEAST_LARGE = 7
"""Height of a pane standing alone below which the meters give way."""


@dataclass(frozen=True, slots=True)
class Box:
    """Cells from (x, y), frame included."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The panes that are drawn, where, and those of which one line is shown."""

    panes: dict[str, Box]
    meters: dict[str, Box]


def arrange(names: Sequence[str], active: str, width: int, height: int, *, zoomed: bool) -> Arrangement:
    """Place panes in a rectangle.

    Args:
        names: Panes that are switched on, in their order; `log` is a strip where there is room.
        active: The one that is shown in any case.
        width: Of the rectangle, in cells.
        height: Of the rectangle.
        zoomed: Show the active one alone.
    """
    if not names or width < 1 or height < 1:
        return Arrangement({}, {})
    if active not in names:
        active = names[0]
    if zoomed or len(names) == 1:
        return Arrangement({active: Box(0, 0, width, height)}, {})
    charts = [name for name in names if name != "log"]
    log = LOG_HEIGHT if "log" in names else 0
    columns = 2 if width >= TWO_COLUMNS_FROM and len(charts) > 1 else 1
    lines = -(-len(charts) // columns)
    if lines * LEAST_HEIGHT + log <= height:
        return _all(charts, columns, log, width, height)
    return _some(names, active, columns, width, height)


def _all(charts: Sequence[str], columns: int, log: int, width: int, height: int) -> Arrangement:
    lines = -(-len(charts) // columns)
    boxes: dict[str, Box] = {}
    for line in range(lines):
        top = (height - log) * line // lines
        bottom = (height - log) * (line + 1) // lines
        in_line = charts[line * columns : (line + 1) * columns]
        for column, name in enumerate(in_line):
            left, right = width * column // len(in_line), width * (column + 1) // len(in_line)
            boxes[name] = Box(left, top, right - left, bottom - top)
    if log:
        boxes["log"] = Box(0, height - log, width, log)
    return Arrangement(boxes, {})


def _some(names: Sequence[str], active: str, columns: int, width: int, height: int) -> Arrangement:
    """Show the active pane, on a wide screen with the chart after it, and a line each of the others."""
    large = [active]
    if columns == 2:
        others = [name for name in names if name not in (active, "log")]
        at = names.index(active)
        large += sorted(others, key=lambda name: (names.index(name) - at) % len(names))[:1]
        large.sort(key=names.index)
    small = [name for name in names if name not in large]
    room = max(0, height - LEAST_LARGE)
    small = small[: max(0, room)]
    tall = height - len(small)
    edges = [width * column // len(large) for column in range(len(large) + 1)]
    panes = {
        name: Box(left, 0, right - left, tall) for name, left, right in zip(large, edges[:-1], edges[1:], strict=True)
    }
    return Arrangement(panes, {name: Box(0, tall + line, width, 1) for line, name in enumerate(small)})
