"""What a large trace will take is told from a look at it: text and events, of files plain, compressed and damaged."""

import gzip
from pathlib import Path

import pytest

from gradscope.trace.estimate import BASE_BYTES, MEMORY_PER_EVENT_BYTES, SECONDS_PER_EVENT, Cost, cost_of
from tests.trace_builder import chrome_event, write_chrome

SMALL, LARGE = 30_000, 10_000


def trace(path: Path) -> Path:
    """Write a trace of many small and then some large events."""
    stack = {"Call stack": "file.py(1): call; " * 30}
    events = [chrome_event("aten::mm", "cpu_op", number, 1) for number in range(SMALL)]
    return write_chrome(path, events + [chrome_event("f", "x", 0, 1, args=stack) for _ in range(LARGE)])


def test_events_are_counted_where_they_lie(tmp_path: Path) -> None:
    path = trace(tmp_path / "x.json")
    found = cost_of([path, path])
    assert found.text_bytes == 2 * path.stat().st_size
    assert found.events == pytest.approx(2 * (SMALL + LARGE), rel=0.1)


def test_of_a_compressed_file_the_text_counts(tmp_path: Path) -> None:
    plain, packed = trace(tmp_path / "x.json"), tmp_path / "x.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()) + b"garbage")
    found = cost_of([packed])
    assert found.text_bytes == plain.stat().st_size
    assert found.events > SMALL


def test_what_cannot_be_read_costs_nothing(tmp_path: Path) -> None:
    assert cost_of([tmp_path / "none.json"]) == Cost(0, 0)
    (tmp_path / "empty.json").write_bytes(b"")
    assert cost_of([tmp_path / "empty.json"]).events == 0


def test_memory_and_time_grow_with_the_events() -> None:
    cost = Cost(0, 1_000_000)
    assert cost.memory_bytes == BASE_BYTES + 1_000_000 * MEMORY_PER_EVENT_BYTES
    assert cost.seconds == pytest.approx(1_000_000 * SECONDS_PER_EVENT)
