"""A grid's cells as a folder shows them: what each has come to, and which are to run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradscope.config.grid import GridCell, grid_cells
from gradscope.config.schema import Preset
from gradscope.core.status import Status, StatusRecord
from gradscope.launch.foretell import Foretold
from gradscope.launch.order import interleaved
from gradscope.rundir.cells import RESULTS, Skip, cell_runs, cell_status
from gradscope.rundir.handle import RunHandle

DONE = Status.DONE.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cell came to."""

    word: str
    """`cell_status` of its newest run."""
    handle: RunHandle
    record: StatusRecord
    seconds: float | None = None
    """From its start to its final status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A grid's cells as they stand in a folder."""

    preset: Preset
    out: Path
    cells: list[GridCell]
    """All of them, in the order in which they run."""
    outcomes: dict[str, Outcome]
    """Results that are there already, by cell."""
    waiting: list[GridCell]
    """What is to run."""
    foretold: Mapping[str, int] = field(default_factory=dict)
    """Peaks in bytes, by cell, where they were estimated."""
    skipped: Mapping[str, Skip] = field(default_factory=dict)
    """Cells that would be to run if they fitted."""


def make_plan(preset: Preset, out: Path, *, retry_failed: bool = False) -> Plan:
    """Return a grid's cells with what they came to so far.

    Args:
        preset: A preset with a sweep.
        out: Output root.
        retry_failed: Whether only `done` counts as a result.

    Raises:
        GradscopeError: The preset has no sweep, or one of its cells is no valid preset.
    """
    cells = interleaved(grid_cells(preset))
    runs = cell_runs(out, preset.name)
    outcomes, tried = {}, set()
    for cell in cells:
        handle = runs.get(cell.hash)
        outcome = None if handle is None else outcome_of(handle)
        if outcome is not None and is_result(outcome, retry_failed=False):
            tried.add(cell.hash)
        if outcome is not None and is_result(outcome, retry_failed=retry_failed):
            outcomes[cell.hash] = outcome
    waiting = [cell for cell in cells if cell.hash not in outcomes]
    waiting.sort(key=lambda cell: cell.hash in tried)  # what has no result yet comes first
    return Plan(preset=preset, out=out, cells=cells, outcomes=outcomes, waiting=waiting)


def with_foretold(plan: Plan, foretold: Mapping[str, Foretold], *, skip: bool) -> Plan:
    """Return a plan with the peaks of cells, by cell; with `skip`, those that do not fit are not to run."""
    peaks = {cell: one.peak_bytes for cell, one in foretold.items() if one.peak_bytes is not None}
    skips = {cell.hash: why for cell in plan.waiting if skip and (why := foretold[cell.hash].skip()) is not None}
    waiting = [cell for cell in plan.waiting if cell.hash not in skips]
    return replace(plan, waiting=waiting, foretold=peaks, skipped=skips)


def outcome_of(handle: RunHandle) -> Outcome | None:
    """Return what a run came to; `None` while it goes on, or where only another machine could tell."""
    record = handle.status()
    if not record.status.is_final:
        return None
    manifest = handle.manifest()
    seconds = None if manifest is None else (record.updated_wall_ns - manifest.created_wall_ns) / 1e9
    return Outcome(cell_status(record), handle, record, seconds)


def is_result(outcome: Outcome, *, retry_failed: bool) -> bool:
    """Whether a cell need not run again."""
    return outcome.word == DONE if retry_failed else outcome.word in RESULTS
