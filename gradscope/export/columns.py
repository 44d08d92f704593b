"""The tables that are exported: one row a step with the samples that cover it, and one row a sample and card.

`docs/exports.md` says what each column is. What was not measured is `None`.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gradscope.analysis.step_ends import length_ns, step_ends_ns
from gradscope.core.events import PHASES
from gradscope.core.samples import GpuSample, HostSample, Sample
from gradscope.export.gathered import Gathered
from gradscope.sampling.energy import EnergySeries, energy_series
from gradscope.sampling.windows import Series, card_figure, host_figure

INTEGER, REAL, TEXT, TRUTH, REALS, TEXTS = "integer", "real", "text", "truth", "reals", "texts"
"""Kinds of columns; the last two are lists."""

GREATEST = (1 << 63) - 1
"""Larger whole numbers, which only a damaged file holds, are no figure."""

Row = dict[str, Any]

OF_STEP: dict[str, str] = {
    "seq": INTEGER,
    "step": INTEGER,
    "stage": TEXT,
    "covers": INTEGER,
    "t_ns": INTEGER,
    "wall_ms": REAL,
    "loss": REAL,
    "nonfinite": TEXT,
    "samples": INTEGER,
    "tokens": INTEGER,
    "evaluations": INTEGER,
    "allocated_peak_bytes": INTEGER,
    "reserved_bytes": INTEGER,
    "micro_ms": REALS,
}
"""Fields of `Step` beside its phases."""

OF_HOST: dict[str, str] = {"cpu_pct": "tree_cpu_pct", "resident_bytes": "worker_resident_bytes"}
"""Columns of a step that are means of the host's samples, and the field they are of."""

OF_CARD: dict[str, str] = {
    "gpu_busy_pct": "gpu_busy_pct",
    "gpu_memory_busy_pct": "memory_busy_pct",
    "gpu_used_bytes": "used_bytes",
    "gpu_power_w": "power_w",
    "gpu_temperature_c": "temperature_c",
    "gpu_sm_clock_mhz": "sm_clock_mhz",
    "gpu_memory_clock_mhz": "memory_clock_mhz",
}
"""The same of the run's card."""

STEP_COLUMNS: dict[str, str] = {
    "run": TEXT,
    **OF_STEP,
    **{f"{phase}_ms": REAL for phase in PHASES},
    "end_t_ns": INTEGER,
    "end_unix_ns": INTEGER,
    "sampled": INTEGER,
    "sample_shared": TRUTH,
    **{name: INTEGER if name.endswith("_bytes") else REAL for name in (*OF_HOST, *OF_CARD)},
    "gpu_energy_j": REAL,
    "gpu_throttle": TEXTS,
}
"""Of the table of steps: name to kind, in order."""

FIELDS: dict[type, dict[str, str]] = {
    HostSample: {
        "tree_cpu_pct": REAL,
        "core_busy_pct": REALS,
        "worker_resident_bytes": INTEGER,
        "tree_resident_bytes": INTEGER,
        "available_bytes": INTEGER,
        "memory_limit_bytes": INTEGER,
        "disk_free_bytes": INTEGER,
        "disk_read_bytes": INTEGER,
        "disk_write_bytes": INTEGER,
    },
    GpuSample: {
        "uuid": TEXT,
        "gpu_busy_pct": REAL,
        "memory_busy_pct": REAL,
        "used_bytes": INTEGER,
        "used_by": TEXT,
        "reserved_bytes": INTEGER,
        "total_bytes": INTEGER,
        "process_bytes": INTEGER,
        "power_w": REAL,
        "energy_mj": INTEGER,
        "temperature_c": REAL,
        "sm_clock_mhz": INTEGER,
        "memory_clock_mhz": INTEGER,
        "throttle": TEXTS,
        "pcie_tx_kb_s": INTEGER,
        "pcie_rx_kb_s": INTEGER,
        "foreign": TEXTS,
        "lost": TRUTH,
    },
}
"""Fields of the parts of a sample; a test holds them against the records."""


def gpu_column(field: str) -> str:
    """Return the column that holds a field of `GpuSample`."""
    return field if field.startswith("gpu_") else f"gpu_{field}"


SAMPLE_COLUMNS: dict[str, str] = {
    "run": TEXT,
    "t_ns": INTEGER,
    "unix_ns": INTEGER,
    "interval_ms": REAL,
    "step": INTEGER,
    **FIELDS[HostSample],
    **{gpu_column(field): kind for field, kind in FIELDS[GpuSample].items()},
}
"""Of the table of samples: name to kind, in order."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """A run's samples, each figure a series."""

    any: Series
    """Where samples are, whatever they hold."""
    by_column: dict[str, Series]
    energy: EnergySeries | None
    throttle: list[tuple[int, int, list[str]]]
    """Of the run's card: end and start of the sample's interval, and the reasons."""


def _figures(run: Gathered) -> _Figures:
    def series(figure: Callable[[Sample], float | None]) -> Series:
        return Series.of(run.samples, figure)

    by_column = {name: series(host_figure(field)) for name, field in OF_HOST.items()}
    if (card := run.card) is None:
        return _Figures(series(lambda _sample: 0.0), by_column, None, [])
    by_column |= {name: series(card_figure(card, field)) for name, field in OF_CARD.items()}
    throttle = [
        (sample.t_ns, sample.t_ns - round(sample.interval_ms * 1e6), gpu.throttle)
        for sample in run.samples
        for gpu in sample.gpus
        if gpu.uuid == card and gpu.throttle is not None
    ]
    return _Figures(series(lambda _sample: 0.0), by_column, energy_series(run.samples, card), throttle)


def step_rows(run: Gathered) -> Iterator[Row]:
    """Yield the rows of the table of steps; columns that a row lacks are empty."""
    figures, clocks = _figures(run), run.clocks
    for step, end_ns in zip(run.steps, step_ends_ns(run.steps), strict=True):
        row: Row = {"run": run.run_id, "end_t_ns": end_ns}
        row |= {name: getattr(step, name) for name in OF_STEP}
        row["stage"] = step.stage.value
        row["micro_ms"] = step.micro_ms or None
        row |= {f"{phase}_ms": getattr(step.phases, phase) for phase in PHASES}
        row["end_unix_ns"] = None if clocks is None else clocks.to_wall_ns(end_ns)
        yield row | _sampled(figures, end_ns - length_ns(step), end_ns)


def _sampled(figures: _Figures, start_ns: int, end_ns: int) -> Row:
    """Return what was sampled while a step ran."""
    found = figures.any.mean(start_ns, end_ns)
    if found is None:
        return {"sampled": 0}
    row: Row = {"sampled": found.samples, "sample_shared": found.shared}
    for name, series in figures.by_column.items():
        mean = series.mean(start_ns, end_ns)
        if mean is not None:
            row[name] = round(mean.value) if STEP_COLUMNS[name] is INTEGER else mean.value
    energy = figures.energy.window(start_ns, end_ns) if figures.energy else None
    row["gpu_energy_j"] = None if energy is None else energy.mj / 1000
    row["gpu_throttle"] = _reasons(figures, start_ns, end_ns)
    return row


def _reasons(figures: _Figures, start_ns: int, end_ns: int) -> list[str] | None:
    """Return why the card's clocks were held down in any sample that touches a step; `[]`: they were not."""
    first = bisect_right(figures.throttle, start_ns, key=lambda at: at[0])
    taken: list[list[str]] = []
    for at in range(first, len(figures.throttle)):
        _, since_ns, reasons = figures.throttle[at]
        if since_ns >= end_ns:
            break
        taken.append(reasons)
    return sorted({reason for reasons in taken for reason in reasons}) if taken else None


def sample_rows(run: Gathered) -> Iterator[Row]:
    """Yield the rows of the table of samples: one a sample, or one for each of its cards."""
    clocks = run.clocks
    for sample in run.samples:
        row: Row = {
            "run": run.run_id,
            "t_ns": sample.t_ns,
            "unix_ns": None if clocks is None else clocks.to_wall_ns(sample.t_ns),
            "interval_ms": sample.interval_ms,
            "step": sample.step,
        }
        if sample.host is not None:
            row |= {name: getattr(sample.host, name) for name in FIELDS[HostSample]}
        for gpu in sample.gpus:
            yield row | {gpu_column(name): getattr(gpu, name) for name in FIELDS[GpuSample]}
        if not sample.gpus:
            yield row


def as_columns(rows: Iterable[Row], kinds: dict[str, str]) -> dict[str, list[Any]]:
    """Turn rows into columns of equal length."""
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for row in rows:
        for name, values in columns.items():
            value = row.get(name)
            values.append(None if isinstance(value, int) and abs(value) > GREATEST else value)
    return columns
