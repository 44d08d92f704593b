"""Whatever bytes a trace holds: a trace with notes, or one clear error; never a traceback, never a wrong frame."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from gradscope.trace.header import read_opening
from gradscope.trace.load import load_trace
from gradscope.trace.pieces import EventReader
from gradscope.trace.scan import scan_chunk
from gradscope.trace.source import Source
from tests.trace_gauntlet import ask_everything, check_load
from tests.trace_mutations import CASES, DOCUMENTS, mutation

SEED = 20261130
LOADED, ASKED = 240, 24
"""Mutations of the short run; benchmarks/fuzz_traces.py asks 10,000 everything."""


@pytest.mark.parametrize("part", range(4))
def test_damaged_traces_load_or_are_refused(part: int, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for number in range(part, LOADED, 4):
        path.write_bytes(mutation(SEED, number)[1])
        try:
            check_load(path)
        except Exception as error:
            raise AssertionError(f"mutation {number}") from error


@pytest.mark.parametrize("part", range(4))
def test_damaged_traces_are_told_whole_or_refused(part: int, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for number in range(LOADED + part, LOADED + ASKED, 4):
        path.write_bytes(mutation(SEED, number)[1])
        try:
            ask_everything(path, tmp_path, number // 4)
        except Exception as error:
            raise AssertionError(f"mutation {number}") from error


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_cut_anywhere_keeps_every_event_before_the_cut(tmp_path: Path, compressed: bool) -> None:
    content = (CASES / "base_gpu.json").read_bytes()
    ends = [content.index(text) + len(text) for text in _event_texts(content)]
    path = tmp_path / "cut.json"
    for cut in range(0, len(content), 13):
        whole = gzip.compress(content[:cut])
        path.write_bytes(whole[:-8] if compressed else content[:cut])  # without its checksum and size
        trace = check_load(path)
        complete = sum(end <= cut for end in ends)
        assert (trace.events.height if trace else 0) == complete
        if trace:
            assert {note.code for note in trace.notes} & {"truncated", "damaged_gzip"}


def _event_texts(content: bytes) -> list[bytes]:
    return [json.dumps(event).encode() for event in json.loads(content)["traceEvents"]]


@settings(max_examples=80, deadline=None)
@given(DOCUMENTS)
def test_any_json_in_the_list_of_events_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    check_load(path)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("piece_bytes", [20_000, 70_000, 100_000])
def test_where_pieces_are_cut_changes_nothing(tmp_path: Path, indent: int | None, piece_bytes: int) -> None:
    nested = {"list": [{"name": "},\n{", "ph": 1}, {"name": 'a "quoted" },{ "ph": "X"', "x": [{"ts": 1}, {"ts": 2}]}]}
    events = [
        {"ph": "X", "name": f'op "{number}" }},{{', "ts": number, "dur": 1, "pid": 1, "tid": 1, "args": nested}
        for number in range(900)
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": events, "other": [{"ph": 1}, {"ph": 2}]}, indent=indent))
    whole = load_trace(path)
    assert whole.events.height == len(events)
    with Source(path) as source:
        reader = EventReader(source, read_opening(source), piece_bytes)
        pieces = [scan_chunk(piece.text) for piece in reader.pieces()]
        rest = [scan for _, scan in reader.scans()]
    assert pieces
    assert all(scan.whole for scan in pieces)
    names = [event.name for scan in (*pieces, *rest) for event in scan.events]
    assert names == whole.events.get_column("name").to_list()
    assert reader.closed
    assert b"other" in reader.rest
