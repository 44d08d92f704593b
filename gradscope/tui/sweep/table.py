"""From a sweep's rows to a heat map: which axes lie down and which across, each cell's number, what is best. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradscope.analysis.axes import Axis, grouped, label, scene
from gradscope.analysis.pivot import across_of, better, figure, grouped_repeats
from gradscope.analysis.quantities import QUANTITIES, Unit, shown_value
from gradscope.analysis.results import Row
from gradscope.core.text import display_width, visible
from gradscope.core.units import format_ms
from gradscope.tui.charts.heat import NUMBER_CELLS, Entry, HeatTable, Place
from gradscope.tui.charts.scale import Quantity, Scale
from gradscope.tui.sweep.view import SweepView, state_of

FIRST_METRICS = ("loss_last", "step_time_ms", "peak_memory_bytes", "energy_per_step_j")
"""What is shown first; the first three also while there is nothing of them yet."""

ALWAYS = 3

MORE_METRICS = (
    "energy_per_sample_j",
    "ms_per_sample",
    "samples_per_s",
    "tokens_per_s",
    "loss_min",
    "peak_activations_bytes",
    "gpu_busy_pct",
    "cpu_pct",
    "power_w",
    "model_flops_per_s",
    "audit_error",
)

LABELS = {"ms_per_sample": "time a sample", "loss_last": "loss"}
"""Names of numbers that are no quantities of their own, or have a shorter name here."""

SCALES: dict[Unit, Quantity] = {
    "bytes": "bytes",
    "ms": "ms",
    "per_s": "per_second",
    "pct": "pct",
    "watt": "watt",
    "joule": "joule",
    "number": "number",
    "count": "count",
    "flops": "count",
}


@dataclass(frozen=True)
class SweepTable:
    """A heat map and the rows behind each of its cells."""

    metric: str
    unit: str
    """Of all its numbers."""
    heat: HeatTable
    cells: tuple[tuple[tuple[Row, ...], ...], ...]
    """By row and column; the repeats of a cell, none where there is no such cell."""

    @cached_property
    def places(self) -> dict[str, Place]:
        """Row and column of each cell, by its hash."""
        return {
            row.cell: (y, x) for y, line in enumerate(self.cells) for x, repeats in enumerate(line) for row in repeats
        }

    def at(self, place: Place) -> tuple[Row, ...]:
        """Return the repeats of a cell."""
        y, x = place
        return self.cells[y][x] if y < len(self.cells) and x < len(self.cells[y]) else ()


def metrics_of(view: SweepView) -> list[str]:
    """Return what the map can show, in the order in which a key goes through it."""
    measured = {name for row in view.rows if row.done for name, value in row.values.items() if value is not None}
    first = [name for place, name in enumerate(FIRST_METRICS) if place < ALWAYS or name in measured]
    return [*first, *(name for name in MORE_METRICS if name in measured)]


def metric_label(metric: str) -> str:
    """Return what a number is called."""
    return LABELS.get(metric) or (QUANTITIES[metric].label if metric in QUANTITIES else metric)


def metric_text(metric: str, value: float | None) -> str:
    """Return a number with its unit."""
    return shown_value(QUANTITIES[metric], value) if metric in QUANTITIES else format_ms(value)


def first_across(axes: Sequence[Axis]) -> int:
    """Return which axis lies across at first."""
    return next((place for place, axis in enumerate(axes) if axis is across_of(axes)), 0)


def sweep_table(view: SweepView, metric: str, across: int, marked: Collection[str] = ()) -> SweepTable:
    """Lay a sweep out.

    Args:
        view: The sweep.
        metric: Whose numbers.
        across: Place of the axis that lies across; the others lie down, those that decide what competes first.
        marked: Hashes of cells that the user marked.
    """
    axis = view.axes[across % len(view.axes)] if view.axes else None
    down = sorted((one for one in view.axes if one is not axis), key=lambda one: not one.decides_loss)
    scenes = scene(view.axes)
    order = sorted(view.rows, key=lambda row: [one.place_of(row) for one in down])
    lines = grouped(order, down) if down or not order else {"": order}
    heads = [_plain(text) for text in axis.labels] if axis else [""]
    fronts = {cell for one in view.contenders if one.on_front for cell in one.cells}
    groups: dict[str, int] = {}
    matrix: list[tuple[tuple[Row, ...], ...]] = []
    for members in lines.values():
        by_head: dict[int, list[Row]] = {}
        for row in members:
            by_head.setdefault(axis.place_of(row) if axis else 0, []).append(row)
        matrix.append(tuple(tuple(by_head.get(place, ())) for place in range(len(heads))))
    best = {name: _best(members, metric) for name, members in grouped(view.rows, scenes).items()}
    unit, size = _unit(
        metric, [value for line in matrix for cell in line if (value := _value(cell, metric)) is not None]
    )
    marks = _Marks(fronts, marked)
    entries = [
        [_entry(cell, metric, size, best[label(cell[0], scenes)], marks) if cell else None for cell in line]
        for line in matrix
    ]
    shared = [one for one in scenes if one is not axis]
    for members in lines.values():
        groups.setdefault(label(members[0], shared), len(groups))
    return SweepTable(
        metric=metric,
        unit=unit,
        heat=HeatTable(
            down=[_plain(one.title) for one in down] or [""],
            labels=[[_plain(one.label_of(members[0])) for one in down] or [""] for members in lines.values()],
            heads=heads,
            entries=entries,
            groups=[groups[label(members[0], shared)] for members in lines.values()],
            lower_is_better=better(metric) == "lower",
        ),
        cells=tuple(matrix),
    )


def _value(cell: Sequence[Row], metric: str) -> float | None:
    value = figure(cell, metric).value if cell else None
    return value if value is not None and math.isfinite(value) else None


def _best(rows: Sequence[Row], metric: str) -> float | None:
    values = [value for cell in grouped_repeats(rows) if (value := _value(cell, metric)) is not None]
    if len(values) < 2:
        return None
    return min(values) if better(metric) == "lower" else max(values)


@dataclass(frozen=True, slots=True)
class _Marks:
    fronts: Collection[str]
    marked: Collection[str]


def _entry(cell: Sequence[Row], metric: str, size: float, best: float | None, marks: _Marks) -> Entry:
    is_marked = any(row.cell in marks.marked for row in cell)
    value = _value(cell, metric)
    if value is not None:
        return Entry(
            value,
            number(value / size),
            best=value == best,
            on_front=any(row.cell in marks.fronts for row in cell),
            marked=is_marked,
        )
    unlike = [row for row in cell if not row.done]
    if not unlike:
        return Entry(text="n/a", marked=is_marked)
    states = [state_of(row) for row in unlike]
    state = "running" if "running" in states else Counter(states).most_common(1)[0][0]
    word = next(row.status for row in unlike if state_of(row) == state)
    return Entry(text="" if state == "waiting" else word, state=state, marked=is_marked)


def _unit(metric: str, values: Sequence[float]) -> tuple[str, float]:
    """Return the one unit that all numbers of a map are in, that of their median, and how much one of it is."""
    quantity = SCALES[QUANTITIES[metric].unit] if metric in QUANTITIES else "ms"
    sizes = sorted(abs(value) for value in values)
    unit = Scale(0.0, sizes[len(sizes) // 2] if sizes else 0.0, quantity).unit
    name = f"{unit.name}FLOP/s" if metric in QUANTITIES and QUANTITIES[metric].unit == "flops" else unit.name
    return name, unit.size


def number(value: float) -> str:
    """Return a number in at most `NUMBER_CELLS` cells, with three digits where that can be: `0.123`, `12.0`, `1230`."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 10.0 ** (NUMBER_CELLS - 1):
        text = f"{value:#.3g}" if abs(value) < 999.5 else f"{value:.0f}"
        return text.rstrip(".")[:NUMBER_CELLS]
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    text = f"{mantissa}e{int(exponent)}"
    return (
        text
        if len(text) <= NUMBER_CELLS
        else f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    )


def _plain(text: str) -> str:
    """Return foreign text with every character one cell wide."""
    return "".join(char if display_width(char) == 1 else "?" for char in visible(text))
