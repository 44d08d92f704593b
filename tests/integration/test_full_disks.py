"""A disk that fills up during a run: the run ends as failed, says why, and its directory reads."""

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradscope.core.events import Step
from gradscope.core.status import Status
from gradscope.launch.verdict import DISK_HINT
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.layout import RESERVE
from tests import fake_runs

DISK_BYTES = 2 * 1024 * 1024


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    fake_runs.reap()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Make `folder` a disk of 2 MiB where that is allowed, else let no file of a child process grow past that."""
    folder.mkdir()
    if (
        shutil.which("mount")
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
        == 0
    ):
        try:
            yield True
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    with file_size_limit():
        yield False


@contextlib.contextmanager
def file_size_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_on_a_disk_that_fills_up_fails_with_a_reason(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as is_full:
        run = fake_runs.start(tmp_path / "disk", "fills", finisher="summary", sampling=True)
        record = fake_runs.wait_for_end(run)
        assert (record.status, record.exit_code) == (Status.FAILED, 1)
        if is_full:
            assert record.reason == "the disk that holds the run directory is full"
            assert record.hint == DISK_HINT
            assert any("No space left on device" in note for note in record.notes)
            assert (run.path / "junk").stat().st_size > DISK_BYTES / 2
        assert (run.path / "summary.json").read_text() == "{}"
        assert run.log_tail(1)[0].startswith("OSError: [Errno ")
        assert not (run.path / RESERVE).exists()
        assert len(run.events()) > 3


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("tiny", (1, "")),
        ("raising", (1, "ValueError: labels out of range")),
        ("out_of_memory", (3, "RuntimeError: the forward of block 3 failed")),
    ],
)
def test_records_that_find_no_room_are_one_line_and_hide_no_error_in_training(
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    model: str,
    expected: tuple[int, str],
) -> None:
    real = JsonlWriter.append
    steps = 0

    def append(self: JsonlWriter, *records: Any) -> int:
        nonlocal steps
        if steps == 4:  # what is written next tells of the fifth, which goes wrong
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        steps += sum(isinstance(record, Step) for record in records)
        return real(self, *records)

    monkeypatch.setattr(JsonlWriter, "append", append)
    monkeypatch.setattr("gradscope.worker.steps.SETTLE_NS", 0)
    code, events = run(model)
    said = capfd.readouterr().err
    assert (code, len(events.steps())) == (expected[0], 4)
    assert said.splitlines()[-1] == "gradscope: events.jsonl cannot be written: No space left on device"
    assert expected[1] in said
    assert "OSError" not in said


def test_files_that_may_not_grow_fail_a_run_with_a_reason(tmp_path: Path) -> None:
    with file_size_limit():
        run = fake_runs.start(tmp_path, "fills")
    record = fake_runs.wait_for_end(run)
    assert (record.status, record.exit_code) == (Status.FAILED, 1)
    assert record.reason == ("the worker left with exit code 1 before it was done: OSError: [Errno 27] File too large")
