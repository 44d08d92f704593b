"""Looking at a run directory again and again: only what was replaced is read, and a newer version is told as such."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gradscope.core.status import Status
from gradscope.rundir import watch
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import process_id
from gradscope.rundir.layout import MANIFEST, STATUS
from gradscope.rundir.manifest import Manifest
from gradscope.rundir.watch import WatchedRun
from tests.builders import run_directory


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a run's supervisor until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = WatchedRun(run_directory(tmp_path))
    before = run.status(), run.manifest()
    monkeypatch.setattr(watch, "read_bytes", lambda path: pytest.fail(f"{path} was read again"))
    assert (run.status(), run.manifest()) == before


def test_it_says_what_a_handle_says_in_every_state(tmp_path: Path) -> None:
    for state in (*Status, "lost", "bare"):
        path = run_directory(tmp_path / state, state)
        assert WatchedRun(path).status() == RunHandle(path).status()


def test_a_replaced_status_is_read(tmp_path: Path) -> None:
    path = run_directory(tmp_path, Status.WARMUP)
    run = WatchedRun(path)
    assert run.status().status is Status.WARMUP
    record = run.status()
    write_json(path / STATUS, msgspec.structs.replace(record, status=Status.DONE))
    assert run.status().status is Status.DONE


def test_a_supervisor_that_dies_while_watched_leaves_a_killed_run(
    tmp_path: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    path = run_directory(tmp_path, Status.MEASURING)
    run = WatchedRun(path)
    write_json(path / STATUS, msgspec.structs.replace(run.status(), supervisor=process_id(supervisor.pid)))
    assert run.status().status is Status.MEASURING
    supervisor.kill()
    supervisor.wait()
    assert run.status().status is Status.KILLED


def test_a_status_that_vanishes_is_not_remembered(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    run = WatchedRun(path)
    assert run.status().status is Status.DONE
    (path / STATUS).unlink()
    assert run.status().status is Status.UNKNOWN
    (path / STATUS).write_bytes(b'{"status": "do')
    assert run.status().status is Status.UNKNOWN


def test_a_newer_version_is_told_even_where_it_cannot_be_understood(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    run = WatchedRun(path)
    run.status()
    assert run.newest_schema == 1
    (path / STATUS).write_bytes(b'{"schema": 7, "status": "levitating"}')
    run.status()
    assert run.newest_schema == 7
    manifest = read_json(path / MANIFEST, Manifest)
    assert manifest is not None
    write_json(path / MANIFEST, msgspec.structs.replace(manifest, schema=9))
    run.manifest()
    assert run.newest_schema == 9
