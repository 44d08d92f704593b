"""Single numbers out of a view: those of one step, and those of the last few."""

from bisect import bisect_left
from statistics import median

from gradscope.core.events import Stage
from gradscope.tui.view import STAGES, Measured, RunView

MEASURE = float(STAGES.index(Stage.MEASURE))


def record_of(view: RunView, step: int | None) -> int | None:
    """Return the index of the record that stands for a step; of the newest for `None`; `None` where there is none."""
    count = view.steps.count
    if not count:
        return None
    if step is None:
        return count - 1
    return min(bisect_left(view.steps.data["step"], step, 0, count), count - 1)


def step_value(view: RunView, name: str, step: int | None) -> float | None:
    """Return a number of the step under the cursor, or of the newest."""
    index = record_of(view, step)
    return None if index is None else view.steps.at(name, index)


def stage_of(view: RunView, step: int | None) -> Stage | None:
    """Return the stage of a step."""
    stage = step_value(view, "stage", step)
    return None if stage is None else STAGES[int(stage)]


def sample_of(view: RunView, step: int | None) -> int | None:
    """Return the index of the first sample taken while a step ran, or after it; of the newest for `None`."""
    count = view.host.count
    if not count:
        return None
    if step is None:
        return count - 1
    steps = view.host.data["step"]
    # samples from before the first step know of none: NaN, which is neither less nor more
    found = bisect_left(range(count), True, key=lambda index: steps[index] >= step - 1)
    return min(found, count - 1)


def measured_tail(view: RunView, most: int) -> list[int]:
    """Return the indices of the last measured records, oldest first."""
    stages = view.steps.data["stage"]
    found: list[int] = []
    for index in range(view.steps.count - 1, -1, -1):
        if stages[index] == MEASURE:
            found.append(index)
            if len(found) == most:
                break
    return found[::-1]


def final(view: RunView, step: int | None) -> Measured | None:
    """Return what a run that is over came to, where no cursor is set: the same figures as in its results."""
    return view.measured if step is None and not view.running else None


def middle(values: list[float]) -> float:
    """Return the median; 0 for no values."""
    return median(values) if values else 0.0


def no_step(view: RunView) -> str:
    """Return what stands in a pane before the first step."""
    return f"{view.doing}: no step yet" if view.running else "there was no step"


def step_label(step: int | None) -> str:
    """Return how the step under the cursor is called."""
    return "" if step is None else f"step {step}"
