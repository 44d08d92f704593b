"""Pivot tables: one number of a grid, some axes down and one across."""

from collections import Counter
from collections.abc import Sequence

from gradscope.analysis.axes import OPTIMIZER, Axis, grouped, scene
from gradscope.analysis.comparison import Figure
from gradscope.analysis.quantities import QUANTITIES
from gradscope.analysis.results import Row, is_timed
from gradscope.analysis.verdict_runs import known
from gradscope.core.metrics import METRICS
from gradscope.core.statistics import quantile
from gradscope.core.summary import Record


class Entry(Record, frozen=True, kw_only=True):
    """One cell of a pivot table, over its repeats."""

    figure: Figure
    """Median of the repeats that are done, with the lowest and the highest."""
    planned: int
    """Repeats there should be."""
    state: str = ""
    """What became of it, where that is not `done` of all repeats: `oom`, `missing`, `2 of 3 done`, ..."""
    reason: str | None = None
    disturbed: bool = False
    """Whether others used the card or the core of a repeat, and the number depends on that."""
    best: bool = False
    """Whether no other of its group is better; groups are what competes: equal models and data."""


class Pivot(Record, frozen=True, kw_only=True):
    """One table."""

    metric: str
    down: list[str]
    """What the axes down are called."""
    across: str
    """What the axis across is called; empty where there is none."""
    labels: list[list[str]]
    """One a row: its value on each of the axes down."""
    heads: list[str]
    entries: list[list[Entry | None]]
    """`None` where the grid has no such cell."""


def pivot(rows: Sequence[Row], metric: str, axes: Sequence[Axis]) -> Pivot:
    """Lay one number out over a grid: optimizers across where they vary, else the axis with the most values.

    Args:
        rows: All cells, missing ones too.
        metric: A name in `Row.values`.
        axes: The grid's axes.
    """
    across = across_of(axes)
    down = [axis for axis in axes if axis is not across]
    by_row = grouped(sorted(rows, key=lambda row: [axis.place_of(row) for axis in down]), down)
    competing = {name: _best(group, metric) for name, group in grouped(rows, scene(axes)).items()}
    heads = list(across.labels) if across else [""]
    entries = []
    for group in by_row.values():
        by_head = grouped(group, [across]) if across else {"": group}
        best = competing[next(iter(grouped(group, scene(axes))))]
        entries.append([_entry(by_head[head], metric, best) if head in by_head else None for head in heads])
    return Pivot(
        metric=metric,
        down=[axis.title for axis in down],
        across=across.title if across else "",
        labels=[[axis.label_of(group[0]) for axis in down] for group in by_row.values()],
        heads=heads,
        entries=entries,
    )


def across_of(axes: Sequence[Axis]) -> Axis | None:
    """Return the axis that tables have across."""
    choices = [axis for axis in axes if not axis.decides_loss] or list(axes)
    named = next((axis for axis in choices if axis.keys[0] == OPTIMIZER), None)
    return named or max(choices, key=lambda axis: len(axis.values), default=None)


def figure(repeats: Sequence[Row], metric: str) -> Figure:
    """Return one number of a cell over its repeats: the median, the lowest and the highest."""
    values = sorted(known([row.value(metric) for row in repeats]))
    if not values:
        return Figure(value=None)
    return Figure(value=quantile(values, 0.5), low=values[0], high=values[-1], runs=len(values))


def state(repeats: Sequence[Row]) -> str:
    """Return what became of a cell; empty where all its repeats are done."""
    done = sum(row.done for row in repeats)
    if done == len(repeats):
        return ""
    if done:
        return f"{done} of {len(repeats)} done"
    return Counter(row.status for row in repeats).most_common(1)[0][0]


def better(metric: str) -> str:
    """Return whether `lower` or `higher` is wanted."""
    if metric in METRICS:
        return METRICS[metric].better
    return (QUANTITIES[metric].better if metric in QUANTITIES else None) or "lower"


def _best(rows: Sequence[Row], metric: str) -> float | None:
    cells = grouped_repeats(rows)
    values = known([figure(cell, metric).value for cell in cells])
    if not values:
        return None
    return min(values) if better(metric) == "lower" else max(values)


def grouped_repeats(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each cell."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(repr(sorted(row.axes.items())), []).append(row)
    return list(found.values())


def _entry(repeats: Sequence[Row], metric: str, best: float | None) -> Entry:
    found = figure(repeats, metric)
    unlike = next((row for row in repeats if not row.done), None)
    return Entry(
        figure=found,
        planned=len(repeats),
        state=state(repeats),
        reason=None if unlike is None else unlike.reason,
        disturbed=is_timed(metric) and any(row.done and row.disturbed for row in repeats),
        best=found.value is not None and found.value == best,
    )
