"""A supervised run ends in the right status whatever its worker does, and leaves no process behind."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.analysis.summary import load_summary
from gradscope.core.status import Status
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch import spawn
from gradscope.rundir.control import StopRequested, request
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import RESERVE, create_run_directory
from gradscope.rundir.registry import running
from tests import fake_runs


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    fake_runs.reap()


def test_a_run_that_finishes_is_done(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "finishes", finisher="summary")
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code, record.reason, record.notes) == (Status.DONE, 0, None, ())
    assert (run.path / "summary.json").exists()
    assert not (run.path / RESERVE).exists()
    assert fake_runs.processes_of(run) == []
    assert running() == []


def test_a_running_run_is_listed_and_tells_its_stage(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "trains")
    fake_runs.wait_for(lambda: run.status().status is Status.MEASURING)
    assert [found.path for found in running()] == [run.path]
    request(run.path, StopRequested())
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code, record.reason) == (
        Status.CANCELLED,
        ExitCode.STOPPED,
        "it was stopped on request",
    )
    assert running() == []


@pytest.mark.parametrize(
    ("behaviour", "status", "exit_code", "reason"),
    [
        ("raises", Status.FAILED, 1, r"RuntimeError at step 2: broken [/red]\e[2J"),
        ("starves", Status.OOM, 3, "OutOfMemoryError at step 2 in backward: CUDA out of memory"),
        ("mute", Status.FAILED, 1, "the worker left with exit code 5 before it was done: last words"),
        ("crashes", Status.FAILED, 1, "the worker crashed (SIGSEGV): an error in native code, not in Python"),
    ],
)
def test_a_worker_that_fails_says_why(
    tmp_path: Path, behaviour: str, status: Status, exit_code: int, reason: str
) -> None:
    record = fake_runs.wait_for_end(fake_runs.start(tmp_path, behaviour))
    assert (record.status, record.exit_code, record.reason) == (status, exit_code, reason)
    assert record.hint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_supervisor_stops_the_run_gracefully(tmp_path: Path, number: signal.Signals) -> None:
    run = fake_runs.start(tmp_path, "trains", finisher="summary")
    fake_runs.wait_for_steps(run)
    os.kill(fake_runs.pids_of(run)["supervisor"], number)
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code, record.signal) == (Status.CANCELLED, 128 + number, number)
    assert record.reason == f"it was stopped by {number.name}"
    assert type(run.events()[-1]).__name__ == "WorkerEnded"
    assert (run.path / "summary.json").exists()


def test_a_request_carries_the_signal_the_front_end_was_stopped_with(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "trains")
    fake_runs.wait_for_steps(run)
    request(run.path, StopRequested(signal=2))
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code) == (Status.CANCELLED, 130)


def test_a_time_limit_stops_the_run(tmp_path: Path) -> None:
    record = fake_runs.wait_for_end(fake_runs.start(tmp_path, "trains", time_limit_seconds=0.3))
    assert (record.status, record.exit_code) == (Status.CANCELLED, ExitCode.STOPPED)
    assert record.reason == "it was stopped at its time limit of 0.3 s"


def test_a_worker_that_does_not_listen_is_killed_on_a_second_request(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "deaf")
    fake_runs.wait_for_steps(run)
    request(run.path, StopRequested(signal=2))
    request(run.path, StopRequested(signal=2, kill=True))
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code) == (Status.CANCELLED, 130)
    assert record.reason == "it was stopped by SIGINT; the worker was killed at once"


def test_nothing_of_a_run_is_left_not_even_what_left_its_group(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "family")
    fake_runs.wait_for_steps(run)
    family = [int(pid) for pid in (run.path / "family.txt").read_text().split()]
    assert len(family) == 4
    assert all(fake_runs.is_running(pid) for pid in family)
    request(run.path, StopRequested())
    fake_runs.wait_for_end(run)
    assert not any(fake_runs.is_running(pid) for pid in family)


def test_output_of_any_size_is_drained(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "chatters")
    assert fake_runs.wait_for_end(run).status is Status.DONE
    log = (run.path / "worker.log").read_bytes()
    assert [line[:2] for line in log.splitlines()] == [f"{number:02d}".encode() for number in range(64)]


def test_a_finisher_that_fails_or_hangs_changes_no_verdict(tmp_path: Path) -> None:
    record = fake_runs.wait_for_end(fake_runs.start(tmp_path, "finishes", finisher="fails"))
    assert (record.status, record.exit_code) == (Status.DONE, 0)
    assert record.notes == ("writing up the run failed while writing anything (exit code 1); worker.log says more",)
    run = fake_runs.start(tmp_path, "finishes", finisher="slow")
    fake_runs.wait_for(lambda: run.status().status is Status.EXPORTING)
    exporting = run.status()
    assert (exporting.verdict, exporting.exit_code) == (Status.DONE, 0)
    request(run.path, StopRequested(kill=True))
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code, record.verdict) == (Status.DONE, 0, None)
    assert record.notes == ("writing up the run took too long and was ended while writing anything",)


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (
            "raise ModuleNotFoundError(\"No module named 'pkg_resources'\")",
            "TensorBoard's files could not be written: tensorboard cannot be imported: No module named 'pkg_resources'",
        ),
        (
            "raise AttributeError(\"module 'pkgutil' has no attribute 'ImpImporter'\")",
            "TensorBoard's files could not be written: AttributeError: module 'pkgutil' has no attribute 'ImpImporter'",
        ),
        ("import os; os._exit(7)", "writing up the run failed while writing TensorBoard's files (exit code 7)"),
    ],
)
def test_a_run_needs_no_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, note: str) -> None:
    (tmp_path / "stubs" / "tensorboard").mkdir(parents=True)
    (tmp_path / "stubs" / "tensorboard" / "__init__.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stubs"))
    run = fake_runs.start(tmp_path, "finishes", finisher="real")
    record = fake_runs.wait_for_end(run, 60)
    assert (record.status, record.exit_code) == (Status.DONE, 0)
    assert [said.removesuffix("; worker.log says more") for said in record.notes] == [note]
    assert load_summary(run.path).duration.measured_steps == 5
    assert (run.path / "summary.json").exists()


def test_a_run_whose_folder_is_deleted_ends(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "trains")
    fake_runs.wait_for_steps(run)
    pids = fake_runs.pids_of(run)
    run.path.rename(tmp_path / "moved")
    fake_runs.wait_for_death(*pids.values())
    assert not run.path.exists()


def test_a_worker_that_cannot_be_started_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(GradscopeError) as caught:
        fake_runs.start(tmp_path, "unstartable")
    assert caught.value.message == "the worker could not be started: No such file or directory"
    [path] = tmp_path.glob("fake/*")
    assert RunHandle(path).status().status is Status.FAILED


def test_a_supervisor_that_dies_at_once_is_one_message(tmp_path: Path) -> None:
    run_dir = create_run_directory(tmp_path, "fake")
    with pytest.raises(GradscopeError, match="supervisor ended at once") as caught:
        spawn.start_supervisor(run_dir, [sys.executable, "-c", "raise SystemExit(9)"])
    assert str(run_dir) in caught.value.hint


def test_runs_started_in_the_same_second_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.rundir.layout.utc_stamp", lambda wall_ns: "20261130T120000Z")
    runs = [fake_runs.start(tmp_path, "finishes") for _ in range(2)]
    assert len({run.run_id for run in runs}) == 2
    for run in runs:
        assert fake_runs.wait_for_end(run).status is Status.DONE
        assert len(run.events()) == 10


def test_an_output_root_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GradscopeError, match="cannot make a run directory") as caught:
        create_run_directory(tmp_path / "file" / "traces", "quick")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
