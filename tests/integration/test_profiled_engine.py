"""The engine under the profiler: traces exist or say why not, are bounded, and hide nothing (P18 to P20, P23, P38)."""

import gzip
import json
import re
from pathlib import Path

import psutil
import pytest

from gradscope.analysis.summary import compute
from gradscope.core import events as ev
from gradscope.core.events import Stage
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import TRACE_GLOB
from gradscope.worker import profiler


def names_in(path):
    return [event.get("name", "") for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]]


def steps_in(path):
    """Return the updates' numbers that a trace holds."""
    return [int(found[1]) for name in names_in(path) if (found := re.fullmatch(r"ProfilerStep#(\d+)", name))]


def summary_of(events):
    return compute(RunHandle(events.run_dir))


def full_disk(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("updates", [1, 3])
def test_a_window_longer_than_the_budget_is_whole_since_its_updates_come_after(run, updates):
    code, events = run("tiny", f"budget.updates={updates}", "profile.steps=7")
    assert code == 0
    [window] = summary_of(events).windows
    assert (window.steps, window.first_step) == (7, 2 + updates + 1 + 1)
    assert steps_in(events.run_dir / window.file) == list(range(window.first_step, window.first_step + 7))
    assert events.one(ev.Totals).steps == updates


def test_one_window_is_one_file_and_one_step_is_one_update_of_all_its_micro_steps(run):
    _, events = run("tiny", "memory={strategy='accumulate', accumulate=4}", "profile.steps=2")
    [trace] = events.run_dir.glob(TRACE_GLOB)
    assert steps_in(trace) == [10, 11]
    names = names_in(trace)
    assert names.count("gradscope: forward") == names.count("gradscope: backward") == 2 * 4
    assert names.count("gradscope: optimizer") == 2


def test_profiling_everything_ends_at_the_limit_with_a_trace_and_a_reason(run):
    code, events = run("tiny", "budget.updates=1", "profile.steps=20000", "profile.max_events=3000")
    assert code == 0
    ended = events.one(ev.ProfileEnded)
    assert 1 <= ended.steps < 100
    assert steps_in(events.run_dir / ended.file) == [step.step for step in events.steps(Stage.PROFILE)]
    [note] = [note for note in events.of(ev.Note) if note.code == "profile_shortened"]
    assert f"closed after {ended.steps} of 20000 updates" in note.message
    assert events.one(ev.WorkerEnded).reason == "finished"


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_twenty_thousand_profiled_updates_with_everything_on_stay_below_4_gb(run):
    before = psutil.Process().memory_info().rss
    code, events = run("tiny", "budget.updates=1", "profile.steps=20000", "profile.stacks=true")
    assert code == 0
    assert events.one(ev.ProfileEnded).file is not None
    status = Path("/proc/self/status").read_text()
    peak = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    print(f"{events.one(ev.ProfileEnded).steps} updates, {(peak - before) / 1e9:.2f} GB")
    assert peak - before < 4e9


@pytest.mark.parametrize(
    ("model", "code", "message"),
    [
        (
            "out_of_memory",
            3,
            "the forward of block 3 failed (memory ran out: CUDA out of memory. Tried to allocate 20.00 GiB)",
        ),
        ("raising", 1, "labels out of range"),
    ],
)
def test_an_error_in_a_window_whose_trace_finds_no_room_is_the_error_that_is_told(
    run, monkeypatch, model, code, message
):
    monkeypatch.setattr(profiler.shutil, "copyfileobj", full_disk)
    # 2 warm-up, 1 measured and 1 memory update: the window's third is the seventh
    left_with, events = run(model, "budget.updates=1", "profile.steps=9", "model.options={at=7}")
    failure, ended = events.one(ev.TrainingFailed), events.one(ev.ProfileEnded)
    assert left_with == failure.exit_code == code
    assert (failure.step, failure.phase, failure.out_of_memory) == (7, "forward", code == 3)
    assert failure.message == message
    assert (ended.steps, ended.file) == (2, None)
    assert ended.error == "the trace could not be written: No space left on device"
    assert summary_of(events).duration.measured_steps == 1
    assert [path.name for path in events.run_dir.iterdir() if "window" in path.name] == []


def test_a_trace_that_finds_no_room_costs_nothing_else(run, monkeypatch):
    monkeypatch.setattr(profiler.shutil, "copyfileobj", full_disk)
    code, events = run("tiny", "profile.steps=2", "audit.enabled=true")
    assert code == 0
    assert events.one(ev.Audited).passed
    assert events.one(ev.WorkerEnded).reason == "finished"


def test_profiled_time_is_in_no_measured_number_and_shown_beside_it(run):
    _, events = run("many_layers", "budget.updates=3", "profile.steps=2", "profile.stacks=true")
    summary = summary_of(events)
    [window] = summary.windows
    measured, profiled = events.steps(Stage.MEASURE), events.steps(Stage.PROFILE)
    assert summary.time.step_ms.count == len(measured) == 3
    assert summary.time.step_ms.maximum == max(step.wall_ms for step in measured)
    assert window.step_ms.count == len(profiled) == 2
    assert window.step_ms.maximum == max(step.wall_ms for step in profiled)
    assert events.one(ev.Totals).seconds == pytest.approx(sum(step.wall_ms for step in measured) / 1e3)


def test_the_state_of_adamw_is_there_from_the_first_update_on(run):
    _, events = run("tiny", "optimizer={name='adamw'}", "run.warmup=1")
    hooks = next(record for record in events.of(ev.MemoryMeasured) if record.source == "hooks")
    assert hooks.step == 1
    assert hooks.optimizer_state_bytes == 2 * hooks.parameters_bytes + 4 * 4
