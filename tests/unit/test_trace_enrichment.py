"""A window's trace after enrichment: strict, complete, with counters on its own time axis and no new overlaps."""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from torch_tb_profiler.consts import WORKER_PATTERN

from gradscope.export.chrome import enrich_run, enrich_trace
from gradscope.rundir.layout import trace_name
from tests.builders import RUN_ID, WALL_START_NS, finished_events, run_directory, sample

BASE_NS = WALL_START_NS - 7_000_000_000
"""`baseTimeNanoseconds` of the made-up trace: 7 s before the worker's start."""

NAME = trace_name(RUN_ID, 1, WALL_START_NS)

WINDOW_US = (9_600_000.0, 10_200_000.0)
"""The profiled window, 2600 to 3200 ms after the worker's start, on the trace's axis."""


def slice_event(name: str, start_us: float, duration_us: float, **fields: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 4242, "tid": 4242, "ts": start_us, "dur": duration_us}
    return event | fields


def torch_events() -> list[dict[str, Any]]:
    start = WINDOW_US[0]
    return [
        {"ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "ts": start, "args": {"name": "python"}},
        slice_event("ProfilerStep#8", start, 300_000, cat="user_annotation"),
        slice_event("a", start + 20, 50),
        slice_event("b", start + 40, 60),  # torch's own overlap (pytorch/kineto#269)
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": WINDOW_US[1]},
    ]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    samples = [
        sample(2500, host={"tree_cpu_pct": 11.0}),  # before the window
        sample(
            2605,
            interval_ms=100,
            host={"tree_cpu_pct": 150.0, "worker_resident_bytes": 1000, "tree_resident_bytes": 3000},
        ),
        sample(
            2705,
            interval_ms=100,
            host={"tree_cpu_pct": 190.0},
            gpus=[{"uuid": "GPU-1", "gpu_busy_pct": 80.0, "power_w": 250.0}],
        ),
        sample(3300, host={"tree_cpu_pct": 12.0}),  # while the trace was written
    ]
    path = run_directory(tmp_path, events=finished_events(trace=NAME), samples=samples)
    write_trace(path / NAME, torch_events())
    return path


def write_trace(path: Path, events: list[Any], **header: Any) -> None:
    document = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS} | header | {"traceEvents": events}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def read_trace(path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"not strict: {constant}")

    found = json.loads(gzip.decompress(path.read_bytes()), parse_constant=refuse)
    assert isinstance(found, dict)
    return found


def counters(run_dir: Path) -> list[dict[str, Any]]:
    return [event for event in read_trace(run_dir / NAME)["traceEvents"] if event["ph"] == "C"]


def partial_overlaps(events: list[dict[str, Any]]) -> Counter[tuple[Any, Any]]:
    """Count, for each thread, pairs of slices that overlap without one lying within the other."""
    by_thread = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    found: Counter[tuple[Any, Any]] = Counter()
    for thread, spans in by_thread.items():
        for index, (start, end) in enumerate(spans):
            found[thread] += sum(start < other[0] < end < other[1] for other in spans[:index] + spans[index + 1 :])
    return found


def test_torchs_own_events_stay_as_they_are(run_dir: Path) -> None:
    assert enrich_run(run_dir) == []
    after = read_trace(run_dir / NAME)
    assert [event for event in after["traceEvents"] if event.get("cat") != "gradscope"] == torch_events()
    assert after["baseTimeNanoseconds"] == BASE_NS


def test_samples_become_counters_within_the_window_on_the_traces_axis(run_dir: Path) -> None:
    enrich_run(run_dir)
    found = {(event["name"], event["ts"]): event["args"] for event in counters(run_dir)}
    assert found == {
        ("memory by category, bytes (carried over from step 2)", 9_600_000.0): {
            "parameters": 4000,
            "buffers": 40,
            "gradients": 4000,
            "optimizer state": 8000,
            "inputs": 400,
            "saved activations": 6000,
        },
        ("CPU % (100 = one core)", 9_600_000.0): {"process tree": 150.0},  # its interval began before the window
        ("resident memory, bytes", 9_605_000.0): {"training process": 1000},
        ("CPU % (100 = one core)", 9_605_000.0): {"process tree": 190.0},
        ("GPU % of time", 9_605_000.0): {"GPU busy": 80.0},
        ("power, W", 9_705_000.0): {"power": 250.0},
    }
    assert {event["pid"] for event in counters(run_dir)} == {4242}


def test_every_event_is_complete_and_no_overlap_is_added(run_dir: Path) -> None:
    enrich_run(run_dir)
    events = read_trace(run_dir / NAME)["traceEvents"]
    assert all({"ph", "ts", "pid", "tid", "name"} <= event.keys() for event in events)
    assert partial_overlaps(events) == partial_overlaps(torch_events()) == {(4242, 4242): 1}


def test_enriching_twice_gives_what_enriching_once_gives(run_dir: Path) -> None:
    enrich_run(run_dir)
    once = (run_dir / NAME).read_bytes()
    enrich_run(run_dir)
    assert (run_dir / NAME).read_bytes() == once


def test_events_that_lack_something_are_completed_and_what_is_no_event_is_left_out(run_dir: Path) -> None:
    broken = [
        slice_event("first", WINDOW_US[0], 5),
        {"ph": "M", "name": "process_labels", "args": {"labels": "CPU"}},
        {"ph": "i", "ts": 3},
        {"ph": "X", "name": "no time", "pid": 1, "tid": 1},
        {"name": "no phase", "ts": 1, "pid": 1, "tid": 1},
        17,
    ]
    write_trace(run_dir / NAME, broken)
    repairs = enrich_trace(run_dir / NAME, [], [])
    events = read_trace(run_dir / NAME)["traceEvents"]
    assert events[1:] == [
        {"ph": "M", "name": "process_labels", "args": {"labels": "CPU"}, "ts": WINDOW_US[0], "pid": 0, "tid": 0},
        {"ph": "i", "ts": 3, "pid": 0, "tid": 0, "name": ""},
    ]
    assert repairs == {"incomplete event": 2, "event without a time": 1, "event without a phase": 2}


def test_what_was_mended_is_said(run_dir: Path) -> None:
    content = json.dumps({"traceEvents": torch_events()}).encode().replace(b'"a"', b'"a\x01"')
    (run_dir / NAME).write_bytes(gzip.compress(content))
    assert enrich_run(run_dir) == [f"{NAME} was mended: 1 x control character"]


def test_a_trace_that_cannot_be_read_is_left_alone_and_named(run_dir: Path) -> None:
    (run_dir / NAME).write_bytes(b"no trace at all")
    notes = enrich_run(run_dir)
    assert len(notes) == 1
    assert notes[0].startswith(f"{NAME} is as the profiler wrote it: not a trace")
    assert (run_dir / NAME).read_bytes() == b"no trace at all"


def test_a_trace_of_no_known_window_is_made_strict_and_gets_no_counters(run_dir: Path) -> None:
    other = run_dir / trace_name(RUN_ID, 9, WALL_START_NS)
    write_trace(other, torch_events())
    enrich_run(run_dir)
    assert read_trace(other)["traceEvents"] == torch_events()


@pytest.mark.parametrize("worker", ["llama3.1", "two words", "[brackets] (and more)", "a/b", "...", "ümläut", ""])
def test_the_plugin_takes_the_whole_name_for_the_worker_and_the_stamp_for_the_span(worker: str) -> None:
    match = WORKER_PATTERN.match(trace_name(worker, 3, WALL_START_NS))
    assert match is not None
    assert match.group(2) == f".{WALL_START_NS // 1_000_000}"
    assert match.group(1).endswith("-w3")


def test_no_temporary_name_looks_like_a_trace(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def replace(self: Path, target: Path) -> None:
        seen.extend(path.name for path in run_dir.iterdir() if path.name not in before)
        raise OSError("stopped before the rename")

    before = {path.name for path in run_dir.iterdir()}
    monkeypatch.setattr(Path, "replace", replace)
    assert "stopped before the rename" in enrich_run(run_dir)[0]
    assert len(seen) == 1
    assert WORKER_PATTERN.match(seen[0]) is None
    assert {path.name for path in run_dir.iterdir()} == before
