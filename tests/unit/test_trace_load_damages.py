"""Loading what is damaged: mended where that is sure, left out and counted where it is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradscope.trace.load import load_trace
from tests.trace_builder import chrome_event, event_names, listing, note_counts, written

CASES = Path(__file__).parent.parent / "cases" / "traces"


def test_a_repaired_name_is_told_with_its_event_and_byte() -> None:
    path = CASES / "p01_control_char.json"
    trace = load_trace(path)
    at = path.read_bytes().index(b'{"ph": "X", "cat": "cpu_op", "name": "aten::\x01mm"')
    assert "aten::\x01mm" in event_names(trace)
    assert [note.message for note in trace.notes] == [
        f"1 event repaired: raw control characters in text (first: event 4, byte {at})"
    ]


def test_paths_of_windows_are_one_name_whether_their_backslashes_were_escaped(tmp_path: Path) -> None:
    raw = r"C:\Users\me\new\train.py(3): step"
    event = '{"ph": "X", "name": "%s", "ts": 1, "dur": 2, "pid": 1, "tid": 1}'
    trace = load_trace(written(tmp_path, listing(event % raw, event % raw.replace("\\", "\\\\"))))
    assert event_names(trace) == [raw, raw]
    assert note_counts(trace) == {"backslash": 1}


@pytest.mark.parametrize(
    ("text", "name"),
    [('say "hi" twice', 'say "hi" twice'), ('5" pipe', '5" pipe'), ('f("x")', 'f("x")')],
)
def test_quotes_inside_of_names_are_guessed(tmp_path: Path, text: str, name: str) -> None:
    event = '{"ph": "X", "name": "%s", "ts": 1, "dur": 2, "pid": 1, "tid": 1}'
    trace = load_trace(written(tmp_path, listing(event % "a", event % text, event % "b")))
    assert event_names(trace) == ["a", name, "b"]
    assert note_counts(trace) == {"quote": 1}


@pytest.mark.parametrize("word", ["inf", "-inf", "NaN", "nan", "Infinity", "N/A", "1e999"])
def test_words_where_numbers_should_be_are_null(tmp_path: Path, word: str) -> None:
    event = '{"ph": "X", "name": "a", "cat": "kernel", "ts": 1, "dur": 2, "args": {"blocks per SM": WORD}}'.replace(
        "WORD", word
    )
    trace = load_trace(written(tmp_path, listing(event)))
    assert trace.events.get_column("blocks").to_list() == [None]
    assert sum(note_counts(trace).values()) == 1


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
    assert note_counts(trace) == {"number": 1}


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
    assert note_counts(trace) == {"begin_without_an_end": 1, "end_without_a_begin": 1, "much_unusable": 2}


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
    assert set(event_names(trace)) == {"a", "instant"}
    assert note_counts(trace) == {
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


def test_a_damaged_header_costs_no_event(tmp_path: Path) -> None:
    events = json.dumps([chrome_event("a", "cpu_op", 1, 1)])
    for header, after in (
        ('{"x": tru, "traceEvents": ', "}"),
        ('{"traceEvents": ', ', "traceName": "/tmp/x'),
        ("{,", "}"),
    ):
        head = header if "trace" in header else header + '"traceEvents": '
        trace = load_trace(written(tmp_path, head + events + after))
        assert event_names(trace) == ["a"]
        assert set(note_counts(trace)) <= {"header_unreadable", "truncated"}
        assert note_counts(trace)
