"""A run as the screens see it: one frozen snapshot, live or finished.

A snapshot is cheap: the columns of steps and samples are shared with the feed and only ever grow at their ends, and a
snapshot reads them up to its own count.
"""

from __future__ import annotations  # array cannot be subscripted while a module is loaded before Python 3.12

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path

from gradscope.config.schema import Preset
from gradscope.core.events import (
    Audited,
    MemoryMeasured,
    ModelBuilt,
    ProfileEnded,
    ProfileStarted,
    Stage,
    TrainingFailed,
    WorkerStarted,
)
from gradscope.core.samples import SamplerStarted
from gradscope.core.status import StatusRecord

STEP_COLUMNS = (
    "step",
    "t_ns",
    "stage",
    "covers",
    "wall_ms",
    "data",
    "h2d",
    "forward",
    "backward",
    "recompute",
    "optimizer",
    "other",
    "loss",
    "samples",
    "tokens",
    "allocated_peak_bytes",
    "reserved_bytes",
)
"""One value a step record; times of phases in ms; `stage` is an index into `STAGES`."""

STAGES = tuple(Stage)

HOST_COLUMNS = (
    "t_ns",
    "step",
    "tree_cpu_pct",
    "worker_resident_bytes",
    "tree_resident_bytes",
    "available_bytes",
    "disk_free_bytes",
)
"""One value a sample."""

GPU_COLUMNS = (
    "gpu_busy_pct",
    "memory_busy_pct",
    "used_bytes",
    "process_bytes",
    "power_w",
    "energy_mj",
    "temperature_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "throttled",
)
"""One value a sample for each card; `throttled` is the number of reasons the clocks are held down."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Numbers by name, `count` of each; NaN stands for a number that is missing."""

    data: dict[str, array[float]]
    count: int

    def values(self, name: str, start: int = 0, stop: int | None = None) -> array[float]:
        """Return a copy of one column, or of a part of it."""
        return self.data[name][start : self.count if stop is None else min(stop, self.count)]

    def at(self, name: str, index: int) -> float | None:
        """Return one number; `None` where it is missing."""
        value = self.data[name][index]
        return None if isnan(value) else value

    def last(self, name: str) -> float | None:
        """Return the last number of a column that is there; `None` where there is none."""
        column = self.data[name]
        return next((column[i] for i in range(self.count - 1, -1, -1) if not isnan(column[i])), None)


class Table:
    """Columns that grow; only the feed's thread appends."""

    def __init__(self, names: Sequence[str]) -> None:
        self._data: dict[str, array[float]] = {name: array("d") for name in names}
        self._count = 0

    def append(self, **values: float | None) -> None:
        """Add one row; columns that are not named, or `None`, are missing in it."""
        for name, column in self._data.items():
            value = values.get(name)
            column.append(nan if value is None else value)
        self._count += 1

    def extend(self, count: int, values: Mapping[str, Iterable[float]]) -> None:
        """Add `count` rows column by column, NaN where a number is missing; all of them or, on an error, none.

        Raises:
            OverflowError: A number is too large for a column.
            ValueError: A column has not `count` values.
        """
        added = {name: array("d", values.get(name, ())) for name in self._data}
        missing = array("d", [nan]) * count
        if any(len(column) != count for name, column in added.items() if name in values):
            raise ValueError(f"each column takes {count} values")
        for name, column in self._data.items():
            column.extend(added[name] if name in values else missing)
        self._count += count

    @property
    def count(self) -> int:
        """Rows."""
        return self._count

    def columns(self) -> Columns:
        """Return what there is now."""
        return Columns(self._data, self._count)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the worker's output, control characters written out; `count` equal ones came one after another."""

    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Remark:
    """Something worth saying about the run: by the worker, the sampler, the supervisor, or the reader."""

    text: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A window of torch.profiler; `ended` is `None` while it is open."""

    started: ProfileStarted
    ended: ProfileEnded | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured steps together: no warm-up, no profiled step. The figures that a run's summary is made of, too."""

    steps: int
    seconds: float
    samples: float
    tokens: float | None
    """Label tokens; `None` where steps have none."""
    wall_ms: float
    """Sum over the steps; `seconds` is the worker's own where it wrote one."""
    phase_ms: Mapping[str, float]
    """Sums by phase, of those that were timed; `recompute` is a part of `backward`."""
    first_loss: float | None
    last_loss: float | None
    lowest_loss: float | None

    def rate(self, amount: float | None) -> float | None:
        """Return an amount of all of them per second."""
        return amount / self.seconds if amount is not None and self.seconds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """All that is known of a run at one instant."""

    revision: int
    """Goes up whenever anything else here changes."""
    path: Path
    run_id: str
    preset_name: str
    preset: Preset | None
    """`None` where the manifest is missing, damaged, or of another version."""
    status: StatusRecord
    running: bool
    doing: str
    """What it does now, in a word or two: `warm-up`, `measuring`, `writing up`."""
    stage: Stage | None
    stage_done: int
    """Steps done in this stage."""
    stage_planned: int | None
    share_done: float | None
    """Of the whole run, 0 to 1."""
    seconds_left: float | None
    silent_seconds: float | None
    """Since the last record of a running run; `None` for one that is over, or before the first."""
    started: WorkerStarted | None
    built: ModelBuilt | None
    steps: Columns
    """`STEP_COLUMNS`."""
    host: Columns
    """`HOST_COLUMNS`."""
    core_busy_pct: tuple[float, ...]
    """Of each core, as last sampled; empty where it was not."""
    gpus: dict[str, Columns]
    """`GPU_COLUMNS` by UUID, as many rows as `host`."""
    sampler: SamplerStarted | None
    throttle_reasons: tuple[str, ...]
    """Of the run's own card, as last sampled."""
    own_gpu: str | None
    """UUID of the card the run trains on."""
    categories: MemoryMeasured | None
    """The last record from `hooks`: memory by category."""
    allocator: MemoryMeasured | None
    """The last record from torch's allocator: peaks."""
    windows: tuple[Window, ...]
    audit: Audited | None
    failure: TrainingFailed | None
    median_step_ms: float | None
    """Of the measured steps so far: no warm-up, no profiled step."""
    remarks: tuple[Remark, ...]
    log: tuple[LogLine, ...]
    """The last lines, oldest first."""
    problems: tuple[str, ...]
    """What is wrong with the run directory: gone, damaged lines, a newer version."""
    measured: Measured | None = None
    """Of the steps so far; `None` before the first measured one."""
    partial: bool = False
    """Whether more lies there to be read at once: a large run that is being opened."""
