"""What one setting does: ratios between cells that differ in nothing else, per model, with intervals.

A pair is two runs equal in every setting but those of one axis, seed included. What is averaged are log ratios, so that
the effect is a factor; its interval is Student's t over the pairs, which are of different optimizers, say, and so tells
how far the effect depends on them, noise included. Pairs that differ in the seed alone are averaged first: they are no
independent evidence of what other cells do; only where there is but one such cell are seeds the unit. Times
of runs that others disturbed are in no pair.
"""

import math
from collections.abc import Sequence

from gradscope.analysis.axes import PLAIN, STRATEGY, Axis, Value, grouped, rest_of, scene
from gradscope.analysis.interval import of_mean
from gradscope.analysis.results import Row, is_timed
from gradscope.core.summary import Record

CONFIDENCE = 0.95


class Effect(Record, frozen=True, kw_only=True):
    """How one value of an axis changes one number, against the axis's baseline."""

    axis: str
    """The setting that names the axis."""
    group: str
    """The model, or whatever else competes only with its like; empty where there is one."""
    value: str
    baseline: str
    metric: str
    pairs: int
    """Pairs in which both sides are done and have the number: n of the interval."""
    planned: int
    """Pairs there should be."""
    ratio: float | None = None
    """Geometric mean of value over baseline; `None` without pairs."""
    low: float | None = None
    """Ends of the 95 % interval; `None` with fewer than 2 pairs."""
    high: float | None = None
    least: float | None = None
    """The smallest ratio of any pair, and the largest."""
    most: float | None = None


def effects(rows: Sequence[Row], axes: Sequence[Axis], metrics: Sequence[str]) -> list[Effect]:
    """Return the effect of every value of every axis on some numbers, group by group.

    Axes that decide what is trained on what have no effect that could be told.
    """
    found = []
    for axis in axes:
        if axis.decides_loss or len(axis.values) < 2:
            continue
        baseline = baseline_of(axis)
        for group, members in grouped(rows, scene(axes)).items():
            for value in axis.values:
                if value == baseline:
                    continue
                pairs = pair(members, axis, baseline, value)
                found += [_effect(axis, group, value, pairs, metric=metric) for metric in metrics]
    return found


def baseline_of(axis: Axis) -> Value:
    """Return what an axis's other values are compared with: the plain strategy, else its first value."""
    if axis.keys[0] == STRATEGY:
        return next((value for value in axis.values if value[0] == PLAIN), axis.values[0])
    return axis.values[0]


def pair(rows: Sequence[Row], axis: Axis, baseline: Value, value: Value) -> list[tuple[Row, Row]]:
    """Return (baseline, other) for all cells that differ in nothing but an axis."""
    first = {rest_of(row, axis.keys): row for row in rows if axis.value_of(row) == baseline}
    others = [row for row in rows if axis.value_of(row) == value]
    return [(first[rest], row) for row in others if (rest := rest_of(row, axis.keys)) in first]


def _effect(axis: Axis, group: str, value: Value, pairs: Sequence[tuple[Row, Row]], *, metric: str) -> Effect:
    kept: dict[str, list[float]] = {}
    for before, after in pairs:
        one, other = before.value(metric), after.value(metric)
        if is_timed(metric) and (before.disturbed or after.disturbed):
            continue
        if comparable(before, after) and one and other and one > 0 and other > 0:
            kept.setdefault(rest_of(before, ["run.seed"]), []).append(math.log(other / one))
    cells = list(kept.values())
    logs = cells[0] if len(cells) == 1 else [math.fsum(cell) / len(cell) for cell in cells]
    interval = of_mean(logs, CONFIDENCE) if len(logs) >= 2 else None
    return Effect(
        axis=axis.keys[0],
        group=group,
        value=axis.labels[axis.values.index(value)],
        baseline=axis.labels[axis.values.index(baseline_of(axis))],
        metric=metric,
        pairs=len(logs),
        planned=len({rest_of(before, ["run.seed"]) for before, _ in pairs}) if len(cells) != 1 else len(pairs),
        ratio=math.exp(math.fsum(logs) / len(logs)) if logs else None,
        low=None if interval is None else math.exp(interval.low),
        high=None if interval is None else math.exp(interval.high),
        least=math.exp(min(logs)) if logs else None,
        most=math.exp(max(logs)) if logs else None,
    )


def comparable(a: Row, b: Row) -> bool:
    """Whether two runs were made on the same hardware."""
    return (a.device, a.device_name, a.host) == (b.device, b.device_name, b.host)
