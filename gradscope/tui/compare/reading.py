"""Reading what is compared: each run's numbers, and its measured steps for the curves."""

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from gradscope.analysis.sides import LETTERS, take_run
from gradscope.analysis.unlike import Side
from gradscope.core.events import Stage
from gradscope.errors import GradscopeError
from gradscope.rundir.layout import short_id
from gradscope.tui.feed import RunFeed
from gradscope.tui.view import STAGES, Columns

MEASURED = float(STAGES.index(Stage.MEASURE))


@dataclass(frozen=True, slots=True)
class Series:
    """The measured steps of one run; NaN where a number is missing."""

    step: array  # type: ignore[type-arg]  # cannot be subscripted while a module is loaded before Python 3.12
    """Counted from 1 over the measured steps."""
    seconds: array  # type: ignore[type-arg]
    """Time in measured steps up to the end of each."""
    loss: array  # type: ignore[type-arg]
    wall_ms: array  # type: ignore[type-arg]


EMPTY = Series(array("d"), array("d"), array("d"), array("d"))


@dataclass(frozen=True, slots=True)
class Read:
    """What was found; the lists hold one entry a run that could be read."""

    sides: tuple[Side, ...]
    series: tuple[Series, ...]
    paths: tuple[Path, ...]
    problems: tuple[str, ...]
    """Runs that could not be read, and why."""


def read_runs(paths: Sequence[Path]) -> Read:
    """Read runs; never raises for what lies there."""
    sides: list[Side] = []
    series: list[Series] = []
    kept: list[Path] = []
    problems: list[str] = []
    for path in paths[: len(LETTERS)]:
        try:
            run = take_run(path)
            if not os.path.isdir(path):  # noqa: PTH112 - a summary of nothing can be computed
                raise FileNotFoundError(2, "there is no such folder", str(path))
            steps = measured_steps(RunFeed(path).read().steps)
        except (OSError, GradscopeError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"{path.name} cannot be read: {reason}")
            continue
        summary = run.summary
        sides.append(Side(name=f"{summary.identity.preset} {short_id(summary.run_id)}", runs=(run,)))
        series.append(steps)
        kept.append(path)
    return Read(tuple(sides), tuple(series), tuple(kept), tuple(problems))


def measured_steps(table: Columns) -> Series:
    """Return the measured steps of a table of steps."""
    rows = [index for index, stage in enumerate(table.values("stage")) if stage == MEASURED]
    if not rows:
        return EMPTY
    covers, wall_ms, loss = table.values("covers"), table.values("wall_ms"), table.values("loss")
    return Series(
        step=array("d", accumulate(covers[row] for row in rows)),
        seconds=array("d", (ms / 1000 for ms in accumulate(wall_ms[row] * covers[row] for row in rows))),
        loss=array("d", (loss[row] for row in rows)),
        wall_ms=array("d", (wall_ms[row] for row in rows)),
    )
