"""Loss against steps, samples, seconds and energy, and the loss at an equal budget of any of them."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gradscope.analysis.axes import Axis, grouped, scene
from gradscope.analysis.fold import fold
from gradscope.analysis.resources import own_uuid
from gradscope.analysis.results import Row
from gradscope.analysis.step_ends import length_ns, step_ends_ns
from gradscope.core.events import Stage
from gradscope.core.samples import Sample
from gradscope.core.summary import Record
from gradscope.rundir.handle import RunHandle
from gradscope.sampling.energy import energy_series

BUDGETS = ("step", "samples", "seconds", "energy")
"""What a loss can be read against."""

UNITS = {"step": "updates", "samples": "samples", "seconds": "s", "energy": "J"}

MOST_POINTS = 400


class Curve(Record, frozen=True, kw_only=True):
    """A run's measured steps; lists are equally long, sums run from the first measured step."""

    step: list[int] = msgspec.field(default_factory=list)
    """Counted from 1."""
    samples: list[int] = msgspec.field(default_factory=list)
    seconds: list[float] = msgspec.field(default_factory=list)
    energy: list[float] = msgspec.field(default_factory=list)
    """Joules; empty where there is no figure for each step."""
    loss: list[float | None] = msgspec.field(default_factory=list)

    def against(self, budget: str) -> Sequence[float]:
        """Return the running sums of one budget."""
        found: Sequence[float] = getattr(self, budget)
        return found


def read_curve(run_dir: Path, *, points: int = MOST_POINTS) -> Curve:
    """Read a run's curve from its records, thinned to at most so many points; its first and last step stay.

    Raises:
        OSError: They cannot be read.
    """
    handle = RunHandle(run_dir)
    record = fold(handle.events())
    steps = record.steps[Stage.MEASURE]
    taken = [line for line in handle.samples() if isinstance(line, Sample)]
    card = own_uuid(record, taken)
    drawn = energy_series(taken, card) if card else None
    rows: list[tuple[int, int, float, float | None, float | None]] = []
    count, samples, milliseconds, joules = 0, 0, 0.0, 0.0 if drawn else None
    for step, end_ns in zip(steps, step_ends_ns(steps), strict=True):
        count += step.covers
        samples += step.samples * step.covers
        milliseconds += step.wall_ms * step.covers
        energy = drawn.window(end_ns - length_ns(step), end_ns) if drawn else None
        joules = None if joules is None or energy is None else joules + energy.mj / 1000
        rows.append((count, samples, milliseconds / 1000, joules, step.loss))
    kept = [rows[place] for place in thinned(len(rows), points)]
    energies = [row[3] for row in kept]
    return Curve(
        step=[row[0] for row in kept],
        samples=[row[1] for row in kept],
        seconds=[row[2] for row in kept],
        energy=[] if None in energies else [value for value in energies if value is not None],
        loss=[row[4] for row in kept],
    )


def thinned(count: int, points: int) -> list[int]:
    """Return at most `points` places of `count`, evenly taken, the first and the last among them."""
    if count <= points:
        return list(range(count))
    return [round(place * (count - 1) / (points - 1)) for place in range(points)]


def of_row(row: Row) -> Curve:
    """Return a row's curve by steps and samples, as its summary has it: without reading its records again."""
    updates, samples = row.values.get("updates"), row.values.get("samples")
    if not row.curve or not updates:
        return Curve()
    first = row.curve[0][0]
    steps = [step - first + 1 for step, _ in row.curve]
    per = (samples or 0) / updates
    return Curve(step=steps, samples=[round(step * per) for step in steps], loss=[loss for _, loss in row.curve])


def loss_at(curve: Curve, budget: str, spent: float) -> float | None:
    """Return the loss of the last step that ends within a budget; `None` before the first."""
    sums = curve.against(budget)
    place = bisect_right(sums, spent * (1 + 1e-9)) - 1
    return curve.loss[place] if place >= 0 else None


def equal_budgets(rows: Sequence[Row], curves: dict[str, Curve], budget: str, axes: Sequence[Axis]) -> dict[str, float]:
    """Return, for each group that competes, the most of a budget that all of its cells have spent.

    Args:
        rows: The grid's.
        curves: By cell.
        budget: One of `BUDGETS`.
        axes: The grid's.
    """
    found = {}
    for name, group in grouped(rows, scene(axes)).items():
        spent = [
            sums[-1] for row in group if row.done and row.cell in curves and (sums := curves[row.cell].against(budget))
        ]
        if spent:
            found[name] = min(spent)
    return found
