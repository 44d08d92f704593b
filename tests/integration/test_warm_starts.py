"""A cell forked from a warm process is the run that a cold one would be: the same losses, the same supervision."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gradscope.analysis.summary import load_summary
from gradscope.config.grid import GridCell, cell_hash
from gradscope.config.load import apply_overrides, load_preset
from gradscope.config.resolve import without_grid
from gradscope.core.events import MemoryMeasured, Step, WorkerStarted
from gradscope.core.samples import Sample
from gradscope.core.status import Status
from gradscope.launch.cells import RunningCell, start_cell
from gradscope.launch.spawn import launch, make_manifest
from gradscope.launch.warm import WarmProcess
from gradscope.rundir.cells import lock_cell
from gradscope.rundir.handle import RunHandle
from tests.fake_runs import reap, wait_for, wait_for_end

SHORT = ["budget.updates=6", "run.threads=1", "model.dropout=0.1", "profile.steps=1"]


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmProcess]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    process = WarmProcess(tmp_path / "warm.log")
    yield process
    process.close()
    reap()


def run_cell(warm: WarmProcess, cell: GridCell, out: Path) -> tuple[RunningCell, RunHandle]:
    lock = lock_cell(out, cell.preset.name, cell.hash)
    assert lock is not None
    running = start_cell(
        warm,
        cell,
        lock,
        out=out,
        facts=make_manifest("", cell.preset, ["test"]),
        slot=0,
        env={"GRADSCOPE_TEST": "1"},
        time_limit_seconds=100,
    )
    return running, running.handle


def losses(run: RunHandle) -> list[float | None]:
    return [event.loss for event in run.events() if isinstance(event, Step)]


def kinds(run: RunHandle) -> list[type]:
    """Return the kinds of a run's records in order, without those that come when some time has passed."""
    return [type(event) for event in run.events() if not isinstance(event, MemoryMeasured)]


@pytest.mark.timeout(180)
def test_a_forked_cell_is_the_run_that_a_cold_process_makes(tmp_path: Path, warm: WarmProcess) -> None:
    grid = without_grid(load_preset("grid-tiny"))
    presets = [apply_overrides(grid, [*SHORT, f"memory.strategy={name}"]) for name in ("standard", "checkpoint")]
    cells = [GridCell(settings=(), preset=preset, hash=cell_hash(preset), place=(), repeat=0) for preset in presets]
    warm.begin()
    cold = launch(presets[1], out=tmp_path / "cold")
    wait_for(warm.is_ready, 60)
    process = next(child for child in psutil.Process().children() if "gradscope.worker.warm" in child.cmdline())
    before = process.num_threads()

    for cell in cells:
        running, run = run_cell(warm, cell, tmp_path)
        wait_for(running.listen, 60)
        record = running.end()
        assert (record.status, record.exit_code, record.notes) == (Status.DONE, 0, ())
        assert process.num_threads() <= before  # else the next child would wait for threads that it has not

    assert wait_for_end(cold, 60).status is Status.DONE
    assert losses(run) == losses(cold)
    assert len(losses(run)) == len(losses(cold)) > 6
    warm_summary, cold_summary = load_summary(run.path), load_summary(cold.path)
    assert warm_summary.memory.allocated_peak_bytes == cold_summary.memory.allocated_peak_bytes
    assert warm_summary.audit == cold_summary.audit
    assert warm_summary.flops.model == cold_summary.flops.model
    assert len(run.traces()) == len(cold.traces()) == 1
    assert kinds(run) == kinds(cold)
    assert {path.suffix for path in run.path.iterdir()} == {path.suffix for path in cold.path.iterdir()}
    assert any(isinstance(line, Sample) for line in run.samples())
    manifest = run.manifest()
    assert manifest is not None
    assert (manifest.cell, manifest.env["GRADSCOPE_TEST"]) == (cells[1].hash, "1")
    started = next(event for event in run.events() if isinstance(event, WorkerStarted))
    assert started.import_seconds == 0
    assert (tmp_path / "warm.log").read_text() == ""
