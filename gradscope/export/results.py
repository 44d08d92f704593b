"""A grid's results as files: `results.csv` and `results.parquet`, one row a cell and repeat.

`docs/reports.md` says what each column is.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscope.analysis.quantities import QUANTITIES
from gradscope.analysis.results import MISSING, OF_SUMMARY, Row, as_columns, columns, rows
from gradscope.config.schema import Preset
from gradscope.core.target_file import written_beside
from gradscope.rundir.cells import sweep_folder

if TYPE_CHECKING:
    import polars as pl

CSV = "results.csv"
PARQUET = "results.parquet"

WHOLE = frozenset({"exit_code", "seed", "foretold_peak_bytes", "room_bytes", "micro_steps"})
TRUTH = frozenset({"audit_passed", "contaminated"})


def write_results(out: Path, preset: Preset) -> list[Path]:
    """Write a sweep's results as they are now into its folder, each file replaced as a whole.

    Cells that no run was made for yet have no row.

    Args:
        out: The output root.
        preset: The sweep's.

    Raises:
        GradscopeError: The preset has no sweep.
        OSError: The folder cannot be read or written.
    """
    found = frame(rows(out, preset))
    folder = sweep_folder(out, preset.name)
    folder.mkdir(parents=True, exist_ok=True)
    return [write_frame(found, folder / CSV), write_frame(found, folder / PARQUET)]


def write_frame(found: "pl.DataFrame", target: Path, *, replace: bool = True) -> Path:
    """Write a table as CSV, or as Parquet where the name ends so; a reader sees the old file or the new one.

    Args:
        found: The table.
        target: Where to.
        replace: Whether a file that is there may be replaced.

    Raises:
        GradscopeError: It may not.
        OSError: It cannot be written.
    """
    with written_beside(target, replace=replace) as file:
        if target.suffix == ".parquet":
            found.write_parquet(file)
        else:
            found.write_csv(file)
    return target


def frame(found: Sequence[Row]) -> "pl.DataFrame":
    """Return results as a table: of the cells that there is a run for."""
    import polars as pl

    made = [one for one in found if one.status != MISSING]
    names = columns(found)
    data = [as_columns(one, names) for one in made]
    kinds = {name: _kind(name, [one[name] for one in data]) for name in names}
    types = {"whole": pl.Int64(), "real": pl.Float64(), "truth": pl.Boolean(), "text": pl.String()}
    return pl.DataFrame(
        {name: [_as(kinds[name], one[name]) for one in data] for name in names},
        schema={name: types[kind] for name, kind in kinds.items()},
    )


def _kind(name: str, values: Sequence[Any]) -> str:
    if name in TRUTH:
        return "truth"
    if name in WHOLE or (name in OF_SUMMARY and (name.endswith("_bytes") or _counts(name))):
        return "whole"
    if name in OF_SUMMARY:
        return "real"
    return _of_values([value for value in values if value is not None])


def _counts(name: str) -> bool:
    return name in QUANTITIES and QUANTITIES[name].unit == "count"


def _of_values(values: Sequence[Any]) -> str:
    """Return what holds all the values of an axis."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "truth"
    if kinds == {int}:
        return "whole"
    return "real" if kinds and kinds <= {int, float} else "text"


def _as(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "whole":
        return round(value)
    if kind == "real":
        return float(value)
    return value if kind == "truth" else str(value)
