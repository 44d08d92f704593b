"""Deleting runs: what goes, what stays, and what an interrupted deletion leaves."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders import GONE, RUN_ID, WALL_START_NS, run_directory

from gradscope.core.status import Status, StatusRecord
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir import remove
from gradscope.rundir.files import write_json
from gradscope.rundir.host import boot_id, host_name, process_id
from gradscope.rundir.layout import STATUS
from gradscope.rundir.registry import all_runs
from gradscope.rundir.remove import disk_bytes, leftovers, remove_leftovers, remove_run, why_not

HOUR_NS = 3600 * 10**9


def age_by(path: Path, seconds: float) -> None:
    """Let a run directory look as if nothing had been written to it for so long."""
    then = time.time() - seconds
    for found in (*path.rglob("*"), path):
        os.utime(found, (then, then))


@pytest.mark.parametrize("state", [Status.DONE, Status.FAILED, Status.OOM, Status.CANCELLED, Status.KILLED, "lost"])
def test_a_run_that_is_over_goes_whole(tmp_path: Path, state: Status | str) -> None:
    run = run_directory(tmp_path, state)
    (run / "memory").mkdir()
    (run / "memory" / "snapshot.pickle").write_bytes(b"1")
    other = run_directory(tmp_path, run_id="20270115T080001Z-0a1b2d")
    remove_run(run)
    assert [found.path for found in all_runs(tmp_path)] == [other]
    assert list(run.parent.iterdir()) == [other]


@pytest.mark.parametrize("state", [Status.STARTING, Status.MEASURING, Status.EXPORTING])
def test_a_running_one_is_never_touched(tmp_path: Path, state: Status) -> None:
    run = run_directory(tmp_path, state)
    before = sorted(run.rglob("*"))
    with pytest.raises(GradscopeError) as told:
        remove_run(run)
    assert told.value.message == f"{RUN_ID} is running"
    assert told.value.hint == "`gradscope stop 0a1b2c` ends it"
    assert sorted(run.rglob("*")) == before


def test_a_worker_that_outlives_its_supervisor_keeps_the_run(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "lost")
    record = StatusRecord(
        status=Status.MEASURING,
        host=host_name(),
        boot_id=boot_id(),
        supervisor=GONE,
        worker=process_id(),
        updated_wall_ns=WALL_START_NS,
        updated_monotonic_ns=0,
    )
    write_json(run / STATUS, record)
    with pytest.raises(GradscopeError, match="is running"):
        remove_run(run)


@pytest.mark.parametrize("kind", ["elsewhere", "bare", "damaged"])
def test_one_that_cannot_be_judged_goes_only_when_it_has_been_quiet_for_an_hour(tmp_path: Path, kind: str) -> None:
    run = run_directory(tmp_path, "bare" if kind == "bare" else Status.MEASURING, elsewhere=kind == "elsewhere")
    if kind == "damaged":
        (run / STATUS).write_text('{"status": "resting in a later version"}')
    age_by(run, 120)
    with pytest.raises(GradscopeError, match=r"may be running: .*, and it was written to 2 min 0\d s ago"):
        remove_run(run)
    age_by(run, 3601)
    remove_run(run)
    assert all_runs(tmp_path) == []


def test_a_run_from_another_host_that_is_over_goes_at_once(tmp_path: Path) -> None:
    run = run_directory(tmp_path, Status.DONE, elsewhere=True)
    remove_run(run)
    assert not run.exists()


def test_of_a_link_to_a_run_only_the_link_goes(tmp_path: Path) -> None:
    kept = run_directory(tmp_path / "archive")
    link = tmp_path / "traces" / "quick" / kept.name
    link.parent.mkdir(parents=True)
    link.symlink_to(kept)
    assert disk_bytes(link) == 0
    remove_run(link)
    assert not os.path.lexists(link)
    assert (kept / STATUS).exists()


def test_a_link_to_a_running_run_stays(tmp_path: Path) -> None:
    kept = run_directory(tmp_path / "archive", Status.MEASURING)
    link = tmp_path / kept.name
    link.symlink_to(kept)
    with pytest.raises(GradscopeError, match="is running"):
        remove_run(link)
    assert link.is_symlink()


def test_a_link_that_leads_nowhere_goes(tmp_path: Path) -> None:
    link = tmp_path / RUN_ID
    link.symlink_to(tmp_path / "nowhere")
    remove_run(link)
    assert not os.path.lexists(link)


def test_links_inside_are_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("x" * 1000)
    run = run_directory(tmp_path / "traces")
    size = disk_bytes(run)
    (run / "data").symlink_to(precious)
    (run / "thesis.tex").symlink_to(precious / "thesis.tex")
    assert disk_bytes(run) - size < 1000
    remove_run(run)
    assert (precious / "thesis.tex").read_text() == "x" * 1000


@pytest.mark.parametrize("name", ["quick", ".", "..", "20270115", f".{RUN_ID}", f"{RUN_ID}-old"])
def test_what_has_not_the_name_of_a_run_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(exist_ok=True)
    with pytest.raises(GradscopeError, match="is no run"):
        remove_run(tmp_path / name)
    assert (tmp_path / name).exists()


def test_a_file_with_the_name_of_a_run_and_one_that_is_gone_are_none(tmp_path: Path) -> None:
    with pytest.raises(GradscopeError, match="there is no run"):
        remove_run(tmp_path / RUN_ID)
    (tmp_path / RUN_ID).write_text("")
    with pytest.raises(GradscopeError, match="there is no run"):
        remove_run(tmp_path / RUN_ID)


KILLED_HALFWAY = """
import os, shutil, signal, sys
from pathlib import Path
from gradscope.rundir import remove
def half(path, *args, **more):
    (Path(path) / "status.json").unlink()
    os.kill(os.getpid(), signal.SIGKILL)
shutil.rmtree = half
remove.remove_run(Path(sys.argv[1]))
"""


def test_what_a_killed_deletion_leaves_is_no_run_and_goes_with_the_next(tmp_path: Path) -> None:
    run = run_directory(tmp_path)
    ended = subprocess.run([sys.executable, "-c", KILLED_HALFWAY, str(run)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not run.exists()
    assert all_runs(tmp_path) == []
    [left] = leftovers(tmp_path)
    assert (left / "manifest.json").exists()
    assert remove_leftovers(tmp_path) == 1
    assert list(run.parent.iterdir()) == []


def test_only_our_own_leftovers_go(tmp_path: Path) -> None:
    folder = tmp_path / "quick"
    for name in (".deleting-mine", f".deleting-{RUN_ID}", f".deleting-{RUN_ID}-0123456", "deleting"):
        (folder / name).mkdir(parents=True)
    (folder / f".deleting-{RUN_ID}-01234567").symlink_to(tmp_path)
    assert leftovers(tmp_path) == []
    assert remove_leftovers(tmp_path) == 0


def test_a_folder_that_may_not_be_written_is_told_and_stays_a_run(tmp_path: Path, monkeypatch) -> None:
    run = run_directory(tmp_path)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(GradscopeError) as told:
        remove_run(run)
    assert told.value.message == f"cannot delete {RUN_ID}: Permission denied"
    assert told.value.exit_code == ExitCode.ENVIRONMENT
    assert (run / STATUS).exists()


def test_a_run_of_somebody_else_is_refused_before_anything_happens(tmp_path: Path, monkeypatch) -> None:
    run = run_directory(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(GradscopeError, match="not yours to write"):
        remove_run(run)
    assert (run / STATUS).exists()


def test_a_run_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch) -> None:
    run = run_directory(tmp_path)

    def refused(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(remove.RunHandle, "status", refused)
    told = why_not(run)
    assert told is not None
    assert told.message == f"cannot delete {RUN_ID}: Permission denied"


def test_a_part_that_cannot_be_deleted_is_told_and_the_run_is_gone(tmp_path: Path, monkeypatch) -> None:
    run = run_directory(tmp_path)

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(GradscopeError) as told:
        remove_run(run)
    assert "is no run any more" in told.value.message
    [left] = leftovers(tmp_path)
    assert told.value.hint == f"what is left lies in {left}"
    assert all_runs(tmp_path) == []
    assert remove_leftovers(tmp_path) == 0


def test_two_that_delete_the_same_remains_do_not_trip_over_each_other(tmp_path: Path, monkeypatch) -> None:
    run = run_directory(tmp_path)
    really = shutil.rmtree

    def raced(path: Path) -> None:
        really(path)
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(shutil, "rmtree", raced)
    remove_run(run)
    assert leftovers(tmp_path) == []


def test_the_clock_may_be_behind_the_files(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "bare")
    told = why_not(run, now_wall_ns=time.time_ns() - HOUR_NS)
    assert told is not None
    assert "written to 0.00 s ago" in told.message
