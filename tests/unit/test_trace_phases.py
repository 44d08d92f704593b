from pathlib import Path

import pytest

from gradscope.trace.load import load_trace
from gradscope.trace.phases import phases
from tests.trace_builder import annotation, events_frame, kernel, launch, op, step

REAL = Path(__file__).parent.parent / "cases" / "traces" / "real"
ENGINE = "autograd::engine::evaluate_function: "


def host_us(answer, number=None):
    rows = answer.table if number is None else answer.table.filter(number=number)
    return {row["phase"]: row["host_ns"] / 1000 for row in rows.iter_rows(named=True)}


def test_a_run_of_gradscope_has_the_phases_that_it_marks():
    rows = [
        step(0, 0, 1000),
        annotation("gradscope: data", 10, 90),
        annotation("gradscope: h2d", 100, 50),
        annotation("gradscope: forward", 150, 250),
        annotation("gradscope: backward", 400, 400),
        annotation("gradscope: recompute", 450, 100, tid="200"),  # autograd's thread
        annotation("gradscope: optimizer", 800, 150),
        annotation("Optimizer.step#Adam.step", 800, 100),
    ]
    answer = phases(events_frame(rows))
    assert answer.source == "gradscope"
    assert host_us(answer) == {
        "data": 90,
        "h2d": 50,
        "forward": 250,
        "backward": 300,
        "recompute": 100,
        "optimizer": 150,
        "other": 60,
    }
    assert answer.table["host_pct"].sum() == pytest.approx(100)
    assert answer.notes == []


def test_micro_steps_add_up_within_their_step_and_steps_stay_apart():
    rows = [step(3, 0, 1000), step(4, 1000, 500)]
    rows += [annotation("gradscope: forward", at, 100) for at in (0, 400, 1000)]
    rows += [annotation("gradscope: backward", at, 200) for at in (100, 500, 1100)]
    answer = phases(events_frame(rows))
    assert host_us(answer, 3) == {"forward": 200, "backward": 400, "other": 400}
    assert host_us(answer, 4) == {"forward": 100, "backward": 200, "other": 200}
    assert dict(answer.totals.select("phase", "ranges").rows()) == {"forward": 3, "backward": 3, "other": 0}
    assert dict(answer.totals.select("phase", "host_pct").rows())["backward"] == 40


def test_the_devices_time_belongs_to_the_phase_that_launched_it_whenever_it_ran():
    rows = [
        step(0, 0, 1000),
        annotation("gradscope: forward", 0, 200),
        annotation("gradscope: backward", 200, 300),
        launch(1, 10),
        launch(2, 20),
        launch(3, 250, tid="200"),
        launch(4, 700),
        kernel("f", 100, 300, 1),
        kernel("f beside it", 200, 300, 2, stream=8),
        kernel("b", 500, 250, 3),
        kernel("o", 800, 50, 4),
    ]
    answer = phases(events_frame(rows))
    assert dict(answer.table.select("phase", "device_ns").rows()) == {
        "forward": 400_000,
        "backward": 250_000,
        "other": 50_000,
    }


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data"),
        ("## load_batch ##", "data"),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", "data"),
        ("[pl][profile][Strategy]SingleDeviceStrategy.batch_to_device", "h2d"),
        ("to_device", "h2d"),
        ("## forward ##", "forward"),
        ("DistributedDataParallel.forward", "forward"),
        ("Forward", "forward"),
        ("## backward ##", "backward"),
        ("loss_backward", "backward"),
        ("[pl][profile][Strategy]SingleDeviceStrategy.backward", "backward"),
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#SGD.zero_grad", "optimizer"),
        ("forward_hook of mine", None),
        ("database", None),
        ("aten::_convolution_backward", None),
    ],
)
def test_ranges_of_others_are_known_by_their_names(name, phase):
    answer = phases(events_frame([step(0, 0, 1000), annotation(name, 100, 200)]))
    assert host_us(answer) == ({phase: 200, "other": 800} if phase else {})
    assert answer.source == ("annotations" if phase else None)


def test_time_belongs_to_the_range_that_began_last():
    rows = [
        step(0, 0, 1000),
        annotation("Optimizer.step#LBFGS.step", 100, 800),
        annotation("forward", 200, 100),  # in its closure
        annotation("backward", 300, 300),
        annotation("Optimizer.step#SGD.step", 500, 50),  # in a hook of backward
        annotation("forward", 560, 100),  # begins in backward and ends after it
    ]
    answer = phases(events_frame(rows))
    assert host_us(answer) == {"forward": 200, "backward": 210, "optimizer": 390, "other": 200}
    assert answer.ranges["start_ns"].to_list() == [ts * 1000 for ts in (100, 200, 300, 500, 550, 560, 660)]


def test_ranges_that_begin_together_nest_by_length():
    rows = [
        step(0, 0, 1000),
        annotation("forward", 0, 500),
        annotation("data", 0, 100),
        annotation("backward", 500, 100),
    ]
    assert host_us(phases(events_frame(rows))) == {"data": 100, "forward": 400, "backward": 100, "other": 400}


def test_without_ranges_autograd_tells_forward_from_backward():
    rows = [
        step(0, 0, 1000),
        op("aten::linear", 100, 50, sequence=1),
        op("aten::relu", 160, 40, sequence=2, forward_thread=0),  # 150 to 160 is Python: forward
        op(ENGINE + "ReluBackward0", 300, 50, sequence=2, forward_thread=1, tid="200"),
        op("ReluBackward0", 310, 30, sequence=2, forward_thread=1, tid="200"),
        op(ENGINE + "AddmmBackward0", 360, 100, sequence=1, forward_thread=1, tid="200"),
        annotation("Optimizer.step#SGD.step", 600, 100),
        op("aten::add_", 610, 50),
    ]
    answer = phases(events_frame(rows))
    assert answer.source == "annotations and autograd"
    assert host_us(answer) == {"forward": 100, "backward": 160, "optimizer": 100, "other": 640}
    assert [note.code for note in answer.notes] == ["phases_guessed"]


def test_forward_operators_inside_of_backward_are_recomputation():
    rows = [
        step(0, 0, 1000),
        op("aten::linear", 0, 100, sequence=1),
        op(ENGINE + "AddmmBackward0", 200, 500, sequence=1, forward_thread=1),
        op("AddmmBackward0", 210, 480, sequence=1, forward_thread=1),
        op("aten::linear", 220, 100, sequence=7),
        op("aten::relu", 330, 70, sequence=8),
        op("aten::mm", 450, 200),
    ]
    assert host_us(phases(events_frame(rows))) == {"forward": 100, "backward": 320, "recompute": 180, "other": 400}


def test_a_marked_phase_and_a_new_step_end_a_run_of_operators():
    rows = [step(0, 0, 500), step(1, 500, 500)]
    for base in (0, 500):
        rows += [
            annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", base + 20, 80),
            op("aten::linear", base + 100, 100, sequence=1),
            op(ENGINE + "AddmmBackward0", base + 200, 100, sequence=1, forward_thread=1),
            op("aten::item", base + 350, 50, sequence=9),
        ]
    answer = phases(events_frame(rows))
    assert host_us(answer, 0) == host_us(answer, 1) == {"data": 80, "forward": 150, "backward": 100, "other": 170}


def test_operators_alone_without_a_backward_tell_nothing():
    answer = phases(events_frame([step(0, 0, 1000), op("aten::linear", 0, 100, sequence=1)]))
    assert (answer.source, answer.table.height) == (None, 0)
    assert [note.code for note in answer.notes] == ["phases_unknown"]


def test_without_steps_phases_are_those_of_the_whole_trace():
    answer = phases(events_frame([annotation("forward", 0, 300), annotation("backward", 300, 700)]))
    assert answer.table.select("number", "phase", "host_pct").rows() == [
        (None, "forward", 30.0),
        (None, "backward", 70.0),
    ]


def test_nothing_has_no_phases():
    answer = phases(events_frame([]))
    assert (answer.source, answer.table.height, answer.notes) == (None, 0, [])


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("nccl.json.gz", "annotations", ["forward", "backward", "optimizer", "other"]),
        ("rocm_mi250.json.gz", "annotations and autograd", ["forward", "backward", "optimizer", "other"]),
        ("no_rank.json.gz", "annotations", ["data", "forward", "backward", "optimizer", "other"]),
        ("cuda_two_streams.json.gz", None, []),
    ],
)
def test_real_traces(name, source, found):
    answer = phases(load_trace(REAL / name))
    assert (answer.source, answer.totals["phase"].to_list()) == (source, found)
