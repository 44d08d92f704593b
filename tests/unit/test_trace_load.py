"""Loading: every form of file gives the same frame, and what is no trace is refused in one message."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from gradscope.errors import GradscopeError
from gradscope.trace.frames import EVENT_SCHEMA, whole_ns
from gradscope.trace.load import load_trace
from tests.trace_builder import chrome_event, event_names, listing, note_counts, written

CASES = Path(__file__).parent.parent / "cases" / "traces"
REAL = sorted(path.name for path in (CASES / "real").iterdir() if path.suffix in (".gz", ".json"))
SIMPLE = {
    "external_id": "External id",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "correlation": "correlation",
    "device": "device",
    "bytes": "bytes",
    "blocks": "blocks per SM",
    "collective": "Collective name",
    "dtype": "dtype",
    "in_elems": "In msg nelems",
    "group_size": "Group size",
}


@pytest.mark.parametrize("name", REAL)
def test_real_traces_load_event_by_event_as_json_reads_them(name: str) -> None:
    raw = (CASES / "real" / name).read_bytes()
    document = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    expected = [(at, event) for at, event in enumerate(document["traceEvents"]) if event["ph"] != "M"]
    trace = load_trace(CASES / "real" / name, with_stacks=True)
    events = trace.events
    assert trace.notes == []
    assert events.get_column("index").to_list() == [at for at, _ in expected]
    for column in ("name", "cat", "ph"):
        assert events.get_column(column).to_list() == [event.get(column) for _, event in expected]
    for column in ("pid", "tid"):
        assert events.get_column(column).to_list() == [str(event[column]) for _, event in expected]
    assert events.get_column("flow_id").to_list() == [
        str(event["id"]) if "id" in event else None for _, event in expected
    ]
    ends = [whole_ns(event["ts"]) for _, event in expected]
    assert (events.get_column("ts_ns") + whole_ns(trace.start_us)).to_list() == ends
    assert events.get_column("dur_ns").to_list() == [
        whole_ns(event["dur"]) if "dur" in event else None for _, event in expected
    ]
    for column, argument in SIMPLE.items():
        values = [event.get("args", {}).get(argument) for _, event in expected]
        assert events.get_column(column).to_list() == pl.Series(values, dtype=EVENT_SCHEMA[column]).to_list()
    for column, argument in (("shapes", "Input Dims"), ("types", "Input type")):
        texts = [event.get("args", {}).get(argument) for _, event in expected]
        assert [text and json.loads(text) for text in events.get_column(column).to_list()] == texts
    assert events.get_column("stack").to_list() == [event.get("args", {}).get("Call stack") for _, event in expected]


def test_what_is_not_asked_for_is_not_loaded() -> None:
    events = load_trace(CASES / "real" / "no_rank.json.gz", with_shapes=False).events
    assert dict(events.schema) == EVENT_SCHEMA
    assert [events.get_column(name).null_count() for name in ("shapes", "types", "stack")] == [events.height] * 3


def test_metadata_stands_before_and_after_the_events(tmp_path: Path) -> None:
    meta = [
        chrome_event("process_name", None, 0, ph="M", args={"name": "python"}),
        chrome_event("process_name", None, 0, ph="M", args={"name": "python3"}),
        chrome_event("process_labels", None, 0, ph="M", args={"labels": "CPU"}),
        chrome_event("thread_name", None, 0, ph="M", args={"name": "main"}),
        chrome_event("process_sort_index", None, 0, ph="M", args={"sort_index": 5}),
    ]
    events = [*meta, chrome_event("gradscope: forward", "user_annotation", 5, 1)]
    header = '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "with_stack": 1, "traceEvents": '
    after = ', "baseTimeNanoseconds": 1790857026000000000, "distributedInfo": {"rank": 3, "world_size": 8}'
    path = written(
        tmp_path, header + json.dumps(events) + after + ', "traceName": "t"}', "host_17.1790857026.pt.trace.json"
    )
    trace = load_trace(path)
    found = trace.metadata
    assert (found.rank, found.world_size, found.worker, found.schema_version) == (3, 8, "host_17", 1)
    assert found.devices == [{"id": 0, "name": "A100"}]
    assert (found.with_stack, found.record_shapes, found.profile_memory) == (True, False, False)
    assert found.process_names == {"100": "python3"}
    assert found.process_labels == {"100": "CPU"}
    assert found.thread_names == {("100", "100"): "main"}
    assert found.other == {"traceName": "t"}
    assert found.gradscope_run
    assert trace.events.get_column("index").to_list() == [5]
    assert trace.wall_ns(0) == 1790857026000000000 + 5000


@pytest.mark.parametrize("distributed", ["null", "7", '{"rank": "one"}', "[]"])
def test_a_rank_that_is_none_is_missing(tmp_path: Path, distributed: str) -> None:
    path = written(tmp_path, f'{{"distributedInfo": {distributed}, "traceEvents": []}}')
    assert load_trace(path).metadata.rank is None


def test_a_bare_list_is_the_legacy_form_closed_or_not(tmp_path: Path) -> None:
    events = json.dumps([chrome_event("a", "cpu_op", 1, 1), chrome_event("b", "cpu_op", 2, 1)])
    for content in (events, events[:-1], events[:-1] + ","):
        trace = load_trace(written(tmp_path, content))
        assert event_names(trace) == ["a", "b"]
        assert trace.metadata.legacy
        assert note_counts(trace) == {"legacy_format": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"hello", "no JSON"),
        (b"\x7fELF\x00\x01", "no JSON"),
        (b'"text"', "JSON, but no list of events"),
        ('{"traceEvents": []}'.encode("utf-16"), "UTF-16"),
        ('{"traceEvents": []}'.encode("utf-16-le"), "UTF-16"),
        ('[{"ph": "X"}]'.encode("utf-16-le"), "UTF-16"),
        ('{"traceEvents": []}'.encode("utf-16-be"), "UTF-16"),
        (b"\n<!DOCTYPE html><html>", "HTML"),
        (b"PK\x03\x04\x14", "zip archive"),
        (b"\x28\xb5\x2f\xfd\x04", "compressed otherwise than by gzip"),
        (b"SQLite format 3\0", "SQLite"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"{}", "no list of events"),
        (b'{"traceEvents": 3}', "no list of events"),
        (b'{"a": {"traceEvents": [{"ph": "X"}]}}', "no list of events"),
        (b'{"schemaVersion": 1, "trace', "no list of events"),
        (b"[1, 2, 3]", "no events"),
        (b'[{"a": 1}, {"b": 2}]', "no events"),
        (b'{"traceEvents": ["a", null]}', "no events"),
        (gzip.compress(b"", mtime=0), "empty"),
        (b"\x1f\x8b\x08\xffgarbage!", "damaged"),
        (b"\x1f\x8b", "ends too early"),
    ],
)
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(GradscopeError, match=said) as refused:
        load_trace(written(tmp_path, content))
    assert refused.value.exit_code == 2


def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(GradscopeError, match="cannot read"):
            load_trace(path)


@pytest.mark.parametrize("content", ["[]", '{"traceEvents": []}', listing({"ph": "M", "name": "process_name"})])
def test_a_trace_of_no_events_is_one_with_a_note(tmp_path: Path, content: str) -> None:
    trace = load_trace(written(tmp_path, content))
    assert trace.events.height == 0
    assert dict(trace.events.schema) == EVENT_SCHEMA
    assert "no_usable_events" in note_counts(trace)


def test_gzip_in_all_its_forms(tmp_path: Path) -> None:
    raw = (CASES / "base_gpu.json").read_bytes()
    whole = load_trace(CASES / "base_gpu.json")
    packed = gzip.compress(raw)
    forms = {
        packed: None,
        gzip.compress(raw[:700]) + gzip.compress(b"", mtime=0) + gzip.compress(raw[700:]): None,
        packed + b"\0" * 512: None,
        packed + b"trailing": "damaged_gzip",
        packed[:-1]: "damaged_gzip",
        packed[:-8]: "damaged_gzip",
    }
    for content, note in forms.items():
        trace = load_trace(written(tmp_path, content))
        assert trace.events.equals(whole.events)
        assert list(note_counts(trace)) == ([note] if note else [])
    flipped = load_trace(written(tmp_path, packed[:-8] + b"\0\0\0\0" + packed[-4:]))
    assert flipped.events.equals(whole.events)
    assert "incorrect data check" in flipped.notes[0].message


def test_json_on_many_lines_gives_values_on_one(tmp_path: Path) -> None:
    event = chrome_event("a", "cpu_op", 1, 1, args={"Input Dims": [[2, 3], []], "Input type": ["float", ""]})
    trace = load_trace(written(tmp_path, json.dumps({"traceEvents": [event]}, indent=2)))
    assert trace.events.get_column("shapes").to_list() == ["[[2, 3], []]"]
    assert trace.events.get_column("types").to_list() == ['["float", ""]']
