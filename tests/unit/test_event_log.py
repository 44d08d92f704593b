"""Events are numbered without gaps, fit their size, and thin out by the stated rule."""

import json

import msgspec

from gradscope.core.events import AnyEvent, Note, Phases, Stage
from gradscope.worker.record import THIN_TO_ONE_IN, EventLog


def lines(path):
    return [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]


def step_fields(number, micro_steps=0):
    return {
        "step": number,
        "stage": Stage.MEASURE,
        "wall_ms": 12345.678,
        "phases": Phases(
            data=1234.567,
            h2d=1234.567,
            forward=1234.567,
            backward=1234.567,
            recompute=1234.567,
            optimizer=1234.567,
            other=1234.567,
        ),
        "loss": 10.123456789012345,
        "samples": 65536,
        "tokens": 8388608,
        "evaluations": 25,
        "micro_ms": [1234.567] * micro_steps,
        "allocated_peak_bytes": 85_899_345_920,
        "reserved_bytes": 85_899_345_920,
    }


def test_numbers_have_no_gaps_and_times_never_go_back(tmp_path):
    log = EventLog(tmp_path)
    for number in range(5):
        log.emit(Note, code="x", message=str(number))
    records = lines(tmp_path)
    assert [record["seq"] for record in records] == [0, 1, 2, 3, 4]
    assert records == sorted(records, key=lambda record: record["t_ns"])


def test_the_largest_step_record_fits_500_bytes_and_reads_back(tmp_path):
    log = EventLog(tmp_path)
    log.emit_steps([step_fields(1_000_000, micro_steps=8)])
    (line,) = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert len(line) <= 500
    event = msgspec.json.decode(line, type=AnyEvent)
    assert event.phases.recompute == 1234.567
    assert event.covers == 1


def test_past_the_limit_every_tenth_step_stands_for_ten(tmp_path):
    log = EventLog(tmp_path, thin_after_bytes=2000)
    for number in range(1, 101):
        log.emit_steps([step_fields(number)])
    records = lines(tmp_path)
    note = next(record for record in records if record["kind"] == "note")
    assert note["code"] == "events_thinned"
    thinned = [record for record in records if record["kind"] == "step" and record["seq"] > note["seq"]]
    assert all(record["covers"] == THIN_TO_ONE_IN and record["step"] % 10 == 0 for record in thinned)
    assert thinned[-1]["step"] == 100
    assert [record["seq"] for record in records] == list(range(len(records)))


def test_steps_that_are_written_together_are_lines_of_their_own(tmp_path):
    log = EventLog(tmp_path)
    log.emit(Note, code="x", message="before")
    log.emit_steps([step_fields(1), step_fields(2)])
    log.emit(Note, code="x", message="after")
    assert [record.get("step") for record in lines(tmp_path)] == [None, 1, 2, None]
    assert [record["seq"] for record in lines(tmp_path)] == [0, 1, 2, 3]
