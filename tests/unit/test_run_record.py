"""Events fold into a record that is the same live as afterwards, and that a torn or partial file cannot upset."""

from pathlib import Path

import msgspec

from gradscope.analysis.fold import RunRecord, fold, measured_spans_ns, update
from gradscope.core.events import Note, ProfileStarted, Stage, TrainingFailed
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import EVENTS
from tests.builders import MONOTONIC_START_NS, EventBuilder, finished_events, write_lines


def ms(value: float) -> int:
    return MONOTONIC_START_NS + round(value * 1e6)


def test_steps_are_kept_by_stage() -> None:
    record = fold(finished_events())
    assert {stage: [step.step for step in steps] for stage, steps in record.steps.items()} == {
        Stage.WARMUP: [1, 2],
        Stage.MEASURE: [3, 4, 5, 6],
        Stage.MEMORY: [7],
        Stage.PROFILE: [8, 9],
        Stage.AUDIT: [],
        Stage.EXPORT: [],
    }
    assert record.stage is Stage.AUDIT
    assert record.missing == 0


def test_folding_bit_by_bit_gives_what_folding_at_once_gives() -> None:
    events = finished_events()
    live = RunRecord()
    for event in events:
        update(live, [event])
    assert live == fold(events)


def test_events_read_twice_count_once() -> None:
    events = finished_events()
    record = fold(events)
    update(record, events)
    assert record == fold(events)


def test_missing_events_are_counted() -> None:
    events = finished_events()
    assert fold(events[:5] + events[8:]).missing == 3


def test_every_prefix_of_a_run_folds() -> None:
    events = finished_events()
    for length in range(len(events) + 1):
        assert fold(events[:length]).last_seq == length - 1


def test_every_torn_file_folds(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    write_lines(path, finished_events())
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        record = fold(RunHandle(tmp_path).events())
        assert record.last_seq == whole[:length].count(b"\n") - 1


def test_a_window_stays_open_when_the_run_was_killed_inside_it() -> None:
    events = finished_events()
    started = next(index for index, event in enumerate(events) if isinstance(event, ProfileStarted))
    assert fold(events[: started + 2]).windows[0].ended is None
    ended = fold(events).windows[0].ended
    assert ended is not None
    assert ended.steps == 2


def test_the_first_failure_is_the_one_that_ended_training() -> None:
    log = EventBuilder()
    log.emit(TrainingFailed, error_type="OutOfMemoryError", message="first", out_of_memory=True)
    log.emit(TrainingFailed, error_type="OSError", message="disk full", out_of_memory=False)
    failure = fold(log.events).failure
    assert failure is not None
    assert failure.message == "first"


def test_measured_spans_are_those_of_the_stage() -> None:
    assert measured_spans_ns(fold(finished_events())) == [(ms(2000), ms(2100))]


def test_a_captured_window_splits_the_measured_span() -> None:
    log = EventBuilder()
    log.stage(Stage.MEASURE)
    log.step(Stage.MEASURE, 10)
    log.stage(Stage.PROFILE)
    log.emit(ProfileStarted, window=1, first_step=2, steps=1, wall_ns=0, requested=True)
    log.step(Stage.PROFILE, 50)
    log.stage(Stage.MEASURE)
    log.step(Stage.MEASURE, 10)
    assert measured_spans_ns(fold(log.events)) == [(ms(0), ms(10))]  # the window is still open
    log.events.pop(3)
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(log.events)]
    assert measured_spans_ns(fold(events)) == [(ms(0), ms(10)), (ms(60), ms(70))]


def test_a_running_run_is_measured_up_to_its_last_event() -> None:
    log = EventBuilder()
    log.stage(Stage.MEASURE)
    log.step(Stage.MEASURE, 10)
    log.now_ms += 5
    log.emit(Note, code="x", message="y")
    assert measured_spans_ns(fold(log.events)) == [(ms(0), ms(15))]
