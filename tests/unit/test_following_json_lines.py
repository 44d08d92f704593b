"""Following a file of records in batches: nothing twice, nothing held whole, and a file that is another one now."""

import os
from pathlib import Path

import pytest

from gradscope.core.events import AnyEvent, Note
from gradscope.rundir import tail as tail_module
from gradscope.rundir.tail import LARGEST_LINE_BYTES, JsonlTail
from tests.builders import write_lines


def note(seq: int, message: str = "m") -> Note:
    return Note(seq=seq, t_ns=0, code="c", message=message)


def tail_of(path: Path) -> JsonlTail[AnyEvent]:
    return JsonlTail(path, AnyEvent)


def seqs(records: list[AnyEvent]) -> list[int]:
    return [record.seq for record in records]


def test_a_file_comes_in_batches_and_the_rest_at_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    write_lines(path, [note(seq, "x" * 1000) for seq in range(300)])
    tail = tail_of(path)
    first = next(tail.batches())
    assert seqs(first) == list(range(len(first)))
    assert 110 < len(first) < 131  # 128 KiB of lines of 1,040 bytes and some
    assert seqs(tail.read()) == list(range(len(first), 300))
    assert tail.read() == []


def test_a_record_across_several_batches_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "BATCH_BYTES", 7)
    path = tmp_path / "e.jsonl"
    write_lines(path, [note(seq) for seq in range(20)])
    assert seqs(tail_of(path).read()) == list(range(20))


def test_a_line_without_end_is_passed_over_and_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    write_lines(path, [note(0)])
    with path.open("ab") as file:
        file.write(b"x" * (LARGEST_LINE_BYTES + 5_000_000))
    tail = tail_of(path)
    assert seqs(tail.read()) == [0]
    assert (tail.malformed, tail.torn) == (1, True)
    with path.open("ab") as file:
        file.write(b"x\n")
    write_lines(path, [note(1)])
    assert seqs(tail.read()) == [1]
    assert (tail.malformed, tail.torn) == (1, False)


def test_another_file_in_its_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    path, other = tmp_path / "e.jsonl", tmp_path / "other"
    write_lines(path, [note(0, "old")])
    tail = tail_of(path)
    tail.read()
    write_lines(other, [note(0, "new"), note(1, "new")])
    other.replace(path)
    assert [record.message for record in tail.read() if isinstance(record, Note)] == ["new", "new"]
    assert tail.restarts == 1


def test_the_same_file_in_a_new_copy_goes_on_where_it_was(tmp_path: Path) -> None:
    path, copy = tmp_path / "e.jsonl", tmp_path / "copy"
    write_lines(path, [note(0)])
    tail = tail_of(path)
    tail.read()
    write_lines(copy, [note(0), note(1)])
    copy.replace(path)
    assert seqs(tail.read()) == [1]
    assert tail.restarts == 0


def test_a_shorter_file_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    write_lines(path, [note(0), note(1)])
    tail = tail_of(path)
    tail.read()
    os.truncate(path, 0)
    write_lines(path, [note(5)])
    assert seqs(tail.read()) == [5]
    assert tail.restarts == 1


def test_a_file_written_anew_in_place_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    write_lines(path, [note(0, "old")])
    tail = tail_of(path)
    tail.read()
    os.truncate(path, 0)
    write_lines(path, [note(0, "new"), note(1, "new")])
    assert seqs(tail.read()) == [0, 1]
    assert tail.restarts == 1


def test_a_file_that_comes_late_is_no_restart(tmp_path: Path) -> None:
    tail = tail_of(tmp_path / "e.jsonl")
    assert tail.read() == []
    write_lines(tmp_path / "e.jsonl", [note(0)])
    assert seqs(tail.read()) == [0]
    assert tail.restarts == 0
