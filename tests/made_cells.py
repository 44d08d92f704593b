"""Grids and runs of their cells, for tests that start no process."""

from pathlib import Path

import msgspec

from gradscope.config.convert import preset_to_dict
from gradscope.config.grid import GridCell
from gradscope.config.load import load_preset
from gradscope.config.schema import Preset
from gradscope.core.status import Status, StatusRecord
from gradscope.launch.spawn import make_manifest
from gradscope.rundir.files import write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import boot_id, host_name
from gradscope.rundir.layout import STATUS, create_run_directory
from gradscope.rundir.manifest import write_manifest
from tests.builders import GONE

GRID = """
[sweep]
include = [{ "optimizer.name" = "adam" }]
[sweep.axes]
"optimizer.lr" = [0.1, 0.2]
"run.warmup" = [1, 2]
"""
"""Four cells and one more."""


def write_grid(folder: Path, text: str) -> Preset:
    """Return the preset `grid` with this text."""
    (folder / "grid.toml").write_text(text)
    return load_preset(str(folder / "grid.toml"))


def made_run(
    out: Path, cell: GridCell, status: Status, *, at: int = 0, timed_out: bool = False, cell_name: str | None = ""
) -> RunHandle:
    """Make a run of a cell that came to `status`.

    Args:
        out: Output root.
        cell: Which one.
        status: What `status.json` says; its processes are gone.
        at: When it began, for the order of several.
        timed_out: Whether that was at its time limit.
        cell_name: What the manifest says; the cell's own hash where not given.
    """
    run_dir = create_run_directory(out, cell.preset.name)
    manifest = make_manifest(run_dir.name, cell.preset, ["test"])
    name = cell.hash if cell_name == "" else cell_name
    write_manifest(
        run_dir,
        msgspec.structs.replace(
            manifest,
            preset=preset_to_dict(cell.preset),
            cell=name,
            settings=list(cell.settings),
            created_wall_ns=manifest.created_wall_ns + at,
        ),
    )
    record = StatusRecord(
        status=status,
        host=host_name(),
        boot_id=boot_id(),
        supervisor=GONE,
        updated_wall_ns=manifest.created_wall_ns + at + 2_000_000_000,
        updated_monotonic_ns=0,
        timed_out=timed_out,
        reason=None if status is Status.DONE else "made up",
        exit_code=0 if status is Status.DONE else 1,
    )
    write_json(run_dir / STATUS, record)
    return RunHandle(run_dir)
