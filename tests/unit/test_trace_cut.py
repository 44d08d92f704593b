"""A trace cut to chosen steps: what stays, what is clipped, and that viewers take it."""

import contextlib
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gradscope.cli.app import main
from gradscope.errors import GradscopeError
from gradscope.trace import raw_events
from gradscope.trace.cut import CLIPPED_KEY, PROVENANCE_KEY, cut_trace, parse_steps
from gradscope.trace.load import load_trace
from gradscope.trace.operators import operators
from gradscope.trace.raw_events import RawEvents
from gradscope.trace.steps import steps
from tests.trace_builder import chrome_event, write_chrome

CASES = Path(__file__).parent.parent / "cases" / "traces"
NCCL = CASES / "real" / "nccl.json.gz"
DEVICE = {"pid": 0, "tid": 7}


def mark(number: int, ts: float, dur: float = 100, **keys: Any) -> dict[str, Any]:
    return chrome_event(f"ProfilerStep#{number}", "user_annotation", ts, dur, **keys)


def three_steps(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """Steps 0, 1 and 2 of 100 us each."""
    return [*(mark(number, 100 * number) for number in range(3)), *more]


def cut(tmp_path: Path, events: list[dict[str, Any]], first: int = 1, last: int = 1, **header: Any) -> dict[str, Any]:
    source = write_chrome(tmp_path / "whole.json", events, **header)
    out = tmp_path / "small.json"
    cut_trace(source, out, first, last, force=True)
    found = json.loads(out.read_text())
    assert isinstance(found, dict)
    return found


def names(trace: dict[str, Any]) -> list[str]:
    return [event["name"] for event in trace["traceEvents"]]


def test_host_events_that_overlap_the_steps_stay(tmp_path: Path) -> None:
    events = three_steps(
        chrome_event("before", "cpu_op", 50, 50),
        chrome_event("into", "cpu_op", 90, 20),
        chrome_event("inside", "cpu_op", 120, 10),
        chrome_event("moment", "cpu_op", 100, 0),
        chrome_event("after", "cpu_op", 200, 10),
        chrome_event("[memory]", "cpu_instant_event", 150, ph="i"),
        chrome_event("[memory] later", "cpu_instant_event", 200, ph="i"),
    )
    assert names(cut(tmp_path, events)) == ["ProfilerStep#1", "into", "inside", "moment", "[memory]"]


def test_metadata_and_header_stay_and_say_where_it_came_from(tmp_path: Path) -> None:
    thread = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}}
    found = cut(tmp_path, three_steps(thread), deviceProperties=[{"id": 0}], baseTimeNanoseconds=1 << 60)
    assert thread.items() <= found["traceEvents"][1].items()
    assert found["deviceProperties"] == [{"id": 0}]
    assert found["baseTimeNanoseconds"] == 1 << 60
    assert found[PROVENANCE_KEY] == {"steps": [1], "of": "whole.json", "device_events": False}


def test_kernels_follow_their_launches_however_late_they_run(tmp_path: Path) -> None:
    def launch(correlation: int, ts: float) -> dict[str, Any]:
        return chrome_event("cudaLaunchKernel", "cuda_runtime", ts, 5, args={"correlation": correlation})

    def kernel(name: str, ts: float, **args: Any) -> dict[str, Any]:
        return chrome_event(name, "kernel", ts, 20, args=args, **DEVICE)

    events = three_steps(
        launch(1, 10),
        launch(2, 190),
        launch(3, 210),
        kernel("of step 0", 110, correlation=1),
        kernel("of step 1", 260, correlation=2),
        kernel("of step 2", 290, correlation=3),
        kernel("launch unknown", 150, correlation=99),
        kernel("launch unknown, later", 250, correlation=98),
        kernel("no correlation", 160),
        chrome_event("range over step 1's work", "gpu_user_annotation", 240, 100, **DEVICE),
        chrome_event("range before it", "gpu_user_annotation", 0, 90, **DEVICE),
        mark(1, 260, 30, **DEVICE) | {"cat": "gpu_user_annotation"},
        mark(2, 280, 30, **DEVICE) | {"cat": "gpu_user_annotation"},
    )
    found = cut(tmp_path, events)
    kept = [event["name"] for event in found["traceEvents"] if event["pid"] == 0]
    assert kept == ["of step 1", "launch unknown", "no correlation", "range over step 1's work", "ProfilerStep#1"]


def test_flows_stay_whole_or_not_at_all(tmp_path: Path) -> None:
    def flow(ph: str, identity: int, ts: float, cat: str = "ac2g", **keys: Any) -> dict[str, Any]:
        return chrome_event("flow", cat, ts, ph=ph, id=identity, **keys)

    events = three_steps(
        chrome_event("cudaLaunchKernel", "cuda_runtime", 190, 5, args={"correlation": 2}),
        chrome_event("k", "kernel", 260, 20, args={"correlation": 2}, **DEVICE),
        flow("s", 2, 190),
        flow("f", 2, 260, **DEVICE),
        flow("s", 7, 120, "fwdbwd"),
        flow("f", 7, 170, "fwdbwd"),
        flow("s", 8, 120, "fwdbwd"),
        flow("f", 8, 230, "fwdbwd"),
        flow("s", 9007199254740993, 130, "fwdbwd"),
        flow("f", 9007199254740993, 140, "fwdbwd"),
        flow("s", 9007199254740992, 20, "fwdbwd"),
        flow("f", 9007199254740992, 140, "fwdbwd"),
    )
    flows = [(event["ph"], event["id"]) for event in cut(tmp_path, events)["traceEvents"] if event["name"] == "flow"]
    whole = (2, 7, 9007199254740993)
    assert flows == [(ph, identity) for identity in whole for ph in ("s", "f")]


def test_longer_slices_are_clipped_and_say_what_they_were(tmp_path: Path) -> None:
    whole = chrome_event("PyTorch Profiler (0)", "Trace", 0, 300, args={"Op count": 7})
    found = cut(tmp_path, three_steps(whole))["traceEvents"][-1]
    assert (found["ts"], found["dur"]) == (100, 100)
    assert found["args"] == {"Op count": 7, CLIPPED_KEY: {"ts": 0, "dur": 300}}


def test_counters_carry_their_level_into_the_cut(tmp_path: Path) -> None:
    def level(ts: float, value: int) -> dict[str, Any]:
        return chrome_event("memory", "gradscope", ts, ph="C", args={"bytes": value})

    found = cut(tmp_path, three_steps(level(10, 1), level(50, 2), level(150, 3), level(250, 4)))
    assert [(event["ts"], event["args"]["bytes"]) for event in found["traceEvents"][1:]] == [(100, 2), (150, 3)]


def test_pairs_and_async_ranges_stay_whole(tmp_path: Path) -> None:
    def point(ph: str, name: str, ts: float, **keys: Any) -> dict[str, Any]:
        return chrome_event(name, "x", ts, ph=ph, **keys)

    events = three_steps(
        point("B", "outer", 50),
        point("B", "inner", 60),
        point("E", "inner", 70),
        point("E", "outer", 250),
        point("b", "request", 90, id="1"),
        point("e", "request", 210, id="1"),
        point("b", "early", 10, id="2"),
        point("e", "early", 20, id="2"),
    )
    assert names(cut(tmp_path, events)) == ["ProfilerStep#1", "outer", "outer", "request", "request"]


def test_steps_marked_by_pairs_are_steps(tmp_path: Path) -> None:
    def point(ph: str, name: str, ts: float, **keys: Any) -> dict[str, Any]:
        return chrome_event(name, "user_annotation", ts, ph=ph, **keys)

    marks = [
        point(ph, f"ProfilerStep#{step}", 100 * step + at) for step in range(3) for ph, at in (("B", 0), ("E", 90))
    ]
    marks[3] = {"ph": "E", "pid": 100, "tid": 100, "ts": 190}  # an end needs no name
    open_one = point("B", "ProfilerStep#3", 300)
    ops = [chrome_event("before", "cpu_op", 50, 10), chrome_event("inside", "cpu_op", 120, 10)]
    source = write_chrome(tmp_path / "whole.json", [*marks, open_one, *ops])
    done = cut_trace(source, tmp_path / "small.json", 1, 1)
    assert (done.steps, done.kept, done.of) == ([1], 3, 9)
    found = json.loads((tmp_path / "small.json").read_text())["traceEvents"]
    assert [(event["ph"], event["ts"]) for event in found] == [("B", 100), ("E", 190), ("X", 120)]
    small = steps(load_trace(tmp_path / "small.json")).table
    assert small.select("number", "host_dur_ns").rows() == [(1, 90_000)]
    with pytest.raises(GradscopeError, match="no step 3"):
        cut_trace(source, tmp_path / "other.json", 3, 3)


def test_events_without_usable_times_are_left_out_and_texts_become_numbers(tmp_path: Path) -> None:
    events = three_steps(
        chrome_event("no duration", "cpu_op", 120),
        chrome_event("negative", "cpu_op", 150, -5),
        chrome_event("text", "cpu_op", 0, 0) | {"ts": "130", "dur": "4.5"},
        {"ph": "X", "name": "no place", "ts": 140, "dur": 1},
        {"ph": "M", "pid": 1},
    )
    source = write_chrome(tmp_path / "whole.json", events)
    done = cut_trace(source, tmp_path / "small.json", 1, 1)
    assert (done.kept, done.of, done.broken) == (3, 8, 3)
    found = json.loads((tmp_path / "small.json").read_text())["traceEvents"]
    assert (found[1]["ts"], found[1]["dur"]) == (130, 4.5)
    assert (found[2]["pid"], found[2]["tid"]) == (0, 0)


@pytest.mark.parametrize(("text", "expected"), [("3:5", (3, 5)), ("7", (7, 7)), ("0:0", (0, 0))])
def test_a_range_of_steps_includes_both_ends(text: str, expected: tuple[int, int]) -> None:
    assert parse_steps(text) == expected


@pytest.mark.parametrize("text", ["", ":", "3:", ":5", "5:3", "a", "1-2", "-1", "1:2:3", "1.5"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(GradscopeError):
        parse_steps(text)


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    source = write_chrome(tmp_path / "whole.json", three_steps())
    before, out = source.read_bytes(), tmp_path / "small.json"
    out.write_text("mine")
    for target, force in ((out, False), (source, True), (tmp_path, True), (tmp_path / "no" / "x.json", True)):
        with pytest.raises(GradscopeError):
            cut_trace(source, target, 1, 1, force=force)
    with pytest.raises(GradscopeError, match="no step 9"):
        cut_trace(source, out, 9, 9, force=True)
    assert out.read_text() == "mine"
    assert source.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"whole.json", "small.json"}


def test_a_trace_without_steps_cannot_be_cut(tmp_path: Path) -> None:
    with pytest.raises(GradscopeError, match="marks no steps"):
        cut_trace(CASES / "p14_no_steps.json", tmp_path / "x.json", 0, 1)


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.glob("p*.json*")))
def test_every_case_is_cut_to_strict_json_or_refused(name: str, tmp_path: Path) -> None:
    def refuse(word: str) -> Any:
        raise AssertionError(word)

    out = tmp_path / "small.json"
    try:
        cut_trace(CASES / name, out, 1, 1)
    except GradscopeError:
        assert not out.exists()
        return
    json.loads(out.read_text(encoding="utf-8"), parse_constant=refuse)
    assert steps(load_trace(out)).table["number"].to_list() == [1]


def test_the_steps_of_a_real_trace_keep_their_numbers(tmp_path: Path) -> None:
    out = tmp_path / "small.json.gz"
    cut_trace(NCCL, out, 5, 5)
    whole, small = steps(load_trace(NCCL)).table, steps(load_trace(out)).table
    kept = whole.filter(whole["number"] == 5)
    for column in ("kernels", "launches", "lost_kernels", "kernel_sum_ns", "gpu_busy_ns", "host_dur_ns"):
        assert small[column].to_list() == kept[column].to_list(), column
    of_step = operators(load_trace(NCCL), step=5, kinds=["operator"])
    alone = operators(load_trace(out), kinds=["operator"])
    assert dict(zip(alone["name"], alone["calls"], strict=True)) == dict(
        zip(of_step["name"], of_step["calls"], strict=True)
    )


def test_torch_tb_profiler_loads_what_was_cut(tmp_path: Path) -> None:
    from torch_tb_profiler.profiler import data

    for source, number in ((NCCL, 5), (CASES / "real" / "rank0_of_many.json.gz", 552), (CASES / "base_gpu.json", 1)):
        out = tmp_path / f"{number}.pt.trace.json.gz"
        cut_trace(source, out, number, number)
        profile = data.RunProfileData.parse("worker", "0", str(out), str(tmp_path))
        profile.process()
        profile.analyze()
        assert profile.steps_names == [str(number)]
        assert profile.op_list_groupby_name
        assert profile.kernel_stat is not None
        assert len(profile.kernel_stat)


@pytest.mark.parametrize("piece_bytes", [600, 1 << 23])
def test_events_are_streamed_as_they_stand(piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_events, "PIECE_BYTES", piece_bytes)
    with gzip.open(NCCL) as file:
        whole = json.load(file)
    events = RawEvents(NCCL)
    assert [json.loads(bytes(event)) for event in events] == whole.pop("traceEvents")
    assert {key: json.loads(bytes(value)) for key, value in events.header.items()} == whole


def test_of_a_cut_off_file_every_whole_event_is_read(tmp_path: Path) -> None:
    text = (CASES / "base_gpu.json").read_bytes()
    path = tmp_path / "cut.json"
    for size in range(text.index(b"}") + 1, len(text) - 4, 7):
        path.write_bytes(text[:size])
        events = [json.loads(bytes(event)) for event in RawEvents(path)]
        assert len(events) == load_trace(path).events.height


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    out = tmp_path / "small.json.gz"
    arguments = ["gradscope", "trace", str(NCCL), "--cut-steps", "5:9", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    with contextlib.suppress(SystemExit):
        main()
    said = capsys.readouterr()
    assert said.out.startswith(f"{out}: steps 5 to 6, ")
    assert "3 of the steps asked for are not in the trace" in said.err
    assert ".pt.trace.json" in said.err


@pytest.mark.parametrize("junk", ['-inf{"ph": "X"}, ', '{"ph": "X", "name"": 3}, ', '"text", ', "}, ", "\x01, "])
@pytest.mark.parametrize("place", range(4))
def test_of_a_damaged_file_the_same_events_are_cut_as_are_loaded(tmp_path: Path, junk: str, place: int) -> None:
    texts = [json.dumps(event) for event in three_steps()]
    texts.insert(place, junk.removesuffix(", "))
    source = tmp_path / "whole.json"
    source.write_text('{"traceEvents": [' + ", ".join(texts) + "]}")
    there = steps(load_trace(source)).table["number"].to_list()
    assert len(there) >= 2
    done = cut_trace(source, tmp_path / "small.json", 0, 2)
    assert done.steps == there
    assert steps(load_trace(tmp_path / "small.json")).table["number"].to_list() == there


def test_a_quote_in_a_name_is_mended_in_a_cut(tmp_path: Path) -> None:
    source = tmp_path / "whole.json"
    texts = [json.dumps(event) for event in three_steps(chrome_event("NAME", "cpu_op", 110, 5))]
    source.write_text('{"traceEvents": [' + ", ".join(texts).replace("NAME", 'say "hi" twice') + "]}")
    cut_trace(source, tmp_path / "small.json", 1, 1)
    assert names(json.loads((tmp_path / "small.json").read_text())) == ["ProfilerStep#1", 'say "hi" twice']


def test_numbers_that_nothing_holds_are_none_in_a_cut_as_in_loading(tmp_path: Path) -> None:
    """Of a repeated key the last value counts."""
    source, out = tmp_path / "whole.json", tmp_path / "small.json"
    args = {"huge": "HUGE", "many": "MANY", "id": 2**70}
    events = three_steps(chrome_event("long", "cpu_op", 50, 100, args=args), mark(3, 300, 200))
    text = json.dumps({"traceEvents": events}).replace('"HUGE"', "1e400").replace('"MANY"', "9" * 5000)
    source.write_text(text.replace('"dur": 200', '"dur": 1e999, "dur": 200'))
    assert steps(load_trace(source)).table["number"].to_list() == [0, 1, 2, 3]
    assert cut_trace(source, out, 1, 3).steps == [1, 2, 3]
    (clipped,) = (event for event in json.loads(out.read_text())["traceEvents"] if event["name"] == "long")
    assert (clipped["ts"], clipped["dur"]) == (100, 50)
    assert {key: clipped["args"][key] for key in args} == {"huge": None, "many": None, "id": 2**70}
    assert steps(load_trace(out)).table["number"].to_list() == [1, 2, 3]
