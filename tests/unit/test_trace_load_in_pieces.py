"""Loading piece by piece, alone or with helper processes: the same frame, and no more memory than there is."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace import parallel, pieces, room
from gradscope.trace.load import load_trace
from tests.trace_builder import chrome_event, listing, note_counts, write_chrome, written


def many(count: int) -> list[dict[str, Any]]:
    return [
        chrome_event(
            f"op {number % 7}", "cpu_op", number, 1, args={"External id": number, "Input Dims": [[number % 5]]}
        )
        for number in range(count)
    ]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 100_000)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_helper_processes_change_nothing(tmp_path: Path, ending: str) -> None:
    path = write_chrome(tmp_path / f"x.{ending}", many(6000), distributedInfo={"rank": 3, "world_size": 4})
    alone, helped = load_trace(path, processes=1), load_trace(path, processes=2)
    assert helped.events.equals(alone.events)
    assert helped.events.height == 6000
    assert helped.metadata == alone.metadata
    assert helped.notes == alone.notes == []


@pytest.mark.usefixtures("small_pieces")
def test_pieces_of_helpers_that_die_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_chrome(tmp_path / "x.json", many(6000))
    monkeypatch.setattr(parallel, "sys", type(sys)("sys"))
    monkeypatch.setattr(parallel.sys, "executable", "/bin/false", raising=False)
    assert load_trace(path, processes=2).events.get_column("external_id").to_list() == list(range(6000))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "broken", ['{"ph": "X", "name" "x"}', '"text"', '{"ph": "X", "ts": 1, "dur": 1, "name": "a\x01"}']
)
def test_broken_events_are_left_out_or_mended_wherever_they_are_read(tmp_path: Path, broken: str) -> None:
    events: list[dict[str, Any] | str] = [*many(3000), broken, *many(3000)]
    path = written(tmp_path, listing(*events))
    alone, helped = load_trace(path, processes=1), load_trace(path, processes=2)
    assert helped.events.equals(alone.events)
    assert alone.events.height == 6000 + ("\x01" in broken)
    assert helped.notes == alone.notes
    assert sum(note_counts(alone).values()) == 1
    assert f"byte {path.read_bytes().index(broken.encode())}" in alone.notes[0].message


@pytest.mark.parametrize("processes", [1, 2])
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, small_pieces: None, processes: int) -> None:
    path = write_chrome(tmp_path / "x.json", many(6000))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    trace = load_trace(path, processes=processes)
    assert trace.events.get_column("external_id").to_list() == list(range(6000))
    assert trace.metadata.schema_version == 1
    assert trace.notes == []


@pytest.mark.usefixtures("small_pieces")
def test_a_list_that_ends_early_ends_there_for_helpers_too(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"traceEvents": many(3000), "more": many(3000)}))
    alone, helped = load_trace(path, processes=1), load_trace(path, processes=2)
    assert helped.events.equals(alone.events)
    assert alone.events.height == 3000
    assert helped.notes == alone.notes == []


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_trace_too_large_for_the_memory_left_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    path = write_chrome(tmp_path / "x.json", many(6000))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=room.RESERVE_BYTES + 100_000))
    with pytest.raises(GradscopeError, match="too large for the memory that is left") as refused:
        load_trace(path, processes=processes)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT
    assert "--cut-steps" in refused.value.hint
