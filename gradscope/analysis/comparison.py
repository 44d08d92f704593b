"""Runs side by side: numbers with spread, differences from a baseline with a verdict, and what makes them. Pure."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from gradscope.analysis.contributions import Explained, explain_memory, explain_time
from gradscope.analysis.quantities import QUANTITIES, Quantity
from gradscope.analysis.unlike import (
    Changed,
    Side,
    Taken,
    Unlike,
    changed,
    compared_settings,
    equal_seeds,
    held_equal,
    same_loss,
    unlike,
)
from gradscope.analysis.verdict_runs import (
    CONFIDENCE,
    THRESHOLD,
    Difference,
    Verdict,
    by_ratio,
    judge,
    known,
    middle,
)
from gradscope.core.summary import Record


class Pairing(StrEnum):
    """How the runs of two sides belong together."""

    SINGLE = "single"
    """One run a side."""
    ALTERNATED = "alternated"
    """Run in turn, so that what drifts slowly cancels within each pair."""
    CELLS = "cells"
    """Two grids: runs of equal settings are pairs."""
    APART = "apart"
    """Not in turn: a drift of the machine would count as a difference."""


class Figure(Record, frozen=True, kw_only=True):
    """One number of one side."""

    value: float | None
    """The run's, or the mean of several: geometric for what is compared by ratios."""
    low: float | None = None
    """5th percentile within a single run; the lowest of several runs."""
    high: float | None = None
    runs: int = 0
    """Runs that have it."""


class Column(Record, frozen=True, kw_only=True):
    """One side as it is told in a result."""

    name: str
    runs: list[str]
    presets: list[str]
    paths: list[str]


class Comparison(Record, frozen=True, kw_only=True):
    """The result; lists hold one entry a side, and `None` at the baseline's place where it is compared with itself."""

    schema: int = 1
    baseline: int
    """Index of the side that the others are compared with."""
    confidence: float
    threshold: float
    sides: list[Column]
    pairing: list[Pairing | None]
    cells: int | None = None
    """Where all sides are grids: how many cells they have in common. All figures are of these, and runs too."""
    figures: dict[str, list[Figure]]
    differences: dict[str, list[Difference | None]]
    time: list[Explained | None]
    """The mean step's difference by phase."""
    memory: list[Explained | None]
    """The peak's difference by category."""
    changed: list[Changed]
    """The settings that differ: what is compared."""
    unlike: list[Unlike]
    """What makes it unfair."""
    held_equal: list[str]


def compare(sides: Sequence[Side], *, baseline: int = 0, threshold: float = THRESHOLD) -> Comparison:
    """Compare sides with one of them.

    Args:
        sides: At least two, each of at least one run.
        baseline: Index of the one to compare with.
        threshold: Share below which a measured difference is called none.
    """
    common = _common_cells(sides, baseline)
    sides = common or sides
    first = sides[baseline]
    others = [None if index == baseline else side for index, side in enumerate(sides)]
    matched = [
        None
        if side is None
        else (Pairing.CELLS, tuple(zip(first.runs, side.runs, strict=True)))
        if common
        else pair(first, side)
        for side in others
    ]
    return Comparison(
        baseline=baseline,
        confidence=CONFIDENCE,
        threshold=threshold,
        sides=[_column(side) for side in sides],
        pairing=[None if match is None else match[0] for match in matched],
        cells=len(first.runs) if common else None,
        figures={name: [figure(quantity, side) for side in sides] for name, quantity in QUANTITIES.items()},
        differences={
            name: [
                None if side is None or match is None else _difference(quantity, first, side, match, threshold)
                for side, match in zip(others, matched, strict=True)
            ]
            for name, quantity in QUANTITIES.items()
        },
        time=[None if side is None else explain_time(first.summaries, side.summaries) for side in others],
        memory=[None if side is None else explain_memory(first.summaries, side.summaries) for side in others],
        changed=changed(sides),
        unlike=unlike(sides, cells=any(match is not None and match[0] is Pairing.CELLS for match in matched)),
        held_equal=held_equal(sides),
    )


Match = tuple[Pairing, tuple[tuple[Taken, Taken], ...]]
"""How runs belong together, and the pairs; none where they are apart."""


def pair(a: Side, b: Side) -> Match:
    """Find out how the runs of two sides belong together."""
    if len(a.runs) == len(b.runs) == 1:
        return Pairing.SINGLE, ((a.runs[0], b.runs[0]),)
    keys = [[_cell(run) for run in side.runs] for side in (a, b)]
    if all(len({settings for settings, _ in side}) > 1 for side in keys):
        by_key = dict(zip(keys[1], b.runs, strict=True))
        once = Counter(keys[0])
        pairs = tuple(
            (run, by_key[key]) for key, run in zip(keys[0], a.runs, strict=True) if key in by_key and once[key] == 1
        )
        if pairs:
            return Pairing.CELLS, pairs
    pairs = _alternated(a, b)
    return (Pairing.ALTERNATED, pairs) if pairs else (Pairing.APART, ())


def _common_cells(sides: Sequence[Side], baseline: int) -> list[Side]:
    """Return grids with the runs of those cells that all of them have, in one order; nothing where one is no grid."""
    first = sides[baseline]
    if any(pair(first, side)[0] is not Pairing.CELLS for side in sides if side is not first):
        return []
    by_cell = [{_cell(run): run for run in side.runs} for side in sides]
    once = Counter(_cell(run) for run in first.runs)
    cells = [cell for cell, number in once.items() if number == 1 and all(cell in runs for runs in by_cell)]
    return [
        Side(name=side.name, runs=tuple(runs[cell] for cell in cells), repeated=side.repeated)
        for side, runs in zip(sides, by_cell, strict=True)
        if cells
    ]


def _cell(run: Taken) -> tuple[str, Any]:
    return repr(compared_settings(run)), run.summary.identity.seed


def _alternated(a: Side, b: Side) -> tuple[tuple[Taken, Taken], ...]:
    """Return the pairs of runs that were made in turn (A B B A ...); none where they were not."""
    tagged = [(run.summary.provenance.created_wall_ns, "a", run) for run in a.runs]
    tagged += [(run.summary.provenance.created_wall_ns, "b", run) for run in b.runs]
    if len(a.runs) != len(b.runs) or any(created is None for created, _, _ in tagged):
        return ()
    ordered = sorted(tagged, key=lambda one: (one[0] or 0, one[1]))
    pairs = []
    for one, other in zip(ordered[::2], ordered[1::2], strict=True):
        if one[1] == other[1]:
            return ()
        pairs.append((one[2], other[2]) if one[1] == "a" else (other[2], one[2]))
    return tuple(pairs)


def figure(quantity: Quantity, side: Side) -> Figure:
    """Return one number of one side, with its spread."""
    values = known([quantity.value(run) for run in side.summaries])
    if not values:
        return Figure(value=None)
    value = middle(values, ratios=by_ratio(quantity, values))
    if len(side.runs) == 1:
        within = quantity.within(side.runs[0].summary)
        low, high = within or (None, None)
        return Figure(value=value, low=low, high=high, runs=1)
    return Figure(value=value, low=min(values), high=max(values), runs=len(values))


def _difference(quantity: Quantity, a: Side, b: Side, match: Match, threshold: float) -> Difference:
    kind, pairs = match
    paired = kind is not Pairing.APART
    firsts = [one for one, _ in pairs] if paired else a.runs
    seconds = [other for _, other in pairs] if paired else b.runs
    values = [[quantity.value(run.summary) for run in runs] for runs in (firsts, seconds)]
    exact = quantity.exactness == "exact"
    if quantity.exactness == "loss":
        why = "" if kind is Pairing.CELLS else same_loss(a, b)
        if why:
            verdict = Verdict.UNDECIDED if all(known(side) for side in values) else Verdict.MISSING
            return Difference(verdict=verdict, paired=paired, runs=min(map(len, values)), reason=why)
        exact = paired and len(pairs) == 1 and equal_seeds(*pairs[0])
    return judge(quantity, *values, paired=paired, exact=exact, threshold=threshold)


def _column(side: Side) -> Column:
    return Column(
        name=side.name,
        runs=[run.run_id for run in side.summaries],
        presets=list(dict.fromkeys(run.identity.preset for run in side.summaries)),
        paths=[str(run.path) for run in side.runs if run.path is not None],
    )
