"""A window of the profiler: right names and step numbers, bounded, and harmless whatever goes wrong."""

import gzip
import json
import re
from itertools import chain, repeat
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn

from gradscope.config.schema import ProfileSettings
from gradscope.rundir.layout import TRACE_GLOB
from gradscope.worker import profiler
from gradscope.worker.profiler import ProfileWindow, foretell

CPU = torch.device("cpu")
RUN_ID = "20270115T080000Z-0a1b2c"
# torch-tb-profiler's own rule for a trace's name
WORKER_PATTERN = re.compile(r"^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$")


class Tiny:
    """Linear(64, 64), ReLU, Linear(64, 1) under AdamW."""

    def __init__(self) -> None:
        self.module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.AdamW(self.module.parameters())
        self.x = torch.randn(8, 64)

    def update(self) -> None:
        self.optimizer.zero_grad()
        self.module(self.x).sum().backward()
        self.optimizer.step()


def window(tmp_path: Path, number: int = 1, **settings) -> ProfileWindow:
    return ProfileWindow(ProfileSettings(**settings), CPU, tmp_path, RUN_ID, number)


def profiled(opened: ProfileWindow, first_step: int = 1, **options):
    tiny = Tiny()
    going_on = opened.open(first_step, **options)
    while going_on:
        tiny.update()
        going_on = opened.step()
    return opened.close()


def growing_to(size_bytes: int):
    """Resident memory that is 0 when it is first asked for, and `size_bytes` from then on."""
    readings = chain([0], repeat(size_bytes))
    return lambda: next(readings)


def trace(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_a_window_writes_one_trace_with_the_runs_own_step_numbers(tmp_path: Path) -> None:
    result = profiled(window(tmp_path, steps=3), first_step=41)
    assert (result.steps, result.error, result.shortened) == (3, None, None)
    assert result.file is not None
    assert [path.name for path in tmp_path.iterdir()] == [result.file]
    assert [path.name for path in tmp_path.glob(TRACE_GLOB)] == [result.file]
    matched = WORKER_PATTERN.match(result.file)
    assert matched is not None
    assert matched.group(1) == f"{RUN_ID}-w1"
    assert result.file_bytes == (tmp_path / result.file).stat().st_size
    content = trace(tmp_path / result.file)
    steps = [event["name"] for event in content["traceEvents"] if event.get("name", "").startswith("ProfilerStep")]
    assert steps == ["ProfilerStep#41", "ProfilerStep#42", "ProfilerStep#43"]
    names = {event.get("name") for event in content["traceEvents"]}
    assert {"aten::addmm", "[memory]"} <= names
    assert content["record_shapes"] == content["profile_memory"] == content["with_flops"] == 1


def test_settings_decide_what_is_recorded(tmp_path: Path) -> None:
    plain = trace(tmp_path / profiled(window(tmp_path, steps=1, shapes=False, memory=False, flops=False)).file)
    events = plain["traceEvents"]
    assert "[memory]" not in {event.get("name") for event in events}
    assert not any("Input Dims" in event.get("args", {}) for event in events)
    stacked = trace(tmp_path / profiled(window(tmp_path, number=2, steps=1, stacks=True)).file)
    # what torch-tb-profiler's Module view is made of
    assert any(event.get("name", "").startswith("nn.Module: Linear") for event in stacked["traceEvents"])


def test_no_steps_is_a_clean_nothing(tmp_path: Path) -> None:
    result = profiled(window(tmp_path, steps=0))
    assert (result.file, result.steps, result.error) == (None, 0, None)
    assert list(tmp_path.iterdir()) == []


def test_a_capture_asks_for_its_own_number_of_steps(tmp_path: Path) -> None:
    assert profiled(window(tmp_path, steps=9), steps=2).steps == 2


def test_the_partial_trace_is_kept_when_training_raises(tmp_path: Path) -> None:
    tiny, opened = Tiny(), window(tmp_path, steps=5)

    def train() -> None:
        try:
            opened.open(1)
            tiny.update()
            opened.step()
            tiny.module(tiny.x)
            raise RuntimeError("training broke")
        finally:
            train.result = opened.close()

    with pytest.raises(RuntimeError, match="training broke") as caught:
        train()
    assert caught.value.__context__ is None
    assert train.result.steps == 1
    assert train.result.error is None
    names = [event.get("name") for event in trace(tmp_path / train.result.file)["traceEvents"]]
    assert "ProfilerStep#1" in names
    assert "ProfilerStep#2" in names


def test_a_folder_that_is_gone_is_an_error_in_the_result(tmp_path: Path) -> None:
    result = profiled(window(tmp_path / "gone", steps=1))
    assert (result.file, result.file_bytes, result.steps) == (None, None, 1)
    assert result.error is not None
    assert "torch.profiler wrote no file" in result.error


def test_a_full_disk_is_an_error_in_the_result_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profiler.shutil, "copyfileobj", full)
    result = profiled(window(tmp_path, steps=1))
    assert result.error == "the trace could not be written: No space left on device"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert profiled(window(tmp_path, number=2, steps=1)).error is None


def test_a_file_that_ends_in_the_middle_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kineto writes what fits and reports nothing."""
    real = torch.profiler.profile.export_chrome_trace

    def cut(self, path: str, *args: object) -> None:
        real(self, path, *args)
        with Path(path).open("r+b") as file:
            file.truncate(1000)

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", cut)
    result = profiled(window(tmp_path, steps=1))
    assert result.file is None
    assert result.error is not None
    assert "ends in the middle" in result.error
    assert list(tmp_path.iterdir()) == []


def test_a_profiler_that_does_not_start_is_an_error_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("no activities")

    monkeypatch.setattr(torch.profiler.profile, "prepare_trace", refuse)
    opened = window(tmp_path, steps=2)
    assert not opened.open(1)
    assert not opened.step()
    assert opened.close().error == "the profiler did not start: no activities"


def test_a_profiler_that_is_running_already_is_left_alone(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as other:
        result = profiled(window(tmp_path, steps=2))
        torch.ones(1) + 1
    assert result.error == "another profiler is running in this process"
    assert any(event.key == "aten::add" for event in other.key_averages())


def test_the_foretold_size_is_about_right(tmp_path: Path) -> None:
    for number, settings in enumerate(({}, {"shapes": False, "flops": False}, {"stacks": True}), start=1):
        result = profiled(window(tmp_path, number=number, steps=20, **settings))
        size = len(gzip.decompress((tmp_path / result.file).read_bytes()))
        told = foretell(366, ProfileSettings(**settings), 20)
        assert told is not None
        assert 0.6 < told / size < 1.6
    assert foretell(None, ProfileSettings(), 20) is None


def test_a_window_closes_early_at_its_limit_of_events_and_still_writes(tmp_path: Path) -> None:
    result = profiled(window(tmp_path, steps=20_000, max_events=2_000), events_per_step=366)
    assert result.steps == 5
    assert result.file is not None
    assert result.shortened is not None
    assert result.shortened.startswith("closed after 5 of 20000 updates")


def test_an_update_too_large_for_any_window_is_refused_with_a_remedy(tmp_path: Path) -> None:
    result = profiled(window(tmp_path, steps=2, max_events=100), events_per_step=366)
    assert (result.file, result.steps) == (None, 0)
    assert result.error is not None
    assert "profile.max_events" in result.error


def test_memory_bounds_a_window_of_unknown_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a known number of events the growth of memory alone ends the window."""
    opened = window(tmp_path, steps=1_000)
    sizes = iter(range(0, 1 << 40, 8 << 20))
    monkeypatch.setattr(profiler, "_resident_bytes", lambda: next(sizes))
    result = profiled(opened)
    assert 1 < result.steps < 100
    assert result.file is not None
    assert result.shortened is not None


def test_growth_that_is_not_the_profilers_ends_no_window_of_known_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second update often makes what stays: caches, optimizer state, a search's history."""
    monkeypatch.setattr(profiler, "_resident_bytes", growing_to(300 << 20))
    result = profiled(window(tmp_path, steps=3), events_per_step=366)
    assert (result.steps, result.shortened) == (3, None)


def test_a_growth_beyond_all_bounds_ends_any_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_resident_bytes", growing_to(3 << 30))
    result = profiled(window(tmp_path, steps=3), events_per_step=366)
    assert result.steps == 1
    assert result.file is not None
    assert result.shortened is not None
    assert "memory has grown" in result.shortened


@pytest.mark.parametrize(
    ("windows", "settled", "limit_mib"), [(30, 10, 20), pytest.param(500, 50, 100, marks=pytest.mark.soak)]
)
def test_many_short_windows_do_not_grow(tmp_path: Path, windows: int, settled: int, limit_mib: int) -> None:
    """pytorch/pytorch#193348, P19."""
    process = psutil.Process()
    grown = []
    for number in range(windows):
        result = profiled(window(tmp_path, number=number, steps=2))
        (tmp_path / result.file).unlink()
        grown.append(process.memory_info().rss)
    assert grown[-1] - grown[settled - 1] < limit_mib * 2**20


def test_on_cuda_the_first_update_in_a_window_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = ProfileWindow(ProfileSettings(steps=2), torch.device("cuda", 0), tmp_path, RUN_ID, 1)
    on_the_host = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    monkeypatch.setattr(opened, "_make_profile", lambda: on_the_host)
    result = profiled(opened, first_step=41)
    assert (opened.lead_in_steps, result.steps, result.error) == (1, 2, None)
    assert result.file is not None
    names = [event.get("name", "") for event in trace(tmp_path / result.file)["traceEvents"]]
    assert [name for name in names if name.startswith("ProfilerStep")] == ["ProfilerStep#42", "ProfilerStep#43"]
