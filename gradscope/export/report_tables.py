"""A grid's report as sections of text tables: what the terminal, Markdown and HTML lay out in their own ways."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradscope.analysis.choices import NEAR, Choice, Contender, nearly_as_good
from gradscope.analysis.claims import Judgement
from gradscope.analysis.curves import UNITS
from gradscope.analysis.effects import Effect
from gradscope.analysis.grid_report import ROLES, EqualLoss, GridReport
from gradscope.analysis.pivot import Entry, Pivot, better
from gradscope.analysis.quantities import QUANTITIES, shown_value
from gradscope.analysis.results import is_timed
from gradscope.core.units import MISSING, format_bytes, format_ms, format_number, format_number_of, format_seconds
from gradscope.rundir.cells import SKIPPED

BEST = "*"
"""Marks the best of its group in a pivot table."""

ABOUT = "~"
"""Marks a time of a run that others disturbed."""

LABELS = {"ms_per_sample": "time a sample", "energy_j": "energy", "measured_seconds": "measured time"}
SHORT = {
    "loss_last": "loss",
    "step_time_ms": "time",
    "ms_per_sample": "time",
    "peak_memory_bytes": "memory",
    "energy_per_step_j": "energy",
    "energy_per_sample_j": "energy",
}
"""What metrics are called where there is little room."""

SUPERLATIVES = {"time": "fastest", "memory": "least memory", "energy": "least energy"}

INDENT = "  "
PLURALS = {"strategy": "strategies"}


@dataclass(frozen=True, slots=True)
class Table:
    """One table; cells are plain text and may be foreign."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """Columns from the left that are aligned to the left, and the last one too where `tail` says so."""
    tail: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report."""

    code: str
    """Stable, for links."""
    title: str
    table: Table | None = None
    notes: Sequence[str] = field(default_factory=list)
    """Sentences below the table."""


def sections(report: GridReport) -> list[Section]:
    """Return the report's sections, what to choose first."""
    found = [_choices(report)] if report.choices else []
    found += list(_effects(report, first=True))
    found += [_claims(report.claims)] if report.claims else []
    found += [_pivot(one, report) for one in report.pivots]
    found += [_equal(one, report) for one in report.equal if one.spent]
    found += [_front(report)] if any(one.on_front for one in report.contenders) else []
    found += list(_effects(report, first=False))
    found += list(_spread(report))
    found += list(_foretold(report))
    found += list(_trouble(report))
    return found


def heading(report: GridReport) -> list[str]:
    """Return what was run, how much of it is there, on what, and which budget was held equal."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(report.counts.items(), key=lambda one: -one[1]))
    grid = " x ".join(f"{len(axis.values)} {PLURALS.get(axis.title, f'{axis.title}s')}" for axis in report.axes)
    size = sum(report.counts.values())
    lines = [f"{report.name}: {size} runs{f' ({grid})' if grid else ''}: {states}"]
    lines.append(f"on {'; '.join(report.machines)}" if report.machines else "nothing has run yet")
    if len(report.machines) > 1:
        lines.append("cells ran on different hardware: times and memory do not compare between them")
    if report.budget.equal:
        lines.append(f"held equal within each model: {' and '.join(report.budget.equal)}")
    elif report.machines:
        lines.append("held equal within each model: nothing")
    lines += report.budget.unequal
    if disturbed := sum(row.done and row.disturbed for row in report.rows):
        lines.append(
            f"{disturbed} of {report.counts.get('done', 0)} runs were disturbed by others on the machine: their times "
            f"({ABOUT}) are too long, and in no effect"
        )
    return lines


def metric_label(name: str) -> str:
    """Return what a metric is called."""
    if name.startswith("loss_at_"):
        return f"loss at equal {name.removeprefix('loss_at_')}"
    return LABELS.get(name) or (QUANTITIES[name].label if name in QUANTITIES else name)


def short(name: str) -> str:
    """Return what a metric is called where there is little room."""
    return SHORT.get(name) or metric_label(name)


def metric_text(name: str, value: float | None) -> str:
    """Return a value of a metric with its unit."""
    if name in QUANTITIES:
        return shown_value(QUANTITIES[name], value)
    if name == "measured_seconds":
        return format_seconds(value)
    return format_ms(value) if name.endswith(("_ms", "ms_per_sample")) else format_number(value)


def figure_text(one: Contender, name: str) -> str:
    """Return one number of a cell, marked where others disturbed it."""
    value = one.values.get(name)
    return (ABOUT if value is not None and one.disturbed and is_timed(name) else "") + metric_text(name, value)


def change(before: float | None, after: float | None) -> str | None:
    """Return a change as a percentage; `None` where there is no saying, and for less than half a percent."""
    if before is None or after is None or before == 0:
        return None
    share = 100 * (after - before) / abs(before)
    return f"{share:+.0f} %" if abs(share) >= 0.5 else None


def _choices(report: GridReport) -> Section:
    columns = list(dict.fromkeys([report.metric, *report.objectives]))
    rows: list[Sequence[str]] = []
    group = ""
    for choice in report.choices:
        one = choice.contender
        if one.group != group:
            rows.append([one.group, *("" for _ in columns), ""])
        if "best" in choice.roles:
            best = one
        figures = [figure_text(one, name) for name in columns]
        rows.append([f"{INDENT if one.group else ''}{one.name}", *figures, _why(choice, best, columns, report)])
        group = one.group
    notes = [
        f"first, the best {metric_label(report.metric)} at equally many samples an update; then what saves most among "
        "those within 5 % of it, and what is better with more samples",
    ]
    if report.repeats == 1:
        notes.append("one run a cell: differences of a few percent may be noise or the seed's; sweep.repeats = 5 tells")
    head = ["", *map(short, columns), "why"]
    return Section("choose", "which to choose", Table(head, rows, tail=True), notes)


def _superlative(role: str, one: Contender, columns: Sequence[str], report: GridReport) -> str:
    """Return what the best cell is besides, where it is: in its whole model, or among those nearly as good."""
    name = next(name for name in columns if ROLES.get(name, "energy") == role and name != report.metric)
    rivals = [other for other in report.contenders if other.group == one.group and other.values.get(name) is not None]
    if all((one.values[name] or 0.0) <= (other.values[name] or 0.0) for other in rivals):
        return SUPERLATIVES[role]
    near = [other for other in rivals if other in nearly_as_good(rivals, one, report.metric)]
    if all((one.values[name] or 0.0) <= (other.values[name] or 0.0) for other in near):
        return f"{SUPERLATIVES[role]} within {100 * NEAR:.0f} %"
    return ""


def _why(choice: Choice, best: Contender, columns: Sequence[str], report: GridReport) -> str:
    """Return what a cell is chosen for: against the best, what it was chosen by, then what that costs."""
    one, metric = choice.contender, report.metric
    if one is best:
        lead = "highest" if better(metric) == "higher" else "lowest"
        found = [_superlative(role, one, columns, report) for role in choice.roles[1:]]
        return ", ".join([f"{lead} {short(metric)}", *filter(None, found)])
    if choice.roles == ["overall"]:
        first = [metric]
    else:
        first = [name for role in choice.roles for name in columns if ROLES.get(name, "energy") == role]
        first += [name for name in columns if name not in first]
    vague = {name for name in first if is_timed(name) and (one.disturbed or best.disturbed)}
    changes = {name: change(best.values.get(name), one.values.get(name)) for name in first if name not in vague}
    words = [f"{short(name)} {found}" for name, found in changes.items() if found]
    if one.samples_ratio and one.samples_ratio >= 1.05:
        words.append(f"{one.samples_ratio:.3g}x samples")
    return ", ".join(words) or "as good"


def _claims(claims: Sequence[Judgement]) -> Section:
    rows = []
    for one in claims:
        reason = "; ".join([one.reason, *one.notes])
        rows.append([one.verdict.value, one.text, reason])
    counts = {word: sum(one.verdict.value == word for one in claims) for word in ("reproduced", "refuted", "undecided")}
    sources = ", ".join(dict.fromkeys(one.source for one in claims if one.source))
    title = f"claims{f' of {sources}' if sources else ''}: " + ", ".join(
        f"{n} {word}" for word, n in counts.items() if n
    )
    return Section("claims", title, Table(["verdict", "claim", "figures"], rows, left=3))


def _effects(report: GridReport, *, first: bool) -> Iterator[Section]:
    """Yield a table for each axis: the one of strategies first, where there is one."""
    axes = list(dict.fromkeys(one.axis for one in report.effects if one.pairs))
    leading = [axis for axis in axes if axis.startswith("memory.")]
    for axis in leading if first else [axis for axis in axes if axis not in leading]:
        of_axis = [one for one in report.effects if one.axis == axis]
        told = {(one.group, one.value) for one in of_axis if one.pairs}
        title = next((fact.title for fact in report.axes if fact.keys[0] == axis), axis)
        metrics = list(dict.fromkeys(one.metric for one in of_axis if one.pairs))
        cells = list(dict.fromkeys(place for one in of_axis if (place := (one.group, one.value)) in told))
        by_place = {(one.group, one.value, one.metric): one for one in of_axis}
        rows, before = [], None
        for group, value in cells:
            found = [by_place[group, value, metric] for metric in metrics]
            counts = [str(one.pairs) for one in found]
            pairs = counts[0] if len(set(counts)) == 1 else "/".join(counts)
            rows.append([group if group != before else "", value, *map(_ratio, found), pairs])
            before = group
        baseline = of_axis[0].baseline
        notes = [
            "geometric mean of the ratios over n pairs of cells that differ in nothing else, seeds averaged first; in "
            "brackets the 95 % interval of that mean (Student's t of log ratios)"
        ]
        if any("/" in row[-1] for row in rows):
            notes.append("n stands column by column where it differs between them")
        head = ["", title, *map(short, metrics), "n"]
        yield Section(f"effect-{axis}", f"what the {title} does, against {baseline}", Table(head, rows, left=2), notes)


def _ratio(one: Effect) -> str:
    if one.ratio is None:
        return MISSING
    mean = _pct(one.ratio)
    if one.low is None or one.high is None:
        return f"{mean} %"
    low, high = _pct(one.low), _pct(one.high)
    return f"{mean} %" if low == high else f"{mean} % ({low} {high})"


def _pct(ratio: float) -> str:
    share = f"{100 * (ratio - 1):+.0f}"
    return "0" if share in ("+0", "-0") else share


def _pivot(one: Pivot, report: GridReport) -> Section:
    rows, before = [], None
    for labels, entries in zip(one.labels, one.entries, strict=True):
        shown = _once(labels, before)
        rows.append([*shown, *(_entry(entry, one.metric) for entry in entries)])
        before = labels
    notes = [f"{BEST} best of its model"]
    if one.metric in QUANTITIES and QUANTITIES[one.metric].exactness == "loss":
        notes += [f"{name}: {times:.3g} times the samples an update" for name, times in report.budget.grown.items()]
    if any(entry is not None and entry.figure.runs > 1 for entries in one.entries for entry in entries):
        notes.append("medians over repeats")
    title = f"{metric_label(one.metric)}" + (f", by {one.across}" if one.across else "")
    heads = one.heads if one.across else [metric_label(one.metric)]
    return Section(f"pivot-{one.metric}", title, Table([*one.down, *heads], rows, left=len(one.down)), notes)


def _once(labels: Sequence[str], before: Sequence[str] | None) -> list[str]:
    """Return a row's labels without those that the row before has too, the last one aside."""
    if before is None:
        return list(labels)
    same = [labels[: place + 1] == before[: place + 1] for place in range(len(labels) - 1)]
    return ["" if repeated else name for name, repeated in zip(labels, [*same, False], strict=True)]


def _entry(entry: Entry | None, metric: str) -> str:
    if entry is None:
        return ""
    if entry.figure.value is None:
        return entry.state or MISSING
    mark = BEST if entry.best else ""
    few = f" ({entry.state})" if entry.state else ""
    return f"{ABOUT if entry.disturbed else ''}{metric_text(metric, entry.figure.value)}{mark}{few}"


def _equal(one: EqualLoss, report: GridReport) -> Section:
    section = _pivot(one.table, report)
    unit = UNITS[one.budget]
    spent = ", ".join(f"{f'{group} ' if group else ''}{format_number(value, 3)}" for group, value in one.spent.items())
    note = f"each loss is that of the last update within {spent} {unit}: the most that all cells of a model have spent"
    return Section(f"equal-{one.budget}", f"loss at equal {one.budget}", section.table, [section.notes[0], note])


def _front(report: GridReport) -> Section:
    columns = report.objectives
    rows, before = [], None
    for one in report.contenders:
        if one.on_front:
            figures = [figure_text(one, name) for name in columns]
            rows.append([one.group if one.group != before else "", one.name, *figures])
            before = one.group
    words = ", ".join(map(metric_label, columns))
    notes = ["nothing else of its model is at least as good in all of these and better in one"]
    return Section(
        "front", f"Pareto front of {words}", Table(["", "cell", *map(metric_label, columns)], rows, left=2), notes
    )


def _spread(report: GridReport) -> Iterator[Section]:
    """Yield how far repeats lie apart."""
    for one in report.pivots:
        entries = [entry for line in one.entries for entry in line if entry is not None]
        if not any(entry.figure.runs > 1 for entry in entries):
            continue
        rows = [
            [*labels, *("" if entry is None else _range(entry) for entry in line)]
            for labels, line in zip(one.labels, one.entries, strict=True)
        ]
        title = f"spread of {metric_label(one.metric)} over repeats"
        notes = ["half of highest less lowest, as a share of the median; in brackets the repeats that are done"]
        heads = one.heads if one.across else ["spread"]
        yield Section(f"spread-{one.metric}", title, Table([*one.down, *heads], rows, left=len(one.down)), notes)


def _range(entry: Entry) -> str:
    found = entry.figure
    if found.runs < 2 or found.low is None or found.high is None or not found.value:
        return MISSING
    return f"±{50 * (found.high - found.low) / abs(found.value):.1f} % ({found.runs})"


def _foretold(report: GridReport) -> Iterator[Section]:
    """Yield foretold and measured peak, side by side; where nothing was measured, what became of the cell."""
    rows, errors = [], []
    for row in report.rows:
        foretold, peak = row.foretold_peak_bytes, row.value("peak_memory_bytes")
        if not foretold or (row.done and not peak):
            continue
        error = foretold / peak - 1 if peak else None
        seed = f" seed {row.seed}" if report.repeats > 1 else ""
        name, measured = f"{' '.join(map(str, row.axes.values()))}{seed}", format_bytes(peak) if peak else row.status
        rows.append([name, format_bytes(foretold), measured, "" if error is None else f"{100 * error:+.1f} %"])
        errors += [] if error is None else [abs(error)]
    if not rows:
        return
    notes = (
        [f"{format_number_of(len(errors), 'run')}; the largest error is {100 * max(errors):.1f} %"] if errors else []
    )
    yield Section(
        "foretold", "peak memory, foretold and measured", Table(["", "foretold", "measured", "error"], rows), notes
    )


def _trouble(report: GridReport) -> Iterator[Section]:
    """Yield the cells that came to nothing, with the reason."""
    rows = []
    for row in report.rows:
        if not row.done and (row.run_id is not None or row.status == SKIPPED):
            seed = f" seed {row.seed}" if report.repeats > 1 else ""
            rows.append([row.status, f"{' '.join(map(str, row.axes.values()))}{seed}", row.reason or ""])
        elif row.contaminated:
            rows.append(["contaminated", " ".join(map(str, row.axes.values())), "a foreign process was on the card"])
    if rows:
        yield Section("trouble", "cells without a result", Table(["", "cell", "reason"], rows, left=3))
