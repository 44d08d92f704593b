"""What panes keep between frames: steps and samples sorted into bins, and axes that only grow.

It makes frames cheap and axes calm; a pane drawn with a fresh one shows the same run.
"""

from __future__ import annotations  # array cannot be subscripted while a module is loaded before Python 3.12

from array import array
from bisect import bisect_left
from math import isnan

from gradscope.core.events import PHASES
from gradscope.tui.charts.bins import Bins
from gradscope.tui.charts.scale import GrowingScale, Quantity
from gradscope.tui.charts.spread import Spread, spread_over
from gradscope.tui.view import Columns, RunView

STEP_NAMES = (
    "wall_ms",
    *PHASES,
    "loss",
    "samples",
    "tokens",
    "allocated_peak_bytes",
    "reserved_bytes",
)
HOST_NAMES = ("tree_cpu_pct", "worker_resident_bytes")
GPU_NAMES = ("gpu_busy_pct", "memory_busy_pct", "used_bytes", "power_w", "sm_clock_mhz", "throttled")
"""What is drawn; sorting more into bins would make a long run open later."""


class Kept:
    """One for each run that is looked at."""

    def __init__(self) -> None:
        self._bins: dict[str, tuple[object, Bins]] = {}
        self._scales: dict[tuple[str, str, bool], GrowingScale] = {}

    def steps(self, view: RunView) -> Bins:
        """Return the step records by step."""
        return self._updated("steps", view.steps, STEP_NAMES, first=1)

    def host(self, view: RunView) -> Bins:
        """Return the host's samples by the step that was running: step n stands at n - 1, the last that was over."""
        return self._updated("host", _since_first_step(view.host, view.host), HOST_NAMES, first=0)

    def gpu(self, view: RunView, uuid: str) -> Bins:
        """Return one card's samples by the step that was running, like `host`."""
        return self._updated(uuid, _since_first_step(view.gpus[uuid], view.host), GPU_NAMES, first=0)

    def scale(self, chart: str, quantity: Quantity, *, log: bool = False, from_zero: bool = True) -> GrowingScale:
        """Return the axis of one chart."""
        key = (chart, quantity, log)
        if key not in self._scales:
            self._scales[key] = GrowingScale(quantity, log=log, from_zero=from_zero)
        return self._scales[key]

    def forget_scales(self) -> None:
        """Let all axes fit what is shown from now on."""
        self._scales.clear()

    def _updated(self, key: str, table: Columns, names: tuple[str, ...], *, first: int) -> Bins:
        identity = table.data.get("step")
        known = self._bins.get(key)
        if known is None or known[0] is not identity:
            known = (identity, Bins(names, first=first))
            self._bins[key] = known
        known[1].update(table)
        return known[1]


class _Later(Columns):
    """Columns without their first `skipped` rows."""

    __slots__ = ("skipped",)

    def __init__(self, columns: Columns, data: dict[str, array[float]], skipped: int) -> None:
        super().__init__(data, columns.count - skipped)
        object.__setattr__(self, "skipped", skipped)

    def values(self, name: str, start: int = 0, stop: int | None = None) -> array[float]:
        skipped: int = self.skipped  # type: ignore[attr-defined]  # set past the frozen base
        end = self.count if stop is None else min(stop, self.count)
        return self.data[name][start + skipped : end + skipped]


def _since_first_step(columns: Columns, host: Columns) -> Columns:
    """Return samples from the first on that knows of a step, with their steps: what came before was building."""
    steps = host.data["step"]
    count = min(columns.count, host.count)
    skipped = bisect_left(range(count), True, key=lambda index: not isnan(steps[index]))
    return _Later(Columns(columns.data, count), columns.data | {"step": steps}, skipped)


def planned_steps(view: RunView) -> int | None:
    """Return how many steps a run will have where its budget is a number of them; of one that is over, those it has."""
    if not view.running:
        last = view.steps.last("step")
        return None if last is None else int(last)
    if view.preset is None or view.preset.budget.updates is None:
        return None
    return view.preset.run.warmup + view.preset.budget.updates + 1 + view.preset.profile.steps


def spread_of(view: RunView, bins: Bins, columns: int, window: tuple[int, int] | None) -> Spread:
    """Return how steps lie on a chart: the whole run, or the `window` of (first step, how many)."""
    if window is not None:
        return Spread(window[0], max(1, window[1]), max(1, columns))
    return spread_over(bins.steps, columns, expected=planned_steps(view))
