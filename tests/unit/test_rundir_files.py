"""Files of a run directory are whole or not there, whatever happened to their writer."""

import os
from pathlib import Path

import pytest

from gradscope.core.events import AnyEvent, Note, WorkerEnded
from gradscope.core.status import Status, StatusRecord
from gradscope.errors import GradscopeError
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.control import CaptureRequested, ControlReader, SnapshotRequested, StopRequested, request
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.manifest import Manifest, read_manifest, write_manifest
from gradscope.rundir.tail import JsonlTail


def note(seq: int) -> Note:
    return Note(seq=seq, t_ns=1, code="c", message="m")


def record(status: Status) -> StatusRecord:
    return StatusRecord(status=status, host="h", boot_id="b", updated_wall_ns=1, updated_monotonic_ns=2)


def test_a_written_file_reads_back_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_json(path, record(Status.DONE))
    write_json(path, record(Status.FAILED))
    assert read_json(path, StatusRecord) == record(Status.FAILED)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b'{"status": "do', b"[1]", b"\xff\xfe", b'{"status": "new"}', b"[" * 99_999])
def test_a_torn_or_foreign_file_reads_as_missing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "status.json"
    path.write_bytes(content)
    assert read_json(path, StatusRecord) is None


def test_a_missing_file_a_folder_and_a_pipe_read_as_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("missing", "pipe", "folder", "folder/x/y"):
        assert read_json(tmp_path / name, StatusRecord) is None


def test_a_failed_write_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "status.json"
    write_json(path, record(Status.DONE))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, record(Status.FAILED))
    assert read_json(path, StatusRecord) == record(Status.DONE)
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_reports_the_bytes_it_added(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "events.jsonl")
    added = writer.append(note(0)) + writer.append(note(1))
    writer.close()
    writer.close()
    assert added == writer.size_bytes == (tmp_path / "events.jsonl").stat().st_size
    assert JsonlWriter(tmp_path / "events.jsonl").size_bytes == added


def test_a_tail_gives_each_record_once_and_waits_for_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail: JsonlTail[AnyEvent] = JsonlTail(path, AnyEvent)
    assert tail.read() == []
    writer = JsonlWriter(path)
    writer.append(note(0))
    writer.append(note(1))
    assert tail.read() == [note(0), note(1)]
    assert tail.read() == []
    line = b'{"kind":"worker_ended","seq":2,"t_ns":1,"reason":"finished"}\n'
    with path.open("ab") as file:
        file.write(line[:20])
        file.flush()
        assert tail.read() == []
        file.write(line[20:])
    assert tail.read() == [WorkerEnded(seq=2, t_ns=1, reason="finished")]
    assert (tail.unknown, tail.malformed) == (0, 0)


def test_damaged_lines_are_counted_and_cost_no_other_record(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    writer = JsonlWriter(path)
    writer.append(note(0))
    with path.open("ab") as file:
        file.write(b'{"kind":"from_the_future","seq":1}\n{"kind":"note"}\nnot json\n\n"\xff"\n' + b"[" * 99_999 + b"\n")
    writer.append(note(2))
    tail: JsonlTail[AnyEvent] = JsonlTail(path, AnyEvent)
    assert tail.read() == [note(0), note(2)]
    assert (tail.unknown, tail.malformed) == (1, 4)


def test_a_line_torn_by_a_dead_writer_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "control.jsonl"
    path.write_bytes(b'{"kind":"sto')
    writer = JsonlWriter(path)
    writer.append(note(0))
    writer.append(note(1))
    tail: JsonlTail[AnyEvent] = JsonlTail(path, AnyEvent)
    assert tail.read() == [note(0), note(1)]
    assert tail.malformed == 1


def test_a_line_torn_by_a_full_disk_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    writer = JsonlWriter(path)
    real = os.write
    left = [10]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        count = real(descriptor, content[: left[0]])
        left[0] -= count
        return count

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(OSError, match="No space left"):
        writer.append(note(0))
    monkeypatch.undo()
    writer.append(note(1))
    tail: JsonlTail[AnyEvent] = JsonlTail(path, AnyEvent)
    assert tail.read() == [note(1)]
    assert tail.malformed == 1
    assert writer.size_bytes == path.stat().st_size


def test_requests_reach_a_reader_once_and_in_order(tmp_path: Path) -> None:
    reader, late = ControlReader(tmp_path), ControlReader(tmp_path)
    assert reader.poll() == []
    request(tmp_path, CaptureRequested(steps=3))
    assert reader.poll() == [CaptureRequested(steps=3)]
    request(tmp_path, SnapshotRequested())
    request(tmp_path, StopRequested(signal=2))
    assert reader.poll() == [SnapshotRequested(), StopRequested(signal=2)]
    assert reader.poll() == []
    assert late.poll() == [CaptureRequested(steps=3), SnapshotRequested(), StopRequested(signal=2)]


def test_a_request_to_a_run_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(GradscopeError, match="no run directory"):
        request(tmp_path / "gone", StopRequested())


def test_a_manifest_reads_back(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    manifest = Manifest(run_id="r", preset={"name": "quick", "run": {}}, created_wall_ns=5, host="h", boot_id="b")
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
