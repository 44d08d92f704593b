"""Loading where memory is short: one clear error in time, no traceback, and no process left behind."""

import os
import resource
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace import load, parallel, room
from gradscope.trace.load import load_trace
from tests.trace_builder import chrome_event, write_chrome

GIB = 1 << 30


def limited(monkeypatch: pytest.MonkeyPatch, limit_bytes: int, used_bytes: int) -> None:
    """Pretend that this process may take so much address space, and has taken so much."""
    monkeypatch.setattr("resource.getrlimit", lambda _kind: (limit_bytes, resource.RLIM_INFINITY))
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(vms=used_bytes))
    monkeypatch.setattr("psutil.Process", lambda: process)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=100 * GIB))


def test_the_address_space_that_is_left_is_memory_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 4 * GIB, 1 * GIB)
    assert room.available_bytes([]) == 3 * GIB
    limited(monkeypatch, resource.RLIM_INFINITY, 1 * GIB)
    assert room.available_bytes([]) == 100 * GIB


def test_too_little_address_space_to_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 256 << 20, 0)
    with pytest.raises(GradscopeError, match=r"allows 256 MiB of address space \(ulimit -v\)") as refused:
        room.require_to_start()
    assert refused.value.exit_code is ExitCode.ENVIRONMENT
    limited(monkeypatch, resource.RLIM_INFINITY, 0)
    room.require_to_start()


@pytest.mark.parametrize("limit_mib", [200, 350, 700])
def test_a_shell_with_a_small_limit_gets_one_message(limit_mib: int) -> None:
    command = f"ulimit -v {limit_mib * 1024}; exec {sys.executable} -m gradscope trace nothing.json"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert done.stdout == ""
    assert done.stderr.startswith("gradscope: this shell allows")
    assert len(done.stderr.splitlines()) == 2


def test_memory_that_runs_out_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_arguments: object, **_options: object) -> None:
        raise MemoryError

    path = write_chrome(tmp_path / "x.json", [chrome_event("a", "cpu_op", 0, 1)])
    monkeypatch.setattr(load, "to_chunk", none_left)
    with pytest.raises(GradscopeError, match=r"x\.json is too large for the memory that is left") as refused:
        load_trace(path)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT


def test_where_no_process_can_be_started_this_one_reads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, real = list["subprocess.Popen[bytes]"](), parallel._start

    def second_fails(command: list[str]) -> "subprocess.Popen[bytes]":
        if started:
            raise OSError(12, "Cannot allocate memory")
        started.append(real(command))
        return started[0]

    path = write_chrome(tmp_path / "x.json", [chrome_event("a", "cpu_op", 0, 1)])
    monkeypatch.setattr(parallel, "_start", second_fails)
    assert load_trace(path, processes=2).events.height == 1
    assert started[0].returncode is not None


def test_a_helper_whose_reader_is_gone_leaves_without_a_word(tmp_path: Path) -> None:
    text = b'{"ph": "X", "name": "a", "ts": 1, "dur": 1}'
    file = tmp_path / "x.json"
    file.write_bytes(text)
    reading, writing = os.pipe()
    os.close(reading)
    helper = subprocess.Popen(
        [sys.executable, "-m", "gradscope.trace.part", "1", "0", str(file)],
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    _, said = helper.communicate(struct.pack("<QQ", len(text), 0))
    assert helper.returncode == 1
    assert said == b""
