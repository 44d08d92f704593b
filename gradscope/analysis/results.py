"""The results of a grid: one row a cell and repeat, whatever became of it. What judges a grid takes these rows.

`docs/reports.md` says what each column is. What was not measured is `None`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gradscope.analysis.quantities import QUANTITIES
from gradscope.analysis.strangers import CONTAMINATED
from gradscope.analysis.summary import load_summary
from gradscope.analysis.unlike import flattened
from gradscope.config.convert import preset_from_dict, preset_to_dict
from gradscope.config.grid import cell_hash, grid_cells
from gradscope.config.overrides import toml_value
from gradscope.config.schema import Preset
from gradscope.core.status import Status, StatusRecord
from gradscope.core.summary import Record, Summary
from gradscope.errors import GradscopeError
from gradscope.rundir.cells import SKIPPED, Skip, cell_status, read_skips, sweep_folder
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import RUN_ID
from gradscope.rundir.manifest import Manifest

MISSING = "missing"
"""Status of a cell that no run was made for."""

WAITED_PCT = 15.0
"""A run that waited for a core longer than this share of its time was disturbed; quiet ones show up to 7 %."""

NOT_AXES = frozenset({"name", "description", "sweep", "claim", "run.seed"})
"""Settings that never tell cells apart; seeds tell repeats apart."""

OF_SUMMARY: tuple[str, ...] = (
    *QUANTITIES,
    "measured_seconds",
    "step_p25_ms",
    "step_p75_ms",
    "ms_per_sample",
    "waited_pct",
    "energy_j",
    "micro_steps",
)
"""Names of `Row.values`, in the order of columns."""

FIRST = ("cell", "run_id", "path", "status", "exit_code", "reason")
LAST = ("audit_passed", "foretold_peak_bytes", "room_bytes", "contaminated", "device", "device_name", "host")


class Row(Record, frozen=True, kw_only=True):
    """One cell and repeat."""

    cell: str
    """Hash of its settings, seed included: 12 hexadecimal digits."""
    run_id: str | None = None
    """`None` where no run was made."""
    path: str | None = None
    status: str
    """`done`, `oom`, `failed`, `timeout`, `cancelled`, `killed`; `skipped`; the stage of a run that goes on; `missing`.
    """
    exit_code: int | None = None
    reason: str | None = None
    axes: dict[str, Any] = msgspec.field(default_factory=dict)
    """The settings that vary over the grid, by dotted key."""
    seed: int | None = None
    values: dict[str, float | None] = msgspec.field(default_factory=dict)
    """Its numbers, by the names in `OF_SUMMARY`."""
    audit_passed: bool | None = None
    foretold_peak_bytes: int | None = None
    """What the estimate said before the run, or instead of it."""
    room_bytes: int | None = None
    """What a peak could take when the cell was skipped."""
    contaminated: bool | None = None
    """Whether a foreign process was on the card; `None` where nobody watched one."""
    device: str | None = None
    device_name: str | None = None
    host: str | None = None
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """The whole preset as plain data."""
    accumulation_mode: str | None = None
    curve: list[tuple[int, float | None]] = msgspec.field(default_factory=list)
    """(step, loss) of measured steps, thinned as in the summary."""

    @property
    def disturbed(self) -> bool:
        """Whether others used its card, or its core, so that its times are not its own."""
        return bool(self.contaminated) or (self.values.get("waited_pct") or 0.0) > WAITED_PCT

    @property
    def done(self) -> bool:
        """Whether its numbers are those of the whole run."""
        return self.status == Status.DONE.value

    def value(self, name: str) -> float | None:
        """Return one number of a run that is done: one that was cut short is no result for its cell."""
        return self.values.get(name) if self.done else None


def rows(out: Path, preset: Preset) -> list[Row]:
    """Return the cells of a preset's sweep in their order, each with its newest run below `out`, or `missing`.

    Raises:
        GradscopeError: The preset has no sweep, or a cell of it is no valid preset.
        OSError: A run cannot be read.
    """
    planned = [(cell.hash, preset_to_dict(cell.preset)) for cell in grid_cells(preset)]
    runs = newest_runs(sweep_folder(out, preset.name))
    varying = varying_keys([data for _, data in planned])
    skips = read_skips(out, preset.name)
    found = []
    for cell, data in planned:
        one = _read(cell, runs[cell], data, varying) if cell in runs else missing(cell, data, varying)
        found.append(skipped(one, skips[cell]) if cell in skips and _may_be_skipped(one) else one)
    return found


def rows_of_runs(folder: Path) -> list[Row]:
    """Return the runs of a folder as the cells of a grid whose axes are the settings in which they differ.

    Of runs with equal settings and seed, the newest counts.

    Raises:
        OSError: A run cannot be read.
    """
    runs = newest_runs(folder)
    settings = {cell: manifest.preset for cell, run in runs.items() if (manifest := run.manifest()) is not None}
    varying = varying_keys(list(settings.values()))
    return [_read(cell, run, settings.get(cell, {}), varying) for cell, run in runs.items()]


def newest_runs(folder: Path) -> dict[str, RunHandle]:
    """Return the newest run of each cell in a preset's folder, by hash, the oldest first.

    A run that was made by hand counts for the cell whose settings it has.
    """
    if not folder.is_dir():
        return {}
    handles = [RunHandle(path) for path in folder.iterdir() if RUN_ID.match(path.name)]
    made = [(handle, manifest) for handle in handles if (manifest := handle.manifest()) is not None]
    made.sort(key=lambda one: (one[1].created_wall_ns, one[1].run_id))
    found: dict[str, RunHandle] = {}
    for handle, manifest in made:
        if (cell := cell_of(manifest)) is not None:
            found.pop(cell, None)
            found[cell] = handle
    return found


def cell_of(manifest: Manifest) -> str | None:
    """Return the hash of the cell that a run is of, also one made by hand; `None`: its preset is of another version."""
    try:
        return manifest.cell or cell_hash(preset_from_dict(manifest.preset))
    except GradscopeError:  # its preset is of another version: no cell of this one
        return None


def varying_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the dotted keys in which presets differ, seeds and names aside, in the order of a preset."""
    flat = [flattened(one) for one in settings]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if key not in NOT_AXES and len({repr(one.get(key)) for one in flat}) > 1]


def missing(cell: str, settings: Mapping[str, Any], varying: Sequence[str]) -> Row:
    """Return the row of a cell that no run was made for."""
    return Row(cell=cell, status=MISSING, **_of_settings(settings, varying))


def skipped(one: Row, skip: Skip) -> Row:
    """Return the row of a cell that has no result and was not run for want of memory."""
    return Row(
        cell=one.cell,
        status=SKIPPED,
        reason=skip.reason,
        axes=one.axes,
        seed=one.seed,
        settings=one.settings,
        foretold_peak_bytes=skip.foretold_peak_bytes,
        room_bytes=skip.room_bytes,
    )


def _may_be_skipped(one: Row) -> bool:
    """Whether a cell has neither a result nor a run that goes on."""
    return one.status in (MISSING, Status.CANCELLED.value, Status.KILLED.value)


def _read(cell: str, handle: RunHandle, settings: Mapping[str, Any], varying: Sequence[str]) -> Row:
    return row(cell, load_summary(handle.path), handle.status(), settings, varying, path=str(handle.path))


def row(
    cell: str,
    summary: Summary,
    status: StatusRecord,
    settings: Mapping[str, Any],
    varying: Sequence[str],
    *,
    path: str | None = None,
) -> Row:
    """Return the row of one run. Pure.

    Args:
        cell: Its hash.
        summary: Its numbers.
        status: How it ended.
        settings: Its preset as plain data.
        varying: The dotted keys that vary over the grid.
        path: Where it lies.
    """
    audit, who = summary.audit, summary.identity
    watched = who.device is not None and who.device.startswith("cuda")
    said = any(remark.code == CONTAMINATED for remark in summary.remarks)
    return Row(
        cell=cell,
        run_id=summary.run_id,
        path=path,
        status=cell_status(status),
        exit_code=status.exit_code,
        reason=status.reason,
        **_of_settings(settings, varying),
        values=_values(summary),
        audit_passed=None if audit is None else audit.passed,
        foretold_peak_bytes=summary.memory.foretold_peak_bytes,
        contaminated=True if said else False if watched else None,
        device=who.device,
        device_name=who.device_name,
        host=summary.provenance.host,
        accumulation_mode=who.accumulation_mode,
        curve=summary.loss.curve,
    )


def _of_settings(settings: Mapping[str, Any], varying: Sequence[str]) -> dict[str, Any]:
    flat = flattened(settings)
    seed = flat.get("run.seed")
    return {
        "settings": dict(settings),
        "axes": {key: flat.get(key) for key in varying},
        "seed": seed if isinstance(seed, int) else None,
    }


def _values(summary: Summary) -> dict[str, float | None]:
    found: dict[str, float | None] = {name: quantity.value(summary) for name, quantity in QUANTITIES.items()}
    step = summary.time.step_ms
    found["measured_seconds"] = summary.duration.measured_seconds
    found["step_p25_ms"] = None if step is None else step.p25
    found["step_p75_ms"] = None if step is None else step.p75
    seconds, samples = summary.duration.measured_seconds, summary.duration.samples
    found["ms_per_sample"] = 1000 * seconds / samples if seconds and samples else None
    found["waited_pct"] = _waited_pct(summary)
    found["energy_j"] = summary.energy.joules
    found["micro_steps"] = summary.identity.micro_steps
    return found


def _waited_pct(summary: Summary) -> float | None:
    """Return the share of its measured time that a run of one CPU thread spent without a core.

    Such a run computes all the time, so what its CPU time lacks it waited: measured here, step times grew as it says.
    """
    cpu, who = summary.utilization.cpu_pct, summary.identity
    return max(0.0, 100.0 - cpu.mean) if cpu is not None and who.threads == 1 and who.device == "cpu" else None


def is_timed(metric: str) -> bool:
    """Whether a number depends on how fast a run went, and so on who else used the machine."""
    return metric not in QUANTITIES or QUANTITIES[metric].exactness == "measured"


def columns(found: Sequence[Row]) -> list[str]:
    """Return the columns of a table of these rows, in order."""
    axes = dict.fromkeys(key for one in found for key in one.axes)
    return [*FIRST, *axes, "seed", *OF_SUMMARY, *LAST]


def as_columns(one: Row, names: Sequence[str]) -> dict[str, Any]:
    """Return a row by column; settings that are tables or lists are their TOML."""
    found: dict[str, Any] = {}
    for name in names:
        if name in one.axes:
            value = one.axes[name]
            found[name] = toml_value(value) if isinstance(value, dict | list) else value
        elif name in OF_SUMMARY:
            found[name] = one.values.get(name)
        else:
            found[name] = getattr(one, name, None)
    return found
