"""`gradscope sweep` as far as it starts no process: what would run, and what it refuses."""

import json

import pytest

from gradscope.config.grid import grid_cells
from gradscope.core.status import Status
from tests.command_line import gradscope
from tests.made_cells import GRID, made_run, write_grid

pytestmark = pytest.mark.usefixtures("own_folder")


def test_a_dry_run_lists_the_cells_in_their_order_and_what_they_came_to(tmp_path, capsys):
    preset = write_grid(tmp_path, GRID)
    cells = grid_cells(preset)
    made_run(tmp_path / "traces", cells[0], Status.OOM)
    assert gradscope("sweep", "grid.toml", "--dry-run") == 0
    said, noted = capsys.readouterr()
    assert [line.split("  ", 1)[1] for line in said.splitlines()] == [
        "oom        optimizer.lr=0.1 run.warmup=1",
        "to run     optimizer.lr=0.2 run.warmup=2",
        "to run     optimizer.lr=0.1 run.warmup=2",
        "to run     optimizer.lr=0.2 run.warmup=1",
        "to run     adam",
    ]
    assert said.startswith(cells[0].hash)
    assert noted == f"4 of 5 cells would run, in this order; in {tmp_path / 'traces' / 'grid'}\n"
    assert gradscope("sweep", "grid.toml", "--dry-run", "--retry-failed", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [cell["status"] for cell in listed["cells"]] == [None] * 5
    assert listed["cells"][0]["settings"] == ["optimizer.lr=0.1", "run.warmup=1"]
    assert not (tmp_path / "traces" / "grid" / ".cells").exists()


def test_a_sweep_that_has_all_its_results_starts_nothing_and_writes_them(tmp_path, capsys):
    preset = write_grid(tmp_path, GRID)
    for cell in grid_cells(preset):
        made_run(tmp_path / "traces", cell, Status.DONE)
    assert gradscope("sweep", "grid.toml") == 0
    said, noted = capsys.readouterr()
    assert said == f"5 cells: 5 done\n{tmp_path / 'traces' / 'grid'}\n"
    assert noted == "grid: 5 cells, 0 to run; there already: 5 done\n"
    assert (tmp_path / "traces" / "grid" / "results.csv").is_file()
    assert (tmp_path / "traces" / "grid" / "results.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["quick"], "preset quick has no [sweep]"),
        (["grid.toml", "-s", "optimizer.lr=-1"], "optimizer.lr"),
        (["grid.toml", "--jobs", "two"], "--jobs: found 'two', allowed auto, or a number from 1 to 1024"),
        (["nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_is_refused_before_anything_starts(tmp_path, capsys, arguments, words):
    write_grid(tmp_path, GRID)
    assert gradscope("sweep", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "traces").exists()


def test_a_folder_that_cannot_be_made_is_one_message(tmp_path, capsys):
    write_grid(tmp_path, GRID)
    (tmp_path / "file").write_text("")
    assert gradscope("sweep", "grid.toml", "--out", "file") == 6
    assert "cannot write to" in capsys.readouterr().err
