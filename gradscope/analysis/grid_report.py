"""Everything that a report says of a grid, as data: what terminal, Markdown, HTML and JSON show."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from gradscope.analysis.axes import Axis, find_axes, label, scene
from gradscope.analysis.choices import Choice, Contender, choose, contenders
from gradscope.analysis.claims import Judgement, judge_claims
from gradscope.analysis.curves import Curve, equal_budgets, loss_at, of_row
from gradscope.analysis.effects import Effect, effects
from gradscope.analysis.fairness import Budget, budget
from gradscope.analysis.pivot import Pivot, pivot
from gradscope.analysis.results import Row
from gradscope.analysis.unlike import flattened
from gradscope.config.schema import Preset
from gradscope.core.summary import Record

OBJECTIVES = ("loss_last", "step_time_ms", "peak_memory_bytes", "energy_per_step_j")
"""What a cell is good or bad in where every run has the same number of updates."""

PER_SAMPLE = ("loss_last", "ms_per_sample", "peak_memory_bytes", "energy_per_sample_j")
"""The same where runs were given samples or seconds, so that updates are no common measure."""

ROLES = {"step_time_ms": "time", "ms_per_sample": "time", "peak_memory_bytes": "memory"}


class AxisFact(Record, frozen=True, kw_only=True):
    """One axis as it is told."""

    title: str
    keys: list[str]
    values: list[str]
    decides_loss: bool


class EqualLoss(Record, frozen=True, kw_only=True):
    """Losses read at an equal budget."""

    budget: str
    spent: dict[str, float]
    """How much of it, by group: the most that all of its cells have spent."""
    table: Pivot


class GridReport(Record, frozen=True, kw_only=True):
    """The report of a grid."""

    schema: int = 1
    name: str
    metric: str
    objectives: list[str]
    counts: dict[str, int]
    """Rows by status."""
    machines: list[str]
    axes: list[AxisFact]
    budget: Budget
    repeats: int
    """Most runs of one cell that are done."""
    choices: list[Choice]
    contenders: list[Contender]
    """All cells with a repeat that is done; those on the Pareto front are marked."""
    pivots: list[Pivot]
    equal: list[EqualLoss]
    effects: list[Effect]
    claims: list[Judgement]
    rows: list[Row]


def report(
    name: str,
    rows: Sequence[Row],
    preset: Preset | None = None,
    *,
    metric: str | None = None,
    curves: Mapping[str, Curve] | None = None,
    against: Sequence[str] = (),
) -> GridReport:
    """Make the report of a grid. Pure.

    Args:
        name: What it is called.
        rows: All its cells, missing ones too.
        preset: Its sweep and claims, if there is one.
        metric: What cells are ranked by; the last loss, or where no run has one, the step time.
        curves: Of its runs by cell, as far as they were read; those without are taken from the summaries.
        against: Budgets at which losses are read; where samples are not equal, `samples` is one of them anyway.
    """
    axes = find_axes(rows, preset)
    held = budget(rows, axes)
    measured = _measured(rows)
    wanted = _wanted(held)
    objectives = [key for key in wanted if key in measured]
    ranked = metric or next(iter(objectives), wanted[0])
    found = contenders(rows, axes, list(dict.fromkeys([*objectives, *([ranked] if ranked in measured else [])])))
    shown = list(dict.fromkeys([ranked, *objectives]))
    budgets = list(dict.fromkeys([*(["samples"] if held.grown else []), *against]))
    return GridReport(
        name=name,
        metric=ranked,
        objectives=objectives,
        counts=dict(Counter(row.status for row in rows)),
        machines=_machines(rows),
        axes=[_fact(axis) for axis in axes],
        budget=held,
        repeats=max((one.repeats for one in found), default=0),
        choices=choose(found, ranked, {ROLES.get(key, "energy"): key for key in objectives[1:] if key != "loss_last"}),
        contenders=found,
        pivots=[pivot(rows, key, axes) for key in shown],
        equal=[_equal(rows, axes, key, curves or {}) for key in budgets],
        effects=effects(rows, axes, shown),
        claims=judge_claims(preset.claim if preset else (), rows, axes),
        rows=list(rows),
    )


def objectives_of(rows: Sequence[Row], axes: Sequence[Axis]) -> list[str]:
    """Return what cells of a grid are good or bad in: what was measured of time, memory and energy, and the loss."""
    measured = _measured(rows)
    return [key for key in _wanted(budget(rows, axes)) if key in measured]


def _wanted(held: Budget) -> tuple[str, ...]:
    return OBJECTIVES if "updates" in held.equal or not held.kinds else PER_SAMPLE


def _measured(rows: Sequence[Row]) -> set[str]:
    return {key for row in rows if row.done for key, value in row.values.items() if value is not None}


def _equal(rows: Sequence[Row], axes: Sequence[Axis], key: str, curves: Mapping[str, Curve]) -> EqualLoss:
    """Read every loss at the most of a budget that all cells of a group have spent."""
    known = {row.cell: curves.get(row.cell) or of_row(row) for row in rows if row.done}
    usable = {cell: curve for cell, curve in known.items() if len(curve.against(key)) == len(curve.loss) > 0}
    spent = equal_budgets(rows, usable, key, axes)
    scenes, read = scene(axes), []
    for row in rows:
        group = label(row, scenes)
        loss = loss_at(usable[row.cell], key, spent[group]) if row.cell in usable and group in spent else None
        read.append(msgspec.structs.replace(row, values={f"loss_at_{key}": loss}))
    return EqualLoss(budget=key, spent=spent, table=pivot(read, f"loss_at_{key}", axes))


def _fact(axis: Axis) -> AxisFact:
    return AxisFact(title=axis.title, keys=list(axis.keys), values=list(axis.labels), decides_loss=axis.decides_loss)


def _machines(rows: Sequence[Row]) -> list[str]:
    found: dict[str, None] = {}
    for row in rows:
        if row.device is not None:
            threads = flattened(row.settings).get("run.threads")
            words = [row.device_name or row.device, f"{threads} thread{'s' * (threads != 1)}" if threads else ""]
            if row.device_name and row.device not in row.device_name:
                words.insert(0, row.device)
            found[" ".join(word for word in words if word) + (f" ({row.host})" if row.host else "")] = None
    return list(found)
