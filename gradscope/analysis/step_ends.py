"""When each step ended: its record may have been written later."""

from collections.abc import Sequence

from gradscope.core.events import Step

MOST_COVERED = (1 << 63) - 1
"""Steps that one record can stand for; more, which only a damaged file holds, are no figure."""


def step_ends_ns(steps: Sequence[Step]) -> list[int]:
    """Return the latest moment at which each step can have ended, in monotonic nanoseconds.

    Steps are recorded in groups, up to a quarter of a second late, all with the time of that moment. A step ended
    before it was recorded, and before the next one began.
    """
    ends: list[int] = []
    next_began: int | None = None
    for step in reversed(steps):
        end = step.t_ns if next_began is None else min(step.t_ns, next_began)
        ends.append(end)
        next_began = end - length_ns(step)
    return ends[::-1]


def length_ns(step: Step) -> int:
    """Return how long a record's steps took."""
    return round(step.wall_ms * 1e6 * max(1, min(step.covers, MOST_COVERED)))
