"""Loading: every form of file gives the same frame, and what was repaired, left out or guessed is said."""

import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace import parallel, pieces, room
from gradscope.trace.frames import EVENT_SCHEMA, Trace, whole_ns
from gradscope.trace.load import load_trace
from tests.trace_builder import chrome_event, write_chrome

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


def notes(trace: Trace) -> dict[str, int]:
    return {note.code: note.count for note in trace.notes}


def written(folder: Path, content: bytes | str, name: str = "x.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def listing(*events: dict[str, Any] | str) -> str:
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return '{"schemaVersion": 1, "traceEvents": [' + ", ".join(texts) + "]}"


def names(trace: Trace) -> list[str | None]:
    return trace.events.get_column("name").to_list()


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
    assert sum(notes(alone).values()) == 1
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


def test_a_repaired_name_is_told_with_its_event_and_byte() -> None:
    path = CASES / "p01_control_char.json"
    trace = load_trace(path)
    at = path.read_bytes().index(b'{"ph": "X", "cat": "cpu_op", "name": "aten::\x01mm"')
    assert "aten::\x01mm" in names(trace)
    assert [note.message for note in trace.notes] == [
        f"1 event repaired: raw control characters in text (first: event 4, byte {at})"
    ]


def test_paths_of_windows_are_one_name_whether_their_backslashes_were_escaped(tmp_path: Path) -> None:
    raw = r"C:\Users\me\new\train.py(3): step"
    event = '{"ph": "X", "name": "%s", "ts": 1, "dur": 2, "pid": 1, "tid": 1}'
    trace = load_trace(written(tmp_path, listing(event % raw, event % raw.replace("\\", "\\\\"))))
    assert names(trace) == [raw, raw]
    assert notes(trace) == {"backslash": 1}


@pytest.mark.parametrize(
    ("text", "name"),
    [('say "hi" twice', 'say "hi" twice'), ('5" pipe', '5" pipe'), ('f("x")', 'f("x")')],
)
def test_quotes_inside_of_names_are_guessed(tmp_path: Path, text: str, name: str) -> None:
    event = '{"ph": "X", "name": "%s", "ts": 1, "dur": 2, "pid": 1, "tid": 1}'
    trace = load_trace(written(tmp_path, listing(event % "a", event % text, event % "b")))
    assert names(trace) == ["a", name, "b"]
    assert notes(trace) == {"quote": 1}


@pytest.mark.parametrize("word", ["inf", "-inf", "NaN", "nan", "Infinity", "N/A", "1e999"])
def test_words_where_numbers_should_be_are_null(tmp_path: Path, word: str) -> None:
    event = '{"ph": "X", "name": "a", "cat": "kernel", "ts": 1, "dur": 2, "args": {"blocks per SM": WORD}}'.replace(
        "WORD", word
    )
    trace = load_trace(written(tmp_path, listing(event)))
    assert trace.events.get_column("blocks").to_list() == [None]
    assert sum(notes(trace).values()) == 1


def test_numbers_as_text_and_beyond_64_bits(tmp_path: Path) -> None:
    args = {"External id": "7", "Sequence number": 2**70, "Addr": 2**63 + 5, "stream": "0x10", "correlation": 3.0}
    event = chrome_event("a", "cuda_runtime", 0, args=args) | {"ts": "1500.5", "dur": "2", "pid": "Spans"}
    flows = [chrome_event("f", "ac2g", 0, ph="s", id=2**53 + one) for one in (0, 1)]
    trace = load_trace(written(tmp_path, listing(event, *flows)))
    row = trace.events.row(0, named=True)
    assert {key: row[key] for key in ("external_id", "sequence", "addr", "stream", "correlation", "dur_ns", "pid")} == {
        "external_id": 7,
        "sequence": None,
        "addr": 2**63 + 5,
        "stream": 16,
        "correlation": 3,
        "dur_ns": 2000,
        "pid": "Spans",
    }
    assert trace.start_us == 1500.5
    assert trace.events.get_column("flow_id").to_list() == [None, str(2**53), str(2**53 + 1)]
    assert notes(trace) == {"number": 1}


def test_begins_and_ends_become_slices_as_brackets_of_their_thread(tmp_path: Path) -> None:
    def mark(phase: str, name: str, ts: float, tid: int = 1) -> dict[str, Any]:
        return chrome_event(name, "cpu_op", ts, ph=phase, tid=tid)

    trace = load_trace(
        written(
            tmp_path,
            listing(
                mark("B", "outer", 0), mark("B", "inner", 2), mark("B", "other", 3, tid=2), mark("E", "inner", 5),
                mark("E", "", 9), mark("E", "", 11), mark("B", "open", 12), mark("E", "", 13, tid=2),
            ),
        )
    )  # fmt: skip
    rows = trace.events.select("index", "name", "ph", "ts_ns", "dur_ns", "tid").rows()
    assert rows == [
        (0, "outer", "X", 0, 9000, "1"),
        (1, "inner", "X", 2000, 3000, "1"),
        (2, "other", "X", 3000, 10_000, "2"),
    ]
    assert notes(trace) == {"begin_without_an_end": 1, "end_without_a_begin": 1, "much_unusable": 2}


def test_unusable_times_are_left_out_and_counted(tmp_path: Path) -> None:
    events = [chrome_event("a", "cpu_op", 1e6 + number, 1) for number in range(400)]
    year_us = 365 * 86400e6
    events += [
        chrome_event("negative", "cpu_op", 1e6, -5),
        chrome_event("no dur", "cpu_op", 1e6),
        {**chrome_event("no ts", "cpu_op", 0, 1), "ts": None},
        chrome_event("unset", "cpu_op", 0, 0),
        chrome_event("years away", "cpu_op", year_us, 1),
        chrome_event("years long", "cpu_op", 1e6, 3 * year_us),
        chrome_event("in ns", "cpu_op", 1.7e18, 1),
        chrome_event("instant", "cpu_instant_event", 1e6, ph="i"),
    ]
    trace = load_trace(written(tmp_path, listing(*events)))
    assert set(names(trace)) == {"a", "instant"}
    assert notes(trace) == {
        "negative_duration": 1,
        "missing_duration": 1,
        "missing_time": 1,
        "zero_time": 1,
        "implausible_time": 3,
        "much_unusable": 7,
    }
    assert trace.start_us == 1e6


def test_integers_stay_exact_where_a_thousandfold_float_would_not() -> None:
    trace = load_trace(CASES / "real" / "backward_thread.json")
    assert trace.wall_ns(0) == 1666149715033200 * 1000
    assert trace.events.get_column("ts_ns").to_list()[:2] == [0, 254_455_000]


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
        assert names(trace) == ["a", "b"]
        assert trace.metadata.legacy
        assert notes(trace) == {"legacy_format": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"hello", "no JSON"),
        (b"\x7fELF\x00\x01", "no JSON"),
        (b'"text"', "no JSON"),
        (b"{}", "no list of events"),
        (b'{"traceEvents": 3}', "no list of events"),
        (b'{"a": {"traceEvents": [{"ph": "X"}]}}', "no list of events"),
        (b'{"schemaVersion": 1, "trace', "no list of events"),
        (b"[1, 2, 3]", "no events"),
        (b'[{"a": 1}, {"b": 2}]', "no events"),
        (b'{"traceEvents": ["a", null]}', "no events"),
        (gzip.compress(b""), "empty"),
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
    assert "no_usable_events" in notes(trace)


def test_gzip_in_all_its_forms(tmp_path: Path) -> None:
    raw = (CASES / "base_gpu.json").read_bytes()
    whole = load_trace(CASES / "base_gpu.json")
    packed = gzip.compress(raw)
    forms = {
        packed: None,
        gzip.compress(raw[:700]) + gzip.compress(b"") + gzip.compress(raw[700:]): None,
        packed + b"\0" * 512: None,
        packed + b"trailing": "damaged_gzip",
        packed[:-1]: "damaged_gzip",
        packed[:-8]: "damaged_gzip",
    }
    for content, note in forms.items():
        trace = load_trace(written(tmp_path, content))
        assert trace.events.equals(whole.events)
        assert list(notes(trace)) == ([note] if note else [])
    flipped = load_trace(written(tmp_path, packed[:-8] + b"\0\0\0\0" + packed[-4:]))
    assert flipped.events.equals(whole.events)
    assert "incorrect data check" in flipped.notes[0].message


def test_a_damaged_header_costs_no_event(tmp_path: Path) -> None:
    events = json.dumps([chrome_event("a", "cpu_op", 1, 1)])
    for header, after in (
        ('{"x": tru, "traceEvents": ', "}"),
        ('{"traceEvents": ', ', "traceName": "/tmp/x'),
        ("{,", "}"),
    ):
        head = header if "trace" in header else header + '"traceEvents": '
        trace = load_trace(written(tmp_path, head + events + after))
        assert names(trace) == ["a"]
        assert set(notes(trace)) <= {"header_unreadable", "truncated"}
        assert notes(trace)


def test_json_on_many_lines_gives_values_on_one(tmp_path: Path) -> None:
    event = chrome_event("a", "cpu_op", 1, 1, args={"Input Dims": [[2, 3], []], "Input type": ["float", ""]})
    trace = load_trace(written(tmp_path, json.dumps({"traceEvents": [event]}, indent=2)))
    assert trace.events.get_column("shapes").to_list() == ["[[2, 3], []]"]
    assert trace.events.get_column("types").to_list() == ['["float", ""]']
