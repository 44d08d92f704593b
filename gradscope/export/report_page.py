"""What the charts of a report's page are drawn from: heat maps, curves, memory bars and fronts, as plain data.

Everything in it is escaped for the plotting library, which reads a few tags in labels.
"""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradscope.analysis.curves import BUDGETS, UNITS, Curve
from gradscope.analysis.grid_report import GridReport
from gradscope.analysis.pivot import Entry, Pivot, better
from gradscope.analysis.quantities import MEMORY_CATEGORIES
from gradscope.core.text import visible
from gradscope.export.report_tables import ABOUT, figure_text, metric_label, metric_text

DIGITS = 5
"""Significant digits of a number in a curve: less than a pixel."""

MOST_NUMBERS = 120_000
"""In all curves together, so that the page stays below 6 MB with the plotting library in it."""

SCALES = (("_bytes", "MiB", 1 << 20), ("_ms", "ms", 1), ("ms_per_sample", "ms", 1), ("_j", "J", 1))
"""Units that axes are drawn in, by how a metric's name ends."""

MOST_CELLS = 600
"""Cells whose memory and curves are drawn."""


def page_data(report: GridReport, curves: Mapping[str, Curve]) -> dict[str, Any]:
    """Return the data of all charts."""
    return {
        "heat": [_heat(one) for one in (*report.pivots, *(equal.table for equal in report.equal))],
        "curves": _curves(report, curves),
        "memory": _memory(report),
        "front": _front(report),
        "budgets": {name: f"{name} ({UNITS[name]})" if name != UNITS[name] else name for name in BUDGETS},
    }


def label(text: str) -> str:
    """Return foreign text as a label of a chart."""
    return html.escape(visible(text), quote=False)


def _heat(one: Pivot) -> dict[str, Any]:
    """Return a heat map: colours rank within a row's first label, the model; the text is the value or the state."""
    names = [label(" ".join(labels)) or metric_label(one.metric) for labels in one.labels]
    groups = [labels[0] if len(labels) > 1 else "" for labels in one.labels]
    shades: list[list[float | None]] = []
    for group, entries in zip(groups, one.entries, strict=True):
        values = [
            entry.figure.value
            for name, line in zip(groups, one.entries, strict=True)
            if name == group
            for entry in line
            if entry is not None and entry.figure.value is not None
        ]
        shades.append([_shade(entry, min(values), max(values)) if values else None for entry in entries])
    return {
        "metric": one.metric,
        "title": metric_label(one.metric),
        "rows": names,
        "columns": [label(head) or metric_label(one.metric) for head in one.heads],
        "across": label(one.across),
        "shades": shades if better(one.metric) == "lower" else [[_turned(x) for x in line] for line in shades],
        "texts": [[_text(entry, one.metric) for entry in line] for line in one.entries],
        "why": [[label((entry.reason or "") if entry else "") for entry in line] for line in one.entries],
    }


def _shade(entry: Entry | None, low: float, high: float) -> float | None:
    """Return where a value lies between the lowest and the highest, 0 to 1; on a log scale, where all are positive."""
    if entry is None or (value := entry.figure.value) is None:
        return None
    if low > 0:
        low, value, high = math.log(low), math.log(value), math.log(high)
    return 0.0 if high == low else round((value - low) / (high - low), 4)


def _turned(shade: float | None) -> float | None:
    return None if shade is None else 1 - shade


def _text(entry: Entry | None, metric: str) -> str:
    if entry is None:
        return ""
    if entry.figure.value is None:
        return label(entry.state)
    return (
        (ABOUT if entry.disturbed else "")
        + label(metric_text(metric, entry.figure.value))
        + (" ★" if entry.best else "")
    )


def _names(report: GridReport) -> list[tuple[str, str, str]]:
    """Return (cell, group, name) of all cells that have a result, repeats told apart by their seeds."""
    seeds = {row.cell: row.seed for row in report.rows}
    found = []
    for one in report.contenders:
        for cell in one.cells:
            seed = f" seed {seeds.get(cell)}" if len(one.cells) > 1 else ""
            found.append((cell, one.group, f"{one.name}{seed}"))
    return found[:MOST_CELLS]


def _curves(report: GridReport, curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    drawn = [(cell, group, name) for cell, group, name in _names(report) if cell in curves and curves[cell].loss]
    points = max(2, MOST_NUMBERS // (5 * max(1, len(drawn))))
    found = []
    for cell, group, name in drawn:
        one = curves[cell]
        every = max(1, math.ceil(len(one.loss) / points))
        places = sorted({*range(0, len(one.loss), every), len(one.loss) - 1})
        columns: dict[str, Sequence[float]] = {key: one.against(key) for key in BUDGETS}
        found.append(
            {
                "group": label(group),
                "name": label(name),
                "loss": [_rounded(one.loss[place]) for place in places],
                **{key: [_rounded(column[place]) for place in places] for key, column in columns.items() if column},
            }
        )
    return found


def _rounded(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def _memory(report: GridReport) -> list[dict[str, Any]]:
    """Return what the peak of each cell is made of, in bytes."""
    rows = {row.cell: row for row in report.rows}
    found = []
    for cell, group, name in _names(report):
        row = rows[cell]
        parts = {part: row.value(f"{part}_bytes") for part in MEMORY_CATEGORIES}
        if any(parts.values()):
            peak = row.value("peak_memory_bytes")
            found.append({"group": label(group), "name": label(name), "parts": parts, "peak": peak})
    return found


def _front(report: GridReport) -> dict[str, Any]:
    """Return every cell's objectives, and which of them are on the front."""
    names = [name for name in report.objectives if name != report.objectives[0]] or report.objectives
    cells = [
        {
            "group": label(one.group),
            "name": label(one.name),
            "values": {name: one.values.get(name) for name in report.objectives},
            "texts": {name: figure_text(one, name) for name in report.objectives},
            "front": one.on_front,
        }
        for one in report.contenders[:MOST_CELLS]
    ]
    return {
        "axes": [_axis(name) for name in [*names, report.objectives[0]]] if report.objectives else [],
        "cells": cells,
    }


def _axis(name: str) -> dict[str, Any]:
    """Return an axis: what it is called, and what its values are divided by to be drawn."""
    unit, scale = next(((unit, scale) for end, unit, scale in SCALES if name.endswith(end)), ("", 1))
    return {"name": name, "title": metric_label(name) + (f" ({unit})" if unit else ""), "scale": scale}
