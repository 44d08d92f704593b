"""What a reader makes of a run directory: never "running" unless its processes run here and now."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from gradscope.core.status import ProcessId, Status, StatusRecord
from gradscope.errors import GradscopeError
from gradscope.rundir import handle as handle_module
from gradscope.rundir.files import write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import boot_id, host_name, is_alive, parse_proc_stat, process_id
from gradscope.rundir.layout import STATUS
from gradscope.rundir.registry import (
    all_runs,
    find_run,
    last_run,
    last_running,
    last_to_follow,
    register,
    running,
    running_elsewhere,
    state_folder,
    unregister,
)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def me() -> ProcessId:
    process = process_id()
    assert process is not None
    return process


def a_run(
    out: Path,
    run_id: str = "20261130T120000Z-aaaaaa",
    status: Status = Status.MEASURING,
    *,
    host: str | None = None,
    boot: str | None = None,
    supervisor: ProcessId | None = None,
) -> Path:
    path = out / "quick" / run_id
    path.mkdir(parents=True)
    record = StatusRecord(
        status=status,
        host=host_name() if host is None else host,
        boot_id=boot_id() if boot is None else boot,
        supervisor=me() if supervisor is None else supervisor,
        updated_wall_ns=1,
        updated_monotonic_ns=2,
        exit_code=0 if status is Status.DONE else None,
    )
    write_json(path / STATUS, record)
    return path


def test_proc_stat_is_read_from_the_last_parenthesis() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_proc_stat(f"12 (a) Z (b c) S {fields}\n") == ("S", 22)


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    assert is_alive(me())
    assert not is_alive(ProcessId(pid=os.getpid(), start_time=me().start_time + 0.01))


def test_a_wall_clock_that_jumps_changes_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    before = me()

    def moved() -> float:
        raise AssertionError("the wall clock was asked")

    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, moved)
    monkeypatch.setattr(psutil, "boot_time", moved)
    assert me() == before
    assert is_alive(before)


def test_a_process_that_waits_to_be_reaped_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # end of file: it has exited
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_id(child.pid) is None
    child.wait()
    child.stdout.close()
    assert process_id(child.pid) is None


@pytest.mark.parametrize("status", [Status.STARTING, Status.MEASURING, Status.EXPORTING])
def test_a_status_that_is_not_final_stands_while_the_supervisor_lives(tmp_path: Path, status: Status) -> None:
    assert RunHandle(a_run(tmp_path, status=status)).status().status is status


def test_with_its_supervisor_gone_a_run_was_killed(tmp_path: Path) -> None:
    gone = ProcessId(pid=os.getpid(), start_time=me().start_time + 1)
    record = RunHandle(a_run(tmp_path, supervisor=gone)).status()
    assert (record.status, record.exit_code, record.signal) == (Status.KILLED, 137, 9)
    assert record.reason == "its supervisor was ended from outside while the run was measuring"
    assert record.hint


def test_a_folder_from_another_host_is_never_running(tmp_path: Path) -> None:
    record = RunHandle(a_run(tmp_path, host="node17")).status()
    assert record.status is Status.UNKNOWN
    assert record.reason == "the run was measuring on node17, where the folder came from"


def test_a_copied_run_folder_opens_and_is_not_running(tmp_path: Path) -> None:
    path = a_run(tmp_path / "there", host="node17")
    copy = tmp_path / "here" / path.name
    shutil.copytree(path, copy)
    register(copy)
    assert running() == []
    assert RunHandle(copy).status().status is Status.UNKNOWN
    assert find_run(str(copy), tmp_path).run_id == path.name


def test_a_run_from_before_a_restart_was_killed(tmp_path: Path) -> None:
    record = RunHandle(a_run(tmp_path, boot="another boot")).status()
    assert record.status is Status.KILLED
    assert record.reason == "the machine was restarted before the run was over"


@pytest.mark.parametrize("status", [Status.DONE, Status.FAILED, Status.OOM, Status.CANCELLED, Status.KILLED])
def test_a_final_status_stands_wherever_the_folder_is(tmp_path: Path, status: Status) -> None:
    gone = ProcessId(pid=1, start_time=-1.0)
    assert RunHandle(a_run(tmp_path, status=status, host="node17", supervisor=gone)).status().status is status


def test_a_verdict_written_while_we_look_is_not_mistaken_for_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_run(tmp_path)

    def dies_after_writing_its_verdict(process: ProcessId) -> bool:
        done = StatusRecord(status=Status.DONE, host="h", boot_id="b", updated_wall_ns=1, updated_monotonic_ns=2)
        write_json(path / STATUS, done)
        return False

    monkeypatch.setattr(handle_module, "is_alive", dies_after_writing_its_verdict)
    assert RunHandle(path).status().status is Status.DONE


def test_an_empty_folder_reads_as_a_run_of_unknown_state(tmp_path: Path) -> None:
    run = RunHandle(tmp_path)
    assert run.status().status is Status.UNKNOWN
    assert (run.events(), run.samples(), run.traces(), run.log_tail(5), run.manifest()) == ([], [], [], [], None)
    assert run.preset_name == tmp_path.parent.name


def test_traces_come_in_the_order_they_were_made(tmp_path: Path) -> None:
    for name in ("r-w10.1700000000900", "r-w2.1700000000100", "r-w1.900000000000"):
        (tmp_path / f"{name}.pt.trace.json.gz").touch()
    (tmp_path / "other.json").touch()
    assert [path.name.split(".")[0] for path in RunHandle(tmp_path).traces()] == ["r-w1", "r-w2", "r-w10"]


def test_the_end_of_the_log_is_given_whatever_bytes_it_holds(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_bytes(b"one\ntwo \xff\nthree")
    assert RunHandle(tmp_path).log_tail(2) == ["two \ufffd", "three"]
    assert RunHandle(tmp_path).log_tail(0) == []


def test_running_runs_are_found_from_any_folder_until_they_are_over(tmp_path: Path) -> None:
    path = a_run(tmp_path)
    register(path)
    assert [run.path for run in running()] == [path]
    assert find_run(path.name, tmp_path / "elsewhere").path == path
    unregister(path)
    unregister(path)
    assert running() == []


def test_pointers_to_runs_that_are_over_or_deleted_are_removed(tmp_path: Path) -> None:
    over, deleted = a_run(tmp_path, status=Status.DONE), a_run(tmp_path, "20261130T120000Z-bbbbbb")
    register(over)
    register(deleted)
    (deleted / STATUS).unlink()
    deleted.rmdir()
    assert running() == []
    assert list(state_folder().iterdir()) == []


def test_a_relative_state_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "gradscope" / "running"


def test_without_any_home_pointers_lie_in_the_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "expanduser", nobody)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    register(a_run(tmp_path))
    assert len(running()) == 1
    assert state_folder().is_relative_to(tmp_path)


def test_a_pointer_on_a_read_only_disk_does_not_stop_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(a_run(tmp_path, status=Status.DONE))
    going = a_run(tmp_path, "20261130T120000Z-bbbbbb")
    register(going)

    def refuse(path: Path, **settings: bool) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert [run.path for run in running()] == [going]


def test_runs_that_may_not_be_read_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = a_run(tmp_path, status=Status.DONE), a_run(tmp_path, "20261130T120000Z-bbbbbb", Status.DONE)
    monkeypatch.setattr(os, "access", lambda path, mode: path != theirs)
    assert [run.path for run in all_runs(tmp_path)] == [mine]


def test_runs_are_found_by_path_id_prefix_and_last(tmp_path: Path) -> None:
    first = a_run(tmp_path, "20261130T115959Z-aaaaaa", Status.DONE)
    second = a_run(tmp_path, "20261130T120000Z-abcdef", Status.DONE)
    third = a_run(tmp_path, "20261130T120000Z-123456", Status.DONE)
    (second / "manifest.json").touch()
    os.utime(second / "manifest.json", ns=(1, 1))
    (third / "manifest.json").touch()
    assert [run.path for run in all_runs(tmp_path)] == [third, second, first]
    assert find_run(str(first), tmp_path).path == first
    assert find_run(second.name, tmp_path).path == second
    assert find_run("20261130T11", tmp_path).path == first
    assert find_run("last", tmp_path).path == third


def test_a_short_id_finds_a_run_unless_it_fits_several(tmp_path: Path) -> None:
    first = a_run(tmp_path, "20261130T120000Z-abcdef", Status.DONE)
    assert find_run("abcdef", tmp_path).path == first
    a_run(tmp_path, "20261130T120001Z-abcdef", Status.DONE)
    with pytest.raises(GradscopeError, match="'abcdef' fits 2 runs"):
        find_run("abcdef", tmp_path)


def test_last_is_below_the_output_root_whatever_runs_elsewhere(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    older = a_run(here, "20261130T115959Z-aaaaaa")
    over = a_run(here, "20261130T120000Z-bbbbbb", Status.DONE)
    newest = a_run(elsewhere, "20261130T130000Z-cccccc")
    register(newest)
    assert find_run("last", here).path == over
    assert find_run("last", here, lambda root: last_running(root, "stop")).path == older
    assert find_run("last", here, last_to_follow).path == older
    assert find_run(newest.name, here).path == newest
    assert find_run("cccccc", here, last_to_follow).path == newest


def test_with_runs_elsewhere_only_last_is_refused_with_their_names(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    over = a_run(here, "20261130T120000Z-bbbbbb", Status.DONE)
    assert last_running(here, "stop").path == over
    theirs = a_run(elsewhere, "20261130T130000Z-cccccc")
    register(theirs)
    with pytest.raises(GradscopeError, match=f"no run below {here} is running") as refused:
        last_running(here, "stop")
    assert refused.value.hint == f"`gradscope stop ID` takes one from elsewhere: {theirs.name} in {elsewhere}"
    assert last_to_follow(here).path == over
    assert last_to_follow(tmp_path / "empty").path == theirs
    with pytest.raises(GradscopeError, match="there is no run below") as nothing:
        last_run(tmp_path / "empty")
    assert nothing.value.hint == f"running elsewhere: {theirs.name} in {elsewhere}"
    register(a_run(elsewhere, "20261130T130000Z-dddddd"))
    with pytest.raises(GradscopeError, match="there is no run below"):
        last_to_follow(tmp_path / "empty")


def test_a_root_that_is_a_link_holds_its_runs(tmp_path: Path) -> None:
    path = a_run(tmp_path / "there")
    register(path)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert running_elsewhere(tmp_path / "link") == []
    assert find_run(path.name, tmp_path / "link").run_id == path.name


def test_a_run_that_is_not_there_is_one_message_with_what_would_fit(tmp_path: Path) -> None:
    with pytest.raises(GradscopeError) as nothing:
        find_run("last", tmp_path)
    assert nothing.value.message == f"there is no run below {tmp_path} yet"
    first = a_run(tmp_path, "20261130T120000Z-abcdef")
    second = a_run(tmp_path, "20261130T120000Z-abc123")
    with pytest.raises(GradscopeError) as several:
        find_run("20261130T120000Z-abc", tmp_path)
    assert several.value.message == "'20261130T120000Z-abc' fits 2 runs"
    assert first.name in several.value.hint
    assert second.name in several.value.hint
    with pytest.raises(GradscopeError) as near:
        find_run("20261130T120000Z-abcdeg", tmp_path)
    assert near.value.hint.startswith("did you mean 20261130T120000Z-abcdef")
    with pytest.raises(GradscopeError) as far:
        find_run("nosuch", tmp_path)
    assert far.value.hint == "there are 2 runs; `gradscope runs` lists them"


def test_what_is_there_but_no_run_is_called_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(GradscopeError, match=r"the file .*notes\.txt is no run"):
        find_run(str(tmp_path / "notes.txt"), tmp_path)
    with pytest.raises(GradscopeError, match=r"the folder .* is no run"):
        find_run(str(tmp_path), tmp_path)
