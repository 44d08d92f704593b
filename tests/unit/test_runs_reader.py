"""Reading all runs, again and again."""

import shutil
from pathlib import Path

import msgspec
import pytest
from builders import preset_dict, run_directory, write_lines

from gradscope.core.status import Status, StatusRecord
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.layout import MANIFEST, STATUS
from gradscope.rundir.registry import register
from gradscope.tui.runs import reader
from gradscope.tui.runs.reader import RunsReader


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def ids(number: int) -> str:
    return f"20270115T0800{number:02d}Z-{number:06x}"


def test_the_newest_come_first_and_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FIRST_LOOK", 2)
    for number in range(4):
        run_directory(tmp_path / "traces", run_id=ids(number))
    runs = RunsReader(tmp_path / "traces")
    first = runs.read()
    assert [entry.row.run_id for entry in first.entries] == [ids(3), ids(2)]
    assert (first.total, first.complete) == (4, False)
    second = runs.read()
    assert [entry.row.run_id for entry in second.entries] == [ids(3), ids(2), ids(1), ids(0)]
    assert second.complete


def test_what_has_not_changed_is_the_same_entry(tmp_path: Path) -> None:
    run_directory(tmp_path / "traces")
    runs = RunsReader(tmp_path / "traces")
    assert runs.read().entries[0] is runs.read(anew=True).entries[0]


def test_folders_are_looked_at_now_and_then_and_at_once_after_a_deletion(tmp_path: Path) -> None:
    clock = Clock()
    run = run_directory(tmp_path / "traces", run_id=ids(1))
    runs = RunsReader(tmp_path / "traces", clock)
    assert len(runs.read().entries) == 1
    run_directory(tmp_path / "traces", run_id=ids(2))
    assert len(runs.read().entries) == 1
    clock.now += 2
    assert len(runs.read().entries) == 2
    shutil.rmtree(run)
    assert len(runs.read().entries) == 2
    assert len(runs.read(anew=True).entries) == 1


def test_a_running_run_is_followed_and_moves_when_it_is_over(tmp_path: Path) -> None:
    out = tmp_path / "traces"
    run = run_directory(out, Status.MEASURING, preset=preset_dict(budget={"updates": 10}))
    runs = RunsReader(out, Clock())
    [entry] = runs.read().entries
    assert entry.running is not None
    assert (entry.row.status, entry.row.loss, entry.row.step_ms) == (Status.MEASURING, 2.0, 25.0)
    assert (entry.running.standing.stage_done, entry.running.standing.stage_planned) == (4, 4)
    record = read_json(run / STATUS, StatusRecord)
    assert record is not None
    write_json(run / STATUS, msgspec.structs.replace(record, status=Status.DONE))
    [entry] = runs.read().entries
    assert (entry.running, entry.row.status) == (None, Status.DONE)


def test_running_runs_elsewhere_are_there_too(tmp_path: Path) -> None:
    register(run_directory(tmp_path / "other", Status.MEASURING))
    run_directory(tmp_path / "traces", run_id=ids(1))
    view = RunsReader(tmp_path / "traces").read()
    assert [entry.running is not None and entry.running.elsewhere for entry in view.entries] == [True, False]
    assert (view.total, view.running) == (1, 1)


def test_damaged_foreign_and_newer_folders_are_rows(tmp_path: Path) -> None:
    out = tmp_path / "traces"
    run_directory(out, Status.MEASURING, elsewhere=True, run_id=ids(1))
    torn = run_directory(out, run_id=ids(2))
    for name in (MANIFEST, STATUS, "events.jsonl"):
        (torn / name).write_bytes(b'\xff{"sta')
    newer = run_directory(out, run_id=ids(3))
    (newer / STATUS).write_text('{"schema": 9, "status": "resting"}')
    manifest = msgspec.json.decode((newer / MANIFEST).read_bytes())
    (newer / MANIFEST).write_bytes(msgspec.json.encode(manifest | {"schema": 9}))
    run_directory(out, "bare", run_id=ids(4))
    (out / "quick" / ids(5)).mkdir()
    (out / "quick" / ids(6)).symlink_to(tmp_path / "nowhere")
    write_lines(out / "quick" / "notes.txt", [])
    reasons = {entry.row.run_id: entry.reason for entry in RunsReader(out).read().entries}
    assert reasons == {
        ids(1): "the run was measuring on elsewhere, where the folder came from",
        ids(2): "status.json is missing or damaged",
        ids(3): "written by a newer gradscope (format 9): some of it may be missing here",
        ids(4): "status.json is missing or damaged",
        ids(5): "status.json is missing or damaged",
    }


def test_no_output_root_is_no_run(tmp_path: Path) -> None:
    view = RunsReader(tmp_path / "nowhere").read()
    assert (view.entries, view.total, view.complete) == ((), 0, True)
