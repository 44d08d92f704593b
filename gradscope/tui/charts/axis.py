"""The frame of a plot: labels of values on its left, one line of steps below it.

Use:

    inner_width, inner_height = inner_size(width, height)
    area = stacked(layers, scale, inner_width, inner_height, glyphs, marks=seen.marks)
    rows = framed(area, scale, glyphs, spread=spread, marks=seen.marks, profiled=seen.profiled)
"""

from collections.abc import Sequence

from gradscope.tui.charts.cells import Row, Span, merged
from gradscope.tui.charts.scale import Scale
from gradscope.tui.charts.spread import Mark, Spread
from gradscope.tui.glyphs import Glyphs

LABELS = 8
"""Cells of the value labels, with the axis itself: `1.5 GiB┤`."""

NARROW_LABELS = 5
"""The same in a narrow plot; units are left out where they do not fit."""

NARROW = 40
"""Below this width a plot is narrow."""

TICK_EVERY_ROWS = 3
TICK_EVERY_COLUMNS = 12


def inner_size(width: int, height: int) -> tuple[int, int]:
    """Return width and height that are left for the plot in a frame of this size; 0 where nothing is."""
    return max(0, width - label_cells(width)), max(0, height - 1)


def label_cells(width: int) -> int:
    """Return how many cells the labels take of a frame that is `width` wide."""
    if width < NARROW_LABELS * 2:
        return 0
    return LABELS if width >= NARROW else NARROW_LABELS


def framed(
    area: Sequence[Row],
    scale: Scale,
    glyphs: Glyphs,
    *,
    width: int,
    spread: Spread | None = None,
    marks: Sequence[Mark] = (),
    profiled: Sequence[bool] = (),
    caption: str = "step",
) -> list[Row]:
    """Return a plot with its axes: one row more than `area`, each `width` wide.

    Args:
        area: Rows of the plot, each as wide as `inner_size` said.
        scale: The value axis.
        glyphs: Characters to draw with.
        width: Of the whole frame.
        spread: How steps lie on the columns; `None` draws the line below without numbers.
        marks: By column, as in `Binned.marks`: columns of warm-up steps and profiled ones have another line below.
        profiled: By column, as in `Binned.profiled`: columns that hold profiled steps, shown or not.
        caption: What the line below counts.
    """
    cells = label_cells(width)
    labels = y_axis(scale, len(area), cells, glyphs)
    below = x_axis(width - cells, glyphs, spread=spread, marks=marks, profiled=profiled, caption=caption)
    return [joined(label, row) for label, row in zip(labels, [*area, below], strict=True)]


def y_axis(scale: Scale, height: int, width: int, glyphs: Glyphs) -> list[Row]:
    """Return the labels of a plot `height` rows high, and of the line below it: `height` + 1 rows, `width` wide.

    The upper edge of a labelled row is the value of its label; that of the line below the plot is the lower end.
    """
    if width < 1:
        return [()] * (height + 1)
    texts: dict[int, str] = {}
    ticks = scale.ticks(2 + (height - 1) // TICK_EVERY_ROWS) if height > 0 else (scale.low,)
    for index, value in enumerate(ticks):
        text = scale.label(value, unit=index == len(ticks) - 1)
        if len(text) > width - 1:
            text = scale.label(value)
        texts.setdefault(height - round(scale.share(value) * height), text)
    if not glyphs.unicode:
        texts = {y: text.encode("ascii", "ignore").decode() for y, text in texts.items()}
    return [
        (Span(f"{texts.get(y, '')[: width - 1]:>{width - 1}}{glyphs.tick if y in texts else glyphs.vertical}", "axis"),)
        for y in range(height + 1)
    ]


def x_axis(
    width: int,
    glyphs: Glyphs,
    *,
    spread: Spread | None = None,
    marks: Sequence[Mark] = (),
    profiled: Sequence[bool] = (),
    caption: str = "step",
) -> Row:
    """Return the line below a plot, `width` wide, with round step numbers that begin at the columns of their steps."""
    if width < 1:
        return ()
    chars = [glyphs.horizontal] * width
    for column, mark in enumerate(marks[:width]):
        if mark is Mark.WARMUP:
            chars[column] = "┄" if glyphs.unicode else "."
    for column, holds in enumerate(profiled[:width]):
        if holds:
            chars[column] = glyphs.profiled
    caption = f" {caption}" if caption else ""
    room = width - len(caption)
    if room >= 2 * len(caption):
        chars[room:] = caption
    else:
        room = width
    if spread is not None:
        for step in step_ticks(spread, most=max(1, room // TICK_EVERY_COLUMNS)):
            column, text = first_column(spread, step), str(step)
            if column + len(text) <= room:
                chars[column : column + len(text)] = text
    return merged(chars, ["axis"] * width)


def first_column(spread: Spread, step: int) -> int:
    """Return the first column of a step."""
    last = spread.column_of(step)
    while last > 0 and spread.start(last - 1) == spread.start(last):
        last -= 1
    return last


def step_ticks(spread: Spread, most: int) -> list[int]:
    """Return the first step and round ones after it, at most `most`."""
    every, power = 1, 1
    while spread.span / every > most:
        factor = next(factor for factor in (1, 2, 5, 10) if factor * power > every)
        every, power = factor * power, power * 10 if factor == 10 else power
    end = spread.first + spread.span
    after = range(every * (spread.first // every + 1), end, every)
    nearest = spread.first + every // 2
    return [spread.first, *(step for step in after if step >= nearest)]


def joined(*rows: Row) -> Row:
    """Return rows side by side, neighbours of one style merged."""
    spans: list[Span] = []
    for span in (span for row in rows for span in row if span.text):
        if spans and spans[-1].style == span.style:
            spans[-1] = Span(spans[-1].text + span.text, span.style)
        else:
            spans.append(span)
    return tuple(spans)
