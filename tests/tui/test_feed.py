"""A run directory as the screens see it: whatever lies there, however it grows, and whatever happens to it."""

import os
import shutil
import subprocess
import sys
from math import isnan
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gradscope.analysis.summary import load_summary
from gradscope.config.convert import preset_to_dict
from gradscope.config.load import load_preset
from gradscope.core import events as ev
from gradscope.core import samples as sm
from gradscope.core.events import Stage
from gradscope.core.status import Status
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import process_id
from gradscope.rundir.layout import EVENTS, MANIFEST, SAMPLES, STATUS, WORKER_LOG
from gradscope.rundir.manifest import Manifest
from gradscope.tui import tables
from gradscope.tui.charts.cells import plain
from gradscope.tui.feed import RunFeed
from gradscope.tui.glyphs import UNICODE
from gradscope.tui.panes.base import Look
from gradscope.tui.panes.registry import PANES
from gradscope.tui.panes.verdict import draw_verdict
from gradscope.tui.view import GPU_COLUMNS, HOST_COLUMNS, STAGES, STEP_COLUMNS, LogLine, Remark, RunView
from tests.builders import (
    MONOTONIC_START_NS,
    EventBuilder,
    finished_events,
    preset_dict,
    run_directory,
    sample,
    write_lines,
)

CARD = "GPU-11111111-2222-3333-4444-555555555555"
OTHER_CARD = "GPU-99999999-2222-3333-4444-555555555555"


def read(path: Path, **arguments: Any) -> RunView:
    return RunFeed(path, **arguments).read()


def numbers(view: RunView, name: str) -> list[float | None]:
    return [view.steps.at(name, index) for index in range(view.steps.count)]


def words_of(view: RunView, pane: str) -> str:
    """Return a pane's legend, a blank between words."""
    rows = plain(PANES[pane].draw(view, 140, 20, Look(UNICODE)).rows).splitlines()
    return " ".join(" ".join(row[-30:].split()) for row in rows)


def running(out: Path, events: list[Any] | None = None, **arguments: Any) -> Path:
    preset = preset_to_dict(load_preset("quick", ["budget.updates=10", "run.warmup=2"]))
    return run_directory(out, Status.MEASURING, events=events, preset=preset, **arguments)


def test_a_run_that_is_over_shows_the_figures_of_its_summary(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    view, summary = read(path), load_summary(path)
    measured = view.measured
    assert measured is not None
    loss = (measured.first_loss, measured.last_loss, measured.lowest_loss)
    assert loss == (summary.loss.first, summary.loss.last, summary.loss.minimum) == (4.0, 2.0, 2.0)
    assert measured.rate(measured.steps) == summary.time.steps_per_second == 40
    assert measured.rate(measured.samples) == summary.time.samples_per_second == 320
    assert measured.rate(measured.tokens) == summary.time.tokens_per_second == 4000
    shares = {name: value / measured.wall_ms for name, value in measured.phase_ms.items()}
    assert shares == pytest.approx(summary.time.phase_share)
    look = Look(UNICODE)
    text = words_of(view, "loss") + words_of(view, "time")
    for figure in ("loss, last 2", "lowest 2", "first 4", "samples/s 320", "steps/s 40", "of 4 measured steps"):
        assert figure in text
    assert "mean of 4 steps" in text
    assert PANES["loss"].meter(view, 40, look)[0].text.strip() == "2"
    assert plain(draw_verdict(view, 120, 1, UNICODE)).startswith(" done: last loss 2 · median step 25.0 ms")


def test_while_a_run_goes_on_its_newest_step_is_shown(tmp_path: Path) -> None:
    view = read(running(tmp_path, finished_events(until=Stage.PROFILE)))
    assert "newest: step 9" in words_of(view, "loss")
    assert "loss 0.8" in words_of(view, "loss")


def test_a_finished_run_is_all_there(tmp_path: Path) -> None:
    path = run_directory(tmp_path, samples=[sample(100, host={"tree_cpu_pct": 50.0})])
    (path / WORKER_LOG).write_text("hello\n")
    view = read(path)
    assert (view.run_id, view.preset_name, view.path) == (path.name, "quick", path)
    assert (view.status.status, view.running, view.doing, view.share_done) == (Status.DONE, False, "done", 1.0)
    assert (view.seconds_left, view.silent_seconds, view.partial, view.problems) == (None, None, False, ())
    assert numbers(view, "step") == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert numbers(view, "wall_ms") == [100, 60, 10, 20, 30, 40, 500, 300, 300]
    assert numbers(view, "loss") == [9, 8, 4, 3, 2.5, 2, 1, 0.9, 0.8]
    assert [STAGES[int(value or 0)] for value in numbers(view, "stage")] == [
        *[Stage.WARMUP] * 2,
        *[Stage.MEASURE] * 4,
        Stage.MEMORY,
        *[Stage.PROFILE] * 2,
    ]
    assert numbers(view, "tokens") == [None, None, 100, 100, 100, 100, None, None, None]
    assert numbers(view, "recompute") == [None] * 9
    assert numbers(view, "forward")[2] == 3.0
    assert view.median_step_ms == 25.0
    assert view.started is not None
    assert view.built is not None
    assert view.categories is not None
    assert view.categories.optimizer_state_bytes == 8000
    assert view.allocator is not None
    assert view.allocator.peak_activations_bytes == 7000
    assert [window.ended is not None for window in view.windows] == [True]
    assert view.audit is not None
    assert view.host.at("tree_cpu_pct", 0) == 50.0
    assert view.log == (LogLine("hello"),)


def test_columns_have_the_names_of_the_contract(tmp_path: Path) -> None:
    path = run_directory(tmp_path, samples=[sample(100, gpus=[{"uuid": CARD}])])
    view = read(path)
    assert tuple(view.steps.data) == STEP_COLUMNS
    assert tuple(view.host.data) == HOST_COLUMNS
    assert tuple(view.gpus[CARD].data) == GPU_COLUMNS
    assert {len(values) for values in view.steps.data.values()} == {view.steps.count}


def test_nothing_new_is_the_very_same_view(tmp_path: Path) -> None:
    feed = RunFeed(running(tmp_path), now_monotonic_ns=lambda: MONOTONIC_START_NS)
    view = feed.read()
    assert feed.read() is view


def test_what_comes_is_added_and_earlier_views_stay_as_they_are(tmp_path: Path) -> None:
    log = EventBuilder()
    log.started()
    log.stage(Stage.MEASURE, 10)
    path = running(tmp_path, log.events)
    feed = RunFeed(path)
    before = feed.read()
    assert (before.steps.count, before.doing, before.stage_done, before.stage_planned) == (0, "measuring", 0, 10)
    assert (before.seconds_left, before.share_done, before.median_step_ms) == (None, None, None)
    told = len(log.events)
    log.step(Stage.MEASURE, 500, loss=2.0)
    write_lines(path / EVENTS, log.events[told:])
    after = feed.read()
    assert after.revision > before.revision
    assert (before.steps.count, after.steps.count) == (0, 1)
    # 9 measured, 2 of warm-up that never came, one for memory, 2 profiled, at 0.5 s
    assert (after.seconds_left, after.share_done) == (7.0, 1 / 15)
    assert (after.stage_done, after.median_step_ms) == (1, 500.0)
    assert list(before.steps.values("loss")) == []
    assert list(after.steps.values("loss")) == [2.0]


def test_repeated_and_late_records_count_once(tmp_path: Path) -> None:
    events = finished_events()
    path = run_directory(tmp_path, events=[*events[:8], *events[5:8], *events[8:], events[6]])
    view = read(path)
    assert numbers(view, "step") == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert view.problems == ()


def test_a_thinned_record_stands_for_all_its_steps(tmp_path: Path) -> None:
    log = EventBuilder()
    log.stage(Stage.MEASURE, 30)
    log.step(Stage.MEASURE, 10)
    log.step(Stage.MEASURE, 20, covers=10)
    log.step(Stage.MEASURE, 30)
    view = read(running(tmp_path, log.events))
    assert (view.stage_done, view.stage_planned, view.median_step_ms) == (12, 30, 20.0)
    assert numbers(view, "covers") == [1, 10, 1]


def test_damaged_lines_are_counted_in_the_problems(tmp_path: Path) -> None:
    events = finished_events()
    path = run_directory(tmp_path, events=events[:4])
    with (path / EVENTS).open("ab") as file:
        file.write(b'garbage\n{"kind": "telepathy", "seq": 5, "t_ns": 1}\n\xff\xfe\n')
    write_lines(path / EVENTS, events[8:])
    with (path / SAMPLES).open("ab") as file:
        file.write(b"[]\n")
    view = read(path)
    assert view.problems == (
        "2 lines of events.jsonl damaged and left out",
        "one line of events.jsonl of a kind that this version does not know",
        "one line of samples.jsonl damaged and left out",
        "4 records of the worker could not be read",
    )
    assert view.audit is not None


def test_a_number_beyond_any_float_costs_only_its_record(tmp_path: Path) -> None:
    events = finished_events(until=Stage.MEASURE)
    events[-2] = msgspec.structs.replace(events[-2], samples=10**400)
    huge = sample(20, host={"disk_free_bytes": 10**400})
    path = run_directory(tmp_path, Status.KILLED, events=events, samples=[sample(10), huge, sample(30)])
    view = read(path)
    assert numbers(view, "step") == [1, 2, 3, 4, 6]
    assert view.host.count == 2
    assert view.problems == (
        "one line of events.jsonl damaged and left out",
        "one line of samples.jsonl damaged and left out",
    )


def test_a_torn_end_is_said_of_a_run_that_is_over_only(tmp_path: Path) -> None:
    for state, problems in ((Status.KILLED, ("events.jsonl ends within a line",)), (Status.MEASURING, ())):
        path = run_directory(tmp_path / state, state, preset=preset_to_dict(load_preset("quick")))
        with (path / EVENTS).open("ab") as file:
            file.write(b'{"kind":"st')
        assert read(path).problems == problems


def test_a_run_whose_supervisor_dies_is_killed_at_the_next_look(tmp_path: Path) -> None:
    path = running(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        status = RunHandle(path).status()
        write_json(path / STATUS, msgspec.structs.replace(status, supervisor=process_id(process.pid)))
        feed = RunFeed(path)
        assert feed.read().running
        process.kill()
        process.communicate()
        view = feed.read()
    assert (view.status.status, view.running, view.doing) == (Status.KILLED, False, "killed")
    assert (view.seconds_left, view.silent_seconds) == (None, None)


def test_a_run_of_another_host_is_unknown_and_not_running(tmp_path: Path) -> None:
    view = read(running(tmp_path, elsewhere=True))
    assert (view.status.status, view.running, view.doing) == (Status.UNKNOWN, False, "unknown")
    assert (view.seconds_left, view.silent_seconds) == (None, None)
    assert "elsewhere" in (view.status.reason or "")


def test_silence_is_told_in_whole_seconds_of_a_running_run(tmp_path: Path) -> None:
    now_ms = 2100.0
    feed = RunFeed(running(tmp_path), now_monotonic_ns=lambda: MONOTONIC_START_NS + round(now_ms * 1e6))
    assert feed.read().silent_seconds == 0.0  # the last step ended at 2100 ms
    now_ms += 999
    assert feed.read().silent_seconds == 0.0
    now_ms += 13_001
    assert feed.read().silent_seconds == 14.0


def test_before_its_first_record_a_run_is_not_silent(tmp_path: Path) -> None:
    view = read(run_directory(tmp_path, Status.STARTING))
    assert (view.running, view.doing, view.silent_seconds, view.stage) == (True, "starting", None, None)


def test_a_directory_that_vanishes_keeps_what_was_read(tmp_path: Path) -> None:
    path = running(tmp_path)
    feed = RunFeed(path)
    steps = feed.read().steps.count
    shutil.move(path, tmp_path / "away")
    view = feed.read()
    assert (view.steps.count, view.running, view.status.status) == (steps, False, Status.UNKNOWN)
    assert view.status.reason == "its directory vanished while it was measuring"
    assert view.problems == (f"the run directory is gone: {path}",)
    assert feed.read() is view
    shutil.move(tmp_path / "away", path)
    assert (feed.read().steps.count, feed.read().problems, feed.read().running) == (steps, (), True)


def test_a_finished_run_that_vanishes_stays_finished(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    feed = RunFeed(path)
    feed.read()
    shutil.rmtree(path)
    view = feed.read()
    assert (view.status.status, view.problems) == (Status.DONE, (f"the run directory is gone: {path}",))


def test_a_directory_that_was_never_there_is_said(tmp_path: Path) -> None:
    view = read(tmp_path / "p" / "nowhere\x1b[2J")
    assert view.problems == (f"the run directory is gone: {tmp_path}/p/nowhere\\e[2J",)
    assert (view.status.status, view.status.reason) == (Status.UNKNOWN, "there is no run directory")


def test_another_run_in_its_place_is_shown_from_its_beginning(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    feed = RunFeed(path)
    old = feed.read()
    shutil.rmtree(path)
    run_directory(tmp_path, Status.MEASURING, preset=preset_dict(name="quick", run={"seed": 8}))
    new = feed.read()
    assert (old.steps.count, new.steps.count, new.running) == (9, 6, True)
    assert new.revision > old.revision


def test_another_run_in_the_same_folder_is_shown_from_its_beginning(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    feed = RunFeed(path)
    feed.read()
    manifest = read_json(path / MANIFEST, Manifest)
    assert manifest is not None
    write_json(path / MANIFEST, msgspec.structs.replace(manifest, created_wall_ns=1))
    (path / EVENTS).write_bytes(b"")
    assert feed.read().steps.count == 0


def test_a_file_of_samples_that_begins_anew_makes_the_run_begin_anew(tmp_path: Path) -> None:
    path = run_directory(tmp_path, samples=[sample(number) for number in range(1, 11)])
    feed = RunFeed(path)
    assert feed.read().host.count == 10
    os.truncate(path / SAMPLES, 0)
    write_lines(path / SAMPLES, [sample(5)])
    view = feed.read()
    assert (view.host.count, view.steps.count) == (1, 9)


def test_a_manifest_that_comes_late_makes_a_plan(tmp_path: Path) -> None:
    path = running(tmp_path)
    (path / MANIFEST).rename(tmp_path / "kept")
    feed = RunFeed(path)
    view = feed.read()
    assert (view.preset, view.problems) == (None, ("manifest.json is missing or damaged",))
    (tmp_path / "kept").rename(path / MANIFEST)
    view = feed.read()
    assert view.preset is not None
    assert (view.steps.count, view.problems) == (6, ())
    assert view.seconds_left is not None


def test_a_newer_format_is_said_and_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    manifest = read_json(path / MANIFEST, Manifest)
    assert manifest is not None
    write_json(path / MANIFEST, msgspec.structs.replace(manifest, schema=3, preset={"name": "x", "aura": {}}))
    view = read(path)
    assert view.problems == (
        "written by a newer gradscope (format 3, this one knows 1): some of it may be missing or wrong here",
    )
    assert (view.preset, view.preset_name, view.steps.count) == (None, "x", 9)


def test_a_preset_of_another_version_is_said(tmp_path: Path) -> None:
    path = run_directory(tmp_path, preset=preset_dict(aura={"colour": "blue"}))
    view = read(path)
    assert (view.preset, view.problems) == (None, ("the preset in manifest.json is not of this version",))


def test_an_error_of_the_disk_is_said_and_over_when_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_directory(tmp_path)
    feed = RunFeed(path)

    def broken(self: Any) -> Any:
        raise OSError(5, "Input/output error")
        yield

    with monkeypatch.context() as patch:
        patch.setattr("gradscope.rundir.tail.JsonlTail.batches", broken)
        view = feed.read()
    assert view.problems == (
        "cannot read events.jsonl: Input/output error",
        "cannot read samples.jsonl: Input/output error",
    )
    assert (view.status.status, view.steps.count) == (Status.DONE, 0)
    assert (feed.read().problems, feed.read().steps.count) == ((), 9)


def test_folders_and_pipes_in_place_of_files_do_no_harm(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    for name, make in ((EVENTS, os.mkfifo), (SAMPLES, os.mkdir), (WORKER_LOG, os.mkfifo), (STATUS, os.mkdir)):
        (path / name).unlink(missing_ok=True)
        make(path / name)
    view = read(path)
    assert (view.steps.count, view.status.status) == (0, Status.UNKNOWN)


def test_a_large_run_can_be_read_in_parts(tmp_path: Path) -> None:
    log = EventBuilder()
    log.stage(Stage.MEASURE, 1000)
    for _ in range(1000):
        log.step(Stage.MEASURE, 10)
    path = run_directory(tmp_path, events=log.events, samples=[sample(10)])
    feed = RunFeed(path)
    counts = []
    view = feed.read(lambda: True)
    while view.partial:
        counts.append(view.steps.count)
        view = feed.read(lambda: True)
    assert counts[0] < 1000
    assert counts == sorted(counts)
    assert (view.steps.count, view.host.count) == (1000, 1)


def test_samples_of_cards_have_a_row_for_each_of_the_host(tmp_path: Path) -> None:
    lines = [
        sample(10, host={"tree_cpu_pct": 10.0}),
        sample(20, gpus=[{"uuid": CARD, "power_w": 100.0, "throttle": ["power cap", "heat"]}]),
        sample(30, host={"core_busy_pct": [1.0, 2.0]}, gpus=[{"uuid": OTHER_CARD, "power_w": 5.0}]),
        sample(30),
        sample(25),
        sample(40, gpus=[{"uuid": CARD, "power_w": 200.0}]),
    ]
    events = finished_events(device="cuda:0", device_uuid=CARD)
    view = read(run_directory(tmp_path, events=events, samples=lines))
    assert view.host.count == 4
    assert [view.gpus[CARD].at("power_w", row) for row in range(4)] == [None, 100, None, 200]
    assert [view.gpus[OTHER_CARD].at("power_w", row) for row in range(4)] == [None, None, 5, None]
    assert [view.gpus[CARD].at("throttled", row) for row in range(4)] == [None, 2, None, None]
    assert view.host.last("tree_cpu_pct") == 10.0
    assert (view.own_gpu, view.throttle_reasons, view.core_busy_pct) == (CARD, ("power cap", "heat"), (1.0, 2.0))


def test_on_a_cpu_no_card_is_the_runs_own(tmp_path: Path) -> None:
    view = read(run_directory(tmp_path, samples=[sample(10, gpus=[{"uuid": CARD, "throttle": ["heat"]}])]))
    assert (view.own_gpu, view.throttle_reasons, list(view.gpus)) == (None, (), [CARD])


def test_after_hours_samples_are_put_together_but_no_figure_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "THIN_AFTER_ROWS", 5)
    lines = [
        sample(number, host={"tree_cpu_pct": float(number), "disk_free_bytes": number if number % 10 == 8 else None})
        for number in range(1, 30)
    ]
    view = read(run_directory(tmp_path, samples=lines))
    assert view.host.values("tree_cpu_pct").tolist() == [1, 2, 3, 4, 5, 15, 25]
    assert [view.host.at("disk_free_bytes", row) for row in range(7)] == [None] * 5 + [8, 18]
    assert not isnan(view.host.data["t_ns"][-1])


def test_what_was_said_is_collected_in_order_as_harmless_text(tmp_path: Path) -> None:
    log = EventBuilder()
    log.emit(ev.Note, code="spike", message="loss \x1b[31m3.1x its median", step=40)
    log.emit(ev.SnapshotWritten, file="memory/s.pickle")
    log.emit(ev.Audited, error=0.5, bound=1e-6, passed=False)
    path = run_directory(tmp_path, events=log.events, samples=[sm.SamplerNote(t_ns=1, message="card lost")])
    status = RunHandle(path).status()
    write_json(path / STATUS, msgspec.structs.replace(status, notes=("disk full",)))
    assert read(path).remarks == (
        Remark("loss \\e[31m3.1x its median", 40),
        Remark("memory snapshot: memory/s.pickle"),
        Remark("the gradient audit failed: error 0.5"),
        Remark("card lost"),
        Remark("disk full"),
    )


def test_what_a_run_died_of_is_there(tmp_path: Path) -> None:
    log = EventBuilder()
    log.emit(ev.TrainingFailed, error_type="ValueError", message="[/red]", out_of_memory=False)
    view = read(run_directory(tmp_path, Status.FAILED, events=log.events, reason="ValueError: [/red]"))
    assert view.failure is not None
    assert (view.failure.message, view.status.reason, view.doing) == ("[/red]", "ValueError: [/red]", "failed")
