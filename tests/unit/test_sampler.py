"""The sampling thread: rhythm, tags, slow calls, cards that fail, and nothing that leaves it (P24, P28, P29)."""

import os
import threading
import time
from itertools import pairwise

import msgspec
import pytest
from nvml_stub.build import GPU_IS_LOST, UNKNOWN, VERSION_MISMATCH, gpu

from gradscope.core.samples import Sample, SampleLine, SamplerEnded, SamplerNote, SamplerStarted
from gradscope.sampling.deadline import Deadline
from gradscope.sampling.loop import Sampler

MS = 1_000_000


class Lines:
    """Collects what a sampler writes; waits until something has been written."""

    def __init__(self):
        self.all = []
        self.changed = threading.Condition()

    def __call__(self, line):
        with self.changed:
            self.all.append(line)
            self.changed.notify_all()

    def of(self, kind):
        return [line for line in self.all if isinstance(line, kind)]

    def wait_for(self, condition):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), timeout=60)


def samples_at_least(count):
    return lambda lines: len(lines.of(Sample)) >= count


def without_slowness(notes):
    """Leave out what a busy machine causes: these tests read slow figures 50 times a second."""
    return [note for note in notes if "one reading took" not in note]


@pytest.fixture
def sampler(tmp_path):
    """Return a function that starts a sampler of this process; all are stopped at the end."""
    started = []

    def start(emit, **settings):
        settings = {"interval_ms": 5.0, "device": "cuda:0", "env": {}, "slow_period_s": 0.02, **settings}
        made = Sampler(root_pid=os.getpid(), disk_path=tmp_path, emit=emit, **settings)
        started.append(made)
        made.start()
        return made

    yield start
    for made in started:
        assert made.stop()


def test_deadlines_do_not_drift_and_those_that_passed_are_skipped():
    deadline = Deadline(1000 * MS, 100 * MS)
    assert deadline.wait_seconds(1000 * MS) == 0
    deadline.taken(1004 * MS)
    assert deadline.wait_seconds(1004 * MS) == pytest.approx(0.096)
    deadline.taken(1103 * MS)  # late by 3 ms: the next is still at 1200
    assert deadline.wait_seconds(1103 * MS) == pytest.approx(0.097)
    deadline.taken(1450 * MS)  # 1300 and 1400 passed meanwhile
    assert deadline.missed == 2
    assert deadline.wait_seconds(1450 * MS) == pytest.approx(0.050)
    deadline.taken(1500 * MS)
    assert deadline.missed == 2
    assert deadline.wait_seconds(1500 * MS) == pytest.approx(0.100)


def test_a_machine_without_nvml_samples_its_host(no_nvml, sampler):
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(3))
    lines.wait_for(lambda known: any(sample.host.disk_free_bytes for sample in known.of(Sample)))
    running.stop()
    started, ended = lines.all[0], lines.all[-1]
    assert isinstance(started, SamplerStarted)
    assert started.gpus == []
    assert "libnvidia-ml.so.1" in started.no_gpu_reason
    assert isinstance(ended, SamplerEnded)
    assert ended.samples == len(lines.of(Sample))
    assert lines.of(Sample)[0].interval_ms == 0.0
    assert lines.of(Sample)[0].host.tree_resident_bytes > 0
    assert all(sample.gpus == [] for sample in lines.of(Sample))


def test_every_line_can_be_read_back(nvml_script, sampler):
    nvml_script(gpu("GPU-A"))
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(3))
    running.stop()
    again = msgspec.json.decode(msgspec.json.encode(lines.all), type=list[SampleLine])
    assert again == lines.all


def test_intervals_are_those_between_stamps_and_steps_are_tagged(no_nvml, sampler):
    lines = Lines()
    steps = iter(range(10_000))
    running = sampler(lines, step=lambda: next(steps))
    lines.wait_for(samples_at_least(5))
    running.stop()
    samples = lines.of(Sample)
    for before, after in pairwise(samples):
        assert after.interval_ms == pytest.approx((after.t_ns - before.t_ns) / 1e6, abs=0.001)
    assert [sample.step for sample in samples] == list(range(len(samples)))
    mean = (samples[-1].t_ns - samples[0].t_ns) / 1e6 / (len(samples) - 1)
    assert lines.of(SamplerEnded)[0].interval_ms == pytest.approx(mean, abs=0.001)


def test_a_process_list_that_takes_long_does_not_slow_the_rest(nvml_script, sampler):
    # the report's case (100 ms asked, a call of 2 s, 150 samples of 200) at five times the pace
    nvml_script(
        [
            *gpu("GPU-A"),
            f"process GPU-A compute {os.getpid()} 1000",
            "sleep DeviceGetComputeRunningProcesses 200",
        ]
    )
    lines = Lines()
    running = sampler(lines, interval_ms=20.0, slow_period_s=0.1)
    lines.wait_for(samples_at_least(100))
    lines.wait_for(lambda known: any(sample.gpus[0].process_bytes for sample in known.of(Sample)))
    running.stop()
    samples, ended = lines.of(Sample), lines.of(SamplerEnded)[0]
    assert all(sample.gpus[0].used_bytes is not None for sample in samples)
    assert ended.samples >= 0.75 * (ended.samples + ended.missed)
    assert {sample.gpus[0].process_bytes for sample in samples} == {None, 1000}
    notes = [note.message for note in lines.of(SamplerNote)]
    assert len([note for note in notes if note.startswith("cuda:0 process list: one reading took")]) == 1


def test_only_the_runs_card_is_watched(nvml_script, sampler):
    nvml_script([*gpu("GPU-B", "00000000:3B:00.0"), *gpu("GPU-A", "00000000:05:00.0", power_limit="250000")])
    lines = Lines()
    sampler(lines, env={"CUDA_VISIBLE_DEVICES": "0"})
    lines.wait_for(samples_at_least(2))
    assert lines.all[0].gpus == [
        {
            "device": "cuda:0",
            "uuid": "GPU-A",
            "name": "NVIDIA Stub",
            "nvml_index": "1",
            "mapped_by": "pci id",
            "power_limit_w": "250",
            "total_bytes": "8388608000",
        }
    ]
    assert lines.all[0].driver == "580.0"
    assert {card.uuid for sample in lines.of(Sample) for card in sample.gpus} == {"GPU-A"}


def test_unlike_cards_are_all_watched_until_the_worker_has_said_which_it_is_on(nvml_script, sampler):
    nvml_script([*gpu("GPU-A", "00000000:05:00.0", "Big"), *gpu("GPU-B", "00000000:3B:00.0", "Small")])
    lines = Lines()
    running = sampler(lines, device="auto")
    lines.wait_for(samples_at_least(2))
    assert [card["mapped_by"] for card in lines.all[0].gpus] == ["uncertain", "uncertain"]
    running.worker_started("cuda:0", "B")
    lines.wait_for(lambda known: len(known.of(SamplerStarted)) == 2)
    settled = lines.of(SamplerStarted)[1]
    assert [(card["device"], card["uuid"], card["mapped_by"]) for card in settled.gpus] == [("cuda:0", "GPU-B", "uuid")]
    count = len(lines.of(Sample))
    lines.wait_for(samples_at_least(count + 2))
    assert [card.uuid for card in lines.of(Sample)[-1].gpus] == ["GPU-B"]


def test_a_card_that_nvml_does_not_list_is_not_replaced_by_a_neighbour(nvml_script, sampler):
    nvml_script([*gpu("GPU-A", "00000000:05:00.0"), *gpu("GPU-B", "00000000:3B:00.0")])
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(1))
    running.worker_started("cuda:0", "c0")
    lines.wait_for(lambda known: len(known.of(SamplerStarted)) == 2)
    settled = lines.of(SamplerStarted)[1]
    assert (settled.gpus, settled.no_gpu_reason) == ([], "NVML does not list the card that torch uses (c0)")


def test_a_mapping_that_torch_confirms_keeps_what_is_known_of_the_card(nvml_script, sampler):
    wraps = f"{2**32 - 1000} {2**32 - 500} 500"
    nvml_script(gpu("GPU-A", energy=wraps))
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(3))
    running.worker_started("cuda:0", "A")
    lines.wait_for(lambda known: len(known.of(SamplerStarted)) == 2)
    count = len(lines.of(Sample))
    lines.wait_for(samples_at_least(count + 1))
    assert [card["mapped_by"] for line in lines.of(SamplerStarted) for card in line.gpus] == ["pci id", "uuid"]
    assert lines.of(Sample)[-1].gpus[0].energy_mj == 2**32 + 500


def test_a_run_on_the_cpu_watches_no_card(nvml_script, sampler):
    nvml_script(gpu("GPU-A"))
    lines = Lines()
    running = sampler(lines, device="auto")
    lines.wait_for(samples_at_least(2))
    running.worker_started("cpu", None)
    lines.wait_for(lambda known: len(known.of(SamplerStarted)) == 2)
    assert lines.of(SamplerStarted)[1].no_gpu_reason == "the run is on the CPU"
    lines.wait_for(lambda known: known.all and isinstance(known.all[-1], Sample) and not known.all[-1].gpus)


def test_a_run_on_the_cpu_for_want_of_a_card_says_why_there_is_none(nvml_script, sampler):
    nvml_script(gpu("GPU-A"))
    lines = Lines()
    running = sampler(lines, device="auto", env={"CUDA_VISIBLE_DEVICES": ""})
    lines.wait_for(samples_at_least(2))
    running.worker_started("cpu", None)
    lines.wait_for(lambda known: len(known.of(SamplerStarted)) == 2)
    assert lines.of(SamplerStarted)[1].no_gpu_reason == "CUDA_VISIBLE_DEVICES hides all cards"


def test_hidden_cards_are_the_reason_for_none(nvml_script, sampler):
    nvml_script(gpu("GPU-A"))
    lines = Lines()
    sampler(lines, env={"CUDA_VISIBLE_DEVICES": ""})
    lines.wait_for(samples_at_least(1))
    assert lines.all[0].no_gpu_reason == "CUDA_VISIBLE_DEVICES hides all cards"


def test_a_driver_mismatch_is_one_sentence_and_the_host_is_sampled(nvml_script, sampler):
    nvml_script([f"error Init * {VERSION_MISMATCH}"])
    lines = Lines()
    sampler(lines)
    lines.wait_for(samples_at_least(3))
    assert lines.all[0].no_gpu_reason.endswith("; reboot")


def test_a_card_that_is_lost_from_the_20th_call_on_leaves_the_other_and_the_run(nvml_script, sampler):
    nvml_script(
        [
            *gpu("GPU-A", "00000000:05:00.0", "Big"),
            *gpu("GPU-B", "00000000:3B:00.0", "Small"),
            f"error * GPU-B {GPU_IS_LOST} 20",
        ]
    )
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(30))
    running.stop()
    last = {card.uuid: card for card in lines.of(Sample)[-1].gpus}
    assert (last["GPU-A"].lost, last["GPU-A"].gpu_busy_pct) == (False, 50)
    assert (last["GPU-B"].lost, last["GPU-B"].gpu_busy_pct) == (True, None)
    assert sum("GPU-B" in message or "Small" in message for message in running.notes) == 1


def test_a_failure_in_every_call_is_said_once_a_figure(nvml_script, sampler):
    nvml_script([*gpu("GPU-A"), f"error * GPU-A {UNKNOWN} 3"])
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(20))
    running.stop()
    assert len(running.notes) == len(set(running.notes))
    assert [note.message for note in lines.of(SamplerNote)] == list(running.notes)


def test_a_file_that_cannot_be_written_stops_nothing(no_nvml, sampler):
    tried = threading.Event()

    def full(line):
        tried.set()
        raise OSError(28, "No space left on device")

    running = sampler(full)
    assert tried.wait(60)
    assert running.stop()
    assert without_slowness(running.notes) == ["samples are not written: OSError: [Errno 28] No space left on device"]


def test_a_step_that_raises_is_a_note_said_once(no_nvml, sampler, monkeypatch):
    monkeypatch.setattr("gradscope.sampling.backoff.FIRST_NS", 0)
    lines = Lines()
    texts = iter(range(10_000))

    def broken():
        raise KeyError(next(texts))

    running = sampler(lines, step=broken)
    lines.wait_for(samples_at_least(3))
    running.stop()
    assert [sample.step for sample in lines.of(Sample)] == [None] * len(lines.of(Sample))
    assert without_slowness(running.notes) == ["the step: KeyError: 0"]


def test_a_wall_clock_that_jumps_changes_nothing(no_nvml, monkeypatch, sampler):
    lines = Lines()
    running = sampler(lines)
    lines.wait_for(samples_at_least(3))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    count = len(lines.of(Sample))
    lines.wait_for(samples_at_least(count + 3))
    running.stop()
    stamps = [sample.t_ns for sample in lines.of(Sample)]
    assert stamps == sorted(stamps)
    assert all(sample.interval_ms > 0 for sample in lines.of(Sample)[1:])


def test_stopping_a_sampler_that_never_started_is_harmless(tmp_path):
    assert Sampler(root_pid=os.getpid(), disk_path=tmp_path, emit=Lines()).stop()
