"""Sizes that no memory can have are left out, counted, and change no other figure."""

from pathlib import Path
from typing import Any

import pytest

from gradscope.trace.load import load_trace
from gradscope.trace.memory_timeline import memory
from gradscope.trace.usable import LARGEST_BYTES
from tests.trace_builder import chrome_event, write_chrome


def event(ts: float, size: int, total: int, addr: int, reserved: int = 0) -> dict[str, Any]:
    args = {"Bytes": size, "Total Allocated": total, "Total Reserved": reserved, "Addr": addr, "Device Type": 1}
    return chrome_event("[memory]", "cpu_instant_event", ts, ph="i", s="t", args={**args, "Device Id": 0})


@pytest.mark.parametrize("absurd", [-(2**63), 2**63 - 1, LARGEST_BYTES + 1])
def test_absurd_sizes_are_left_out_and_counted(absurd: int, tmp_path: Path) -> None:
    events = [event(1, 100, 100, 1), event(2, absurd, absurd, 2, absurd), event(3, 50, 150, 3)]
    trace = load_trace(write_chrome(tmp_path / "x.json", events))
    assert trace.events["bytes"].to_list() == [100, None, 50]
    assert [(note.code, note.count) for note in trace.notes] == [("implausible_size", 3)]
    assert trace.notes[0].message == "3 values left empty: more bytes than any machine has (64 TiB)"
    (device,) = memory(trace).devices
    assert device.curve["allocated_bytes"].to_list() == [100, 100, 150]
    assert (device.peak_bytes, device.allocated_bytes, device.allocations) == (150, 150, 2)


def test_the_largest_size_that_can_be_stays(tmp_path: Path) -> None:
    trace = load_trace(write_chrome(tmp_path / "x.json", [event(1, LARGEST_BYTES, LARGEST_BYTES, 1)]))
    assert trace.events["bytes"].to_list() == [LARGEST_BYTES]
    assert trace.notes == []
