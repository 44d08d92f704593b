"""What the sweep screen shows, as one frozen snapshot."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gradscope.analysis.axes import Axis
from gradscope.analysis.choices import Contender
from gradscope.analysis.results import MISSING, Row
from gradscope.config.schema import Preset
from gradscope.core.status import ProcessId, Status
from gradscope.rundir.cells import RESULTS

GOING = frozenset(status.value for status in Status if not status.is_final and status is not Status.UNKNOWN)
"""Words of cells that run."""


@dataclass(frozen=True)
class SweepView:
    """A grid and what became of its cells."""

    name: str
    """What the sweep was asked for by: a preset's name or file."""
    preset: Preset | None = None
    rows: tuple[Row, ...] = ()
    """All cells, those without a run too."""
    axes: tuple[Axis, ...] = ()
    contenders: tuple[Contender, ...] = ()
    """Cells with a result; those on the Pareto front are marked."""
    objectives: tuple[str, ...] = ()
    """What the front is about."""
    process: ProcessId | None = None
    """The sweep that runs, as far as one is known."""
    seconds_left: float | None = None
    """While it runs."""
    problem: str = ""
    """Why there is nothing to show, or how the last sweep ended."""
    hint: str = ""
    complete: bool = False
    """Whether it was read at all."""

    @cached_property
    def done(self) -> int:
        """How many cells are done."""
        return self._count({Status.DONE.value})

    @cached_property
    def running(self) -> int:
        """How many run now."""
        return self._count(GOING)

    @cached_property
    def left(self) -> int:
        """How many have no result yet."""
        return len(self.rows) - self._count(RESULTS)

    @cached_property
    def bad(self) -> dict[str, int]:
        """How many came to each word other than `done`, for words that are results."""
        found: dict[str, int] = {}
        for row in self.rows:
            if row.status in RESULTS and not row.done:
                found[row.status] = found.get(row.status, 0) + 1
        return found

    @property
    def going(self) -> bool:
        """Whether the sweep runs, or somebody runs one of its cells."""
        return self.process is not None or self.running > 0

    def _count(self, words: set[str] | frozenset[str]) -> int:
        return sum(row.status in words for row in self.rows)


def state_of(row: Row) -> str:
    """Return what a row's cell is, in the words of `charts.heat.STATES`; empty where it is done."""
    if row.done:
        return ""
    if row.status == MISSING:
        return "waiting"
    if row.status in GOING:
        return "running"
    if row.status == Status.OOM.value:
        return "oom"
    return "failed" if row.status in RESULTS else "stopped"


def path_of(row: Row) -> Path | None:
    """Return a row's run directory."""
    return None if row.path is None else Path(row.path)
