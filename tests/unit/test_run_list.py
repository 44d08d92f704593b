"""A list of runs that is read again and again."""

import shutil
from pathlib import Path

import pytest
from builders import run_directory

from gradscope.analysis import run_list
from gradscope.analysis.listing import RunRow
from gradscope.analysis.run_list import RunList
from gradscope.core.status import Status
from gradscope.rundir.handle import RunHandle


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the runs that were read, in order."""
    found: list[str] = []
    describe = run_list.describe

    def counted(handle: RunHandle) -> RunRow:
        found.append(handle.run_id)
        return describe(handle)

    monkeypatch.setattr(run_list, "describe", counted)
    return found


def ids(number: int) -> str:
    return f"20270115T0800{number:02d}Z-00000{number}"


def test_an_output_root_that_is_not_there_has_no_runs(tmp_path: Path):
    listed = RunList(tmp_path / "nowhere").read(10)
    assert (listed.total, listed.going, listed.runs) == (0, (), ())


def test_what_has_not_changed_is_not_read_again(tmp_path: Path, described: list[str]):
    for number in range(3):
        run_directory(tmp_path, run_id=ids(number))
    runs = RunList(tmp_path)
    assert [run.row.run_id for run in runs.read(10).runs] == [ids(2), ids(1), ids(0)]
    described.clear()
    assert len(runs.read(10).runs) == 3
    assert described == []
    run_directory(tmp_path, run_id=ids(3))
    assert [run.row.run_id for run in runs.read(10).runs] == [ids(3), ids(2), ids(1), ids(0)]
    assert described == [ids(3)]


def test_a_run_whose_files_changed_is_read_again(tmp_path: Path, described: list[str]):
    run_dir = run_directory(tmp_path, run_id=ids(0))
    runs = RunList(tmp_path)
    runs.read(10)
    (run_dir / "summary.json").write_text("{}")
    runs.read(10)
    assert described == [ids(0), ids(0)]


def test_only_as_many_as_asked_for_are_read_and_all_are_counted(tmp_path: Path, described: list[str]):
    for number in range(5):
        run_directory(tmp_path, run_id=ids(number))
    listed = RunList(tmp_path).read(2)
    assert listed.total == 5
    assert [run.row.run_id for run in listed.runs] == [ids(4), ids(3)]
    assert described == [ids(4), ids(3)]


def test_deleted_runs_are_gone(tmp_path: Path):
    run_dir = run_directory(tmp_path, run_id=ids(0))
    runs = RunList(tmp_path)
    assert runs.read(10).total == 1
    shutil.rmtree(run_dir)
    assert runs.read(10).total == 0


def test_running_runs_are_apart_and_not_read_through(tmp_path: Path, described: list[str]):
    run_directory(tmp_path, Status.MEASURING, run_id=ids(1))
    run_directory(tmp_path, "lost", run_id=ids(0))
    listed = RunList(tmp_path).read(10)
    assert [handle.run_id for handle in listed.going] == [ids(1)]
    assert [(run.row.run_id, run.row.status) for run in listed.runs] == [(ids(0), Status.KILLED)]
    assert "its supervisor was ended from outside" in listed.runs[0].reason
    assert described == [ids(0)]
