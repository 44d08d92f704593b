"""What a sweep knows before anything runs: names of cells, their order, labels, locks, and what their runs came to."""

import itertools

import msgspec
import pytest

from gradscope.config.grid import cell_hash, grid_cells
from gradscope.config.labels import cell_labels
from gradscope.config.load import apply_overrides, load_preset
from gradscope.config.schema import Preset
from gradscope.core.status import Status, StatusRecord
from gradscope.launch.order import interleaved
from gradscope.launch.plan import make_plan
from gradscope.rundir.cells import cell_runs, cell_status, lock_cell
from tests.made_cells import GRID, made_run, write_grid


def test_a_cell_is_named_by_what_changes_its_run_and_by_nothing_else():
    preset = Preset(name="a")
    named = cell_hash(preset)
    assert len(named) == 12
    assert cell_hash(Preset(name="b", description="other words")) == named
    for change in ("run.threads=2", "run.seed=1", "optimizer.lr=0.5", "budget.updates=21", "model.options.x=1"):
        assert cell_hash(apply_overrides(preset, [change])) != named
    grid = load_preset("grid-tiny")
    assert len({cell.hash for cell in grid_cells(grid)}) == 60


def test_settings_that_mean_the_same_have_one_name():
    preset = Preset(name="a")
    assert cell_hash(apply_overrides(preset, ["optimizer.lr=1"])) == cell_hash(
        apply_overrides(preset, ["optimizer.lr=1.0"])
    )


def test_the_first_cells_of_a_grid_show_every_value_of_every_axis():
    order = [cell.place for cell in interleaved(grid_cells(load_preset("grid-tiny")))]
    assert len(set(order)) == 60
    for start in range(0, 60, 5):
        block = order[start : start + 5]
        assert [len({cell[axis] for cell in block}) for axis in range(3)] == [4, 5, 3]
    pairs = {(cell[0], cell[2]) for cell in order[:20]}
    assert len(pairs) >= 8  # of 12 models with strategies, after a third of the cells


def test_repeats_come_after_the_whole_grid_and_included_cells_after_the_others(tmp_path):
    preset = write_grid(tmp_path, GRID.replace("[sweep]", "[sweep]\nrepeats = 2"))
    assert [(cell.repeat, cell.place) for cell in interleaved(grid_cells(preset))] == [
        (repeat, found) for repeat in (0, 1) for found in [(0, 0), (1, 1), (0, 1), (1, 0), ()]
    ]


def test_an_order_is_one_of_all_cells_whatever_the_shape_of_the_grid(tmp_path):
    for sizes in itertools.product((1, 2, 4), repeat=3):
        keys = ("run.warmup", "run.seed", "budget.updates")
        axes = "\n".join(f'"{key}" = {list(range(1, size + 1))}' for key, size in zip(keys, sizes, strict=True))
        preset = write_grid(tmp_path, f"[sweep.axes]\n{axes}")
        order = [cell.place for cell in interleaved(grid_cells(preset))]
        assert sorted(order) == list(itertools.product(*(range(size) for size in sizes)))


def test_labels_hold_what_tells_cells_apart():
    cells = grid_cells(load_preset("grid-tiny"))
    labels = cell_labels(cells)
    assert labels[cells[0].hash] == "vit sgd standard"
    assert len(set(labels.values())) == 60


def test_labels_name_the_keys_of_other_axes(tmp_path):
    preset = write_grid(tmp_path, '[sweep.axes]\n"optimizer.lr" = [0.1, 0.2]\n"data.batch_size" = [4]')
    assert sorted(cell_labels(grid_cells(preset)).values()) == ["optimizer.lr=0.1", "optimizer.lr=0.2"]


def test_the_newest_run_of_a_cell_decides(tmp_path):
    preset = write_grid(tmp_path, GRID)
    first, second = grid_cells(preset)[:2]
    made_run(tmp_path, first, Status.DONE, at=1)
    newer = made_run(tmp_path, first, Status.FAILED, at=2)
    made_run(tmp_path, second, Status.DONE, at=3, cell_name=None)  # `gradscope run`, no cell of a sweep
    assert {name: handle.run_id for name, handle in cell_runs(tmp_path, preset.name).items()} == {
        first.hash: newer.run_id
    }


@pytest.mark.parametrize(
    ("status", "word", "again", "again_with_retry"),
    [
        (Status.DONE, "done", False, False),
        (Status.OOM, "oom", False, True),
        (Status.FAILED, "failed", False, True),
        (Status.CANCELLED, "timeout", False, True),
        (Status.CANCELLED, "cancelled", True, True),
        (Status.KILLED, "killed", True, True),
        (Status.MEASURING, "killed", True, True),  # its supervisor is gone
    ],
)
def test_which_cells_run_again(tmp_path, status, word, again, again_with_retry):
    preset = write_grid(tmp_path, GRID)
    cell = grid_cells(preset)[0]
    run = made_run(tmp_path, cell, status, timed_out=word == "timeout")
    assert cell_status(run.status()) == word
    for retry, expected in ((False, again), (True, again_with_retry)):
        plan = make_plan(preset, tmp_path, retry_failed=retry)
        assert (cell.hash in {waiting.hash for waiting in plan.waiting}) == expected
        assert len(plan.cells) == 5


def test_a_changed_preset_runs_what_changed(tmp_path):
    preset = write_grid(tmp_path, GRID)
    for cell in grid_cells(preset):
        made_run(tmp_path, cell, Status.DONE)
    assert make_plan(preset, tmp_path).waiting == []
    changed = write_grid(tmp_path, GRID.replace("0.2", "0.3"))
    assert {cell.place for cell in make_plan(changed, tmp_path).waiting} == {(1, 0), (1, 1)}


def test_a_lock_is_one_process_own_and_names_the_newest_run(tmp_path):
    preset = write_grid(tmp_path, GRID)
    cell = grid_cells(preset)[0]
    run = made_run(tmp_path, cell, Status.DONE)
    lock = lock_cell(tmp_path, preset.name, cell.hash)
    assert lock is not None
    assert lock.newest() is None
    assert lock_cell(tmp_path, preset.name, cell.hash) is None
    assert lock_cell(tmp_path, preset.name, "0" * 12) is not None
    lock.point_to(run.run_id)
    lock.release()
    again = lock_cell(tmp_path, preset.name, cell.hash)
    assert again is not None
    newest = again.newest()
    assert newest is not None
    assert newest.path == run.path


def test_a_record_says_only_of_a_time_limit_that_it_was_reached():
    record = StatusRecord(status=Status.CANCELLED, host="", boot_id="", updated_wall_ns=0, updated_monotonic_ns=0)
    assert b"timed_out" not in msgspec.json.encode(record)
    assert msgspec.json.decode(msgspec.json.encode(record), type=StatusRecord) == record
