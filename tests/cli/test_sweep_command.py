"""`gradscope sweep` as far as it starts no process: what would run, and what it refuses."""

import json

import pytest

from gradscope.cli.sweep import _resume_command
from gradscope.cli.sweep_notes import unreadable_notes
from gradscope.cli.sweep_view import cells_words
from gradscope.config.grid import grid_cells
from gradscope.core.status import Status
from gradscope.launch.plan import make_plan
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


def test_a_setting_that_only_some_values_of_an_axis_set_can_be_changed(tmp_path, capsys):
    write_grid(tmp_path, '[sweep.axes]\noptimizer = [{ name = "sgd", lr = 0.1 }, { name = "adam" }]')
    assert gradscope("sweep", "grid.toml", "-s", "optimizer.lr=0.5", "--dry-run") == 0
    assert gradscope("sweep", "grid.toml", "-s", "optimizer.name=adam", "--dry-run") == 2
    assert gradscope("sweep", "grid.toml", "-s", 'sweep.axes.optimizer=[{name="sgd"}]', "--dry-run") == 0


def test_exclusions_that_match_nothing_are_said_and_those_that_match_all_refused(tmp_path, capsys):
    axes = '[sweep.axes]\n"run.warmup" = [1, 2]\n'
    write_grid(tmp_path, '[sweep]\nexclude = [{ "run.warmup" = 1 }, { "run.warmup" = 7 }]\n' + axes)
    assert gradscope("sweep", "grid.toml", "--dry-run") == 0
    assert capsys.readouterr().err.startswith("note: sweep.exclude[1] matches no cell\n1 of 1 cells")
    write_grid(tmp_path, '[sweep]\nexclude = [{ "run.warmup" = [1, 2] }]\n' + axes)
    assert gradscope("sweep", "grid.toml", "--dry-run") == 2
    assert "sweep.exclude leaves no cell of grid" in capsys.readouterr().err


@pytest.mark.parametrize("line", ['"optimizer.lr" = [0.1]', "optimizer.lr = [0.1]", '"model+data" = []'])
def test_an_axis_directly_under_sweep_is_told_its_place(tmp_path, capsys, line):
    (tmp_path / "grid.toml").write_text(f"[sweep]\n{line}\n")
    assert gradscope("sweep", "grid.toml", "--dry-run") == 2
    assert "put it under [sweep.axes]" in capsys.readouterr().err


def test_run_folders_that_cannot_be_read_are_named(tmp_path, capsys):
    preset = write_grid(tmp_path, GRID)
    runs = [made_run(tmp_path / "traces", cell, Status.DONE, at=at) for at, cell in enumerate(grid_cells(preset))]
    (runs[1].path / "manifest.json").write_text("{")
    gradscope("report", "grid.toml")
    noted = capsys.readouterr().err.splitlines()
    assert "1 run folder in" in noted[0]
    assert noted[0].endswith(f"cannot be read and counts for nothing (no manifest, or a damaged one): {runs[1].run_id}")
    assert unreadable_notes(tmp_path / "nowhere") == []


def test_what_was_not_tried_comes_first_and_going_on_retries_no_failure_for_ever(tmp_path, monkeypatch):
    preset = write_grid(tmp_path, GRID)
    cells = make_plan(preset, tmp_path / "traces").cells
    made_run(tmp_path / "traces", cells[0], Status.FAILED)
    waiting = make_plan(preset, tmp_path / "traces", retry_failed=True).waiting
    assert waiting == [*cells[1:], cells[0]]
    monkeypatch.setattr("sys.argv", ["gradscope", "sweep", "grid.toml", "--retry-failed", "--fail-fast"])
    assert _resume_command() == "gradscope sweep grid.toml --fail-fast"
    monkeypatch.setattr("sys.argv", ["gradscope", "sweep", "grid.toml", "--retry-failed"])
    assert _resume_command() == "gradscope sweep grid.toml --retry-failed"
    assert [cells_words(number) for number in (0, 1, 2)] == ["0 cells", "1 cell", "2 cells"]


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
        (["grid.toml", "--jobs", "0", "--dry-run"], "--jobs: found '0'"),
        (["grid.toml", "--cell-limit", "nan"], "--cell-limit"),
        (["grid.toml", "--cell-limit", "inf"], "--cell-limit: found inf"),
        (["grid.toml", "-s", "run.warmup=3"], "run.warmup is set by the axis run.warmup of the sweep, in every cell"),
        (["grid.toml", "-s", "run={warmup=3}"], "run.warmup is set by the axis run.warmup"),
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
