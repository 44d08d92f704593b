"""How the steps of a run lie on the columns of a plot, and what kind of steps a column shows."""

from dataclasses import dataclass
from enum import IntEnum


class Mark(IntEnum):
    """What kind of steps a column shows; the higher one wins where a column holds several."""

    EMPTY = 0
    PROFILED = 1
    """Under a profiler: distorted, counts in no measured number."""
    WARMUP = 2
    MEASURED = 3


@dataclass(frozen=True, slots=True)
class Spread:
    """How steps lie on the columns of a plot: `span` steps, the first one `first`, over `columns` columns."""

    first: int
    span: int
    columns: int

    def start(self, column: int) -> int:
        """Return the first step of a column."""
        return self.first + column * self.span // self.columns

    def steps_of(self, column: int) -> tuple[int, int]:
        """Return the first and the last step of a column; several columns share a step where there is room."""
        start = self.start(column)
        return start, max(start, self.start(column + 1) - 1)

    def column_of(self, step: int) -> int:
        """Return the column of a step, the middle one where it has several; clamped to the plot."""
        index = min(max(step - self.first, 0), self.span - 1)
        last = ((index + 1) * self.columns - 1) // self.span
        first = -(-index * self.columns // self.span)
        return min(self.columns - 1, (min(first, last) + last) // 2)

    def wider(self, dots: int) -> "Spread":
        """Return the same spread over `dots` columns in place of each."""
        return self if dots == 1 else Spread(self.first, self.span, self.columns * dots)


def spread_over(steps: int, columns: int, *, expected: int | None = None, first: int = 1) -> Spread:
    """Return how `steps` steps lie on a plot.

    Where it is known how many there will be, the axis ends there, or at a half, a quarter ... of it as long as no
    column would be empty for want of steps; else it is as many steps as there are columns, doubled when full.

    Args:
        steps: Steps there are.
        columns: Columns of the plot.
        expected: Steps there will be; for a run that is over, those it has.
        first: The first step's number.
    """
    columns = max(1, columns)
    if expected is None or expected < 1:
        span = columns
        while span < steps:
            span *= 2
        return Spread(first, span, columns)
    whole, span = expected, expected
    while whole < steps:  # more than was planned: steps on request
        whole = span = whole + max(1, whole // 4)
    halved = 2
    while (part := -(-whole // halved)) < span and part >= max(steps, columns):
        span, halved = part, halved * 2
    return Spread(first, span, columns)
