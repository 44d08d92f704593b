"""A summary's numbers, against values worked out by hand; only measured steps are in them."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from gradscope.analysis.cards import peak_flops_per_second
from gradscope.analysis.fold import fold
from gradscope.analysis.summary import compute, load_summary, summarise_run, update_trace_sizes
from gradscope.analysis.training import thinned
from gradscope.core.events import Note, Stage
from gradscope.core.metrics import metrics
from gradscope.core.status import Status
from gradscope.core.summary import Summary
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import EVENTS, STATUS, SUMMARY
from tests.builders import MIB, EventBuilder, as_plain, finished_events, preset_dict, run_directory, sample

UUID = "GPU-11111111-2222-3333-4444-555555555555"


def summary_of(tmp_path: Path, **arguments: object) -> Summary:
    return compute(RunHandle(run_directory(tmp_path, **arguments)))  # type: ignore[arg-type]


def test_only_measured_steps_are_counted(tmp_path: Path) -> None:
    done = summary_of(tmp_path).duration
    assert (done.warmup_steps, done.measured_steps, done.planned_steps, done.profiled_steps) == (2, 4, 4, 2)
    assert (done.samples, done.tokens, done.evaluations) == (32, 400, 4)
    assert done.measured_seconds == 0.1
    assert done.wall_seconds == 4.0
    assert done.first_step_ms == 100


def test_step_time_and_its_spread(tmp_path: Path) -> None:
    step = summary_of(tmp_path).time.step_ms
    assert step is not None
    assert (step.count, step.median, step.mean, step.minimum, step.maximum) == (4, 25, 25, 10, 40)
    assert step.p95 == pytest.approx(38.5)
    assert step.iqr == 15


def test_profiled_steps_are_timed_apart_window_by_window(tmp_path: Path) -> None:
    summary = summary_of(tmp_path)
    assert summary.time.step_ms is not None
    assert summary.time.step_ms.median == 25
    [window] = summary.windows
    assert window.step_ms is not None
    assert (window.first_step, window.steps, window.step_ms.count, window.step_ms.median) == (8, 2, 2, 300)


def test_rates_are_all_items_over_all_seconds(tmp_path: Path) -> None:
    time = summary_of(tmp_path).time
    assert time.samples_per_second == pytest.approx(320)  # the mean of the four steps' own rates would be 416.7
    assert time.tokens_per_second == pytest.approx(4000)
    assert time.steps_per_second == pytest.approx(40)


def test_rates_come_from_the_steps_where_the_run_wrote_no_totals(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, state="lost")
    assert summary.time.samples_per_second == pytest.approx(320)
    assert summary.time.instrumentation_share is None


def test_phases_have_medians_and_shares_of_all_time(tmp_path: Path) -> None:
    time = summary_of(tmp_path).time
    assert time.phase_share == pytest.approx(
        {"data": 0.1, "h2d": 0, "forward": 0.3, "backward": 0.4, "optimizer": 0.15, "other": 0.05}
    )
    assert time.phase_ms["backward"].median == pytest.approx(10)
    assert "recompute" not in time.phase_ms


def test_instrumentation_is_a_share_of_measured_time(tmp_path: Path) -> None:
    time = summary_of(tmp_path).time
    assert time.instrumentation_ms == 0.5
    assert time.instrumentation_share == pytest.approx(0.005)


def test_loss_is_of_measured_steps(tmp_path: Path) -> None:
    loss = summary_of(tmp_path).loss
    assert (loss.first, loss.last, loss.minimum) == (4.0, 2.0, 2.0)
    assert loss.curve == [(3, 4.0), (4, 3.0), (5, 2.5), (6, 2.0)]


def test_a_loss_that_is_no_number_is_none_and_counted(tmp_path: Path) -> None:
    log = EventBuilder()
    log.stage(Stage.MEASURE)
    log.step(Stage.MEASURE, 10, loss=3.0)
    log.step(Stage.MEASURE, 10, loss=None)  # no row had a label: passed over
    log.step(Stage.MEASURE, 10, loss=None, nonfinite="nan")
    loss = summary_of(tmp_path, events=log.events).loss
    assert (loss.first, loss.last, loss.minimum, loss.nonfinite_steps) == (3.0, None, 3.0, 1)
    assert loss.curve == [(1, 3.0), (3, None)]


def test_a_thinned_record_stands_for_the_steps_it_covers(tmp_path: Path) -> None:
    log = EventBuilder()
    log.stage(Stage.MEASURE)
    log.step(Stage.MEASURE, 10)
    log.step(Stage.MEASURE, 20, covers=10)
    summary = summary_of(tmp_path, events=log.events)
    assert (summary.duration.measured_steps, summary.duration.samples) == (11, 88)
    assert summary.duration.measured_seconds == pytest.approx(0.21)
    assert summary.time.step_ms is not None
    assert (summary.time.step_ms.count, summary.time.step_ms.median) == (11, 20)


def test_curves_are_thinned_evenly_and_keep_their_ends() -> None:
    log = EventBuilder()
    for _ in range(10_001):
        log.step(Stage.MEASURE, 1)
    kept = [step.step for step in thinned(fold(log.events).measured, 2000)]
    assert (len(kept), kept[0], kept[-1]) == (2000, 1, 10_001)
    assert {later - earlier for earlier, later in pairwise(kept)} == {5, 6}


def test_memory_is_the_largest_measured_of_each_category(tmp_path: Path) -> None:
    memory = summary_of(tmp_path).memory
    assert memory.parameters_bytes == 4000
    assert memory.optimizer_state_bytes == 8000
    assert (memory.saved_activations_bytes, memory.peak_activations_bytes) == (6000, 7000)
    assert memory.categories_step == 2
    assert list(memory.phase_peak_bytes.items()) == [("forward", 18_500), ("backward", 23_440), ("optimizer", 16_500)]
    assert (memory.allocated_peak_bytes, memory.allocated_peak_source) == (23_440, "one memory step")
    assert memory.device_used_peak_bytes is None


def test_on_a_card_the_peak_is_that_of_measured_steps(tmp_path: Path) -> None:
    log = EventBuilder()
    log.stage(Stage.WARMUP)
    log.step(Stage.WARMUP, 10, allocated_peak_bytes=999)
    log.stage(Stage.MEASURE)
    log.step(Stage.MEASURE, 10, allocated_peak_bytes=500, reserved_bytes=800)
    log.step(Stage.MEASURE, 10, allocated_peak_bytes=600, reserved_bytes=700)
    memory = summary_of(tmp_path, events=log.events).memory
    assert (memory.allocated_peak_bytes, memory.allocated_peak_source) == (600, "measured steps")
    assert memory.reserved_peak_bytes == 800


def test_resident_memory_is_growth_since_the_workers_start_in_measured_steps(tmp_path: Path) -> None:
    samples = [
        sample(1500, host={"worker_resident_bytes": 900 * MIB}),  # warm-up
        sample(2050, host={"worker_resident_bytes": 300 * MIB}),
        sample(2090, host={"worker_resident_bytes": 320 * MIB}),
        sample(2700, host={"worker_resident_bytes": 800 * MIB}),  # under the profiler
    ]
    assert summary_of(tmp_path, samples=samples).memory.resident_growth_bytes == 120 * MIB


def cuda_events() -> list[object]:
    return finished_events(device="cuda:0", device_name="NVIDIA H200", device_uuid=UUID.removeprefix("GPU-"))


def test_load_is_weighted_by_the_part_of_an_interval_that_is_measured(tmp_path: Path) -> None:
    gpus = [
        sample(1990, interval_ms=100, gpus=[{"uuid": UUID, "gpu_busy_pct": 1.0}]),
        sample(2040, interval_ms=50, gpus=[{"uuid": UUID, "gpu_busy_pct": 50.0}]),  # 40 of 50 ms are measured
        sample(2100, interval_ms=60, gpus=[{"uuid": UUID, "gpu_busy_pct": 100.0}]),
        sample(2600, interval_ms=500, gpus=[{"uuid": UUID, "gpu_busy_pct": 7.0}]),
    ]
    use = summary_of(tmp_path, events=cuda_events(), samples=gpus).utilization
    assert use.gpu_busy_pct is not None
    assert use.gpu_busy_pct.mean == pytest.approx((50 * 40 + 100 * 60) / 100)
    assert (use.gpu_busy_pct.p5, use.gpu_busy_pct.p95, use.gpu_busy_pct.samples) == (52.5, 97.5, 2)
    assert use.memory_busy_pct is None
    assert use.steps_shorter_than_a_sample is True


def test_one_sample_within_has_a_mean_and_no_spread(tmp_path: Path) -> None:
    samples = [
        sample(2020, interval_ms=100, host={"tree_cpu_pct": 40.0}),  # 20 of 100 ms are measured
        sample(2120, interval_ms=100, host={"tree_cpu_pct": 80.0}),  # 80 of 100 ms, taken after the last step
    ]
    cpu = summary_of(tmp_path, samples=samples).utilization.cpu_pct
    assert cpu is not None
    assert cpu.mean == pytest.approx((40 * 20 + 80 * 80) / 100)
    assert (cpu.p5, cpu.p95, cpu.samples) == (None, None, 1)


def test_a_neighbours_card_and_a_cpu_run_give_no_figure(tmp_path: Path) -> None:
    busy = [
        sample(2050, gpus=[{"uuid": "GPU-other", "gpu_busy_pct": 90.0}, {"uuid": "GPU-third", "gpu_busy_pct": 80.0}]),
    ]
    assert summary_of(tmp_path / "a", events=cuda_events(), samples=busy).utilization.gpu_busy_pct is None
    only = [sample(2050, gpus=[{"uuid": UUID, "gpu_busy_pct": 90.0}])]
    assert summary_of(tmp_path / "b", samples=only).utilization.gpu_busy_pct is None


def test_energy_is_the_counters_difference_over_the_measured_steps(tmp_path: Path) -> None:
    # 2 W = 2 mJ/ms all the time: 200 mJ in the 100 measured ms
    samples = [sample(at, gpus=[{"uuid": UUID, "energy_mj": 2 * at}]) for at in (1950, 2050, 2150)]
    energy = summary_of(tmp_path, events=cuda_events(), samples=samples).energy
    assert energy.joules == pytest.approx(0.2)
    assert energy.joules_per_step == pytest.approx(0.05)
    assert energy.joules_per_sample == pytest.approx(0.2 / 32)
    assert energy.source == "counter"


def test_energy_is_the_integral_of_power_without_a_counter_and_none_without_either(tmp_path: Path) -> None:
    powered = [sample(at, interval_ms=50, gpus=[{"uuid": UUID, "power_w": 300.0}]) for at in (2000, 2050, 2100)]
    energy = summary_of(tmp_path / "a", events=cuda_events(), samples=powered).energy
    assert (energy.joules, energy.source) == (pytest.approx(30.0), "power integral")
    assert energy.power_w is not None
    assert energy.power_w.mean == 300
    gap = summary_of(tmp_path / "b", events=cuda_events(), samples=powered[:2]).energy
    assert (gap.joules, gap.source) == (None, None)


def test_flops_are_a_rate_and_a_share_of_the_cards_peak(tmp_path: Path) -> None:
    flops = summary_of(tmp_path, events=cuda_events()).flops
    assert (flops.model, flops.executed) == (1_000_000, 1_300_000)
    assert flops.model_per_second == pytest.approx(40e6)
    assert flops.peak_per_second == 67e12
    assert flops.share_of_peak == pytest.approx(40e6 / 67e12)


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("NVIDIA H200", "bf16", 989.5e12),
        ("NVIDIA H100 80GB HBM3", "fp32", 67e12),
        ("NVIDIA H100 PCIe", "bf16", 756.5e12),
        ("NVIDIA A100-SXM4-80GB", "fp16", 312e12),
        ("NVIDIA L40S", "fp32", 91.6e12),
        ("NVIDIA L4", "fp32", 30.3e12),
        ("NVIDIA GeForce RTX 4090", "bf16", 165.2e12),
        ("Tesla T4", "bf16", None),
        ("NVIDIA A1000", "fp32", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "fp32", None),
        ("AMD EPYC", "fp32", None),
        (None, "fp32", None),
    ],
)
def test_the_peak_is_that_of_the_very_card(name: str | None, precision: str, peak: float | None) -> None:
    assert peak_flops_per_second(name, precision) == peak


def test_identity_is_what_was_built_and_what_the_preset_says(tmp_path: Path) -> None:
    who = summary_of(tmp_path).identity
    assert (who.preset, who.model, who.scale, who.optimizer, who.learning_rate) == (
        "quick",
        "vit",
        "tiny",
        "adam",
        0.001,
    )
    assert (who.micro_steps, who.batch_rows, who.precision, who.seed, who.device) == (1, 8, "fp32", 7, "cpu")
    assert who.accumulation_mode is None


def test_a_preset_of_another_version_is_read_leniently(tmp_path: Path) -> None:
    preset = preset_dict(model="all of it", run={"precision": "fp8", "wings": 2})
    who = summary_of(tmp_path, preset=preset).identity
    assert (who.scale, who.precision) == (None, "fp8")


def test_remarks_come_from_worker_sampler_and_supervisor(tmp_path: Path) -> None:
    log = EventBuilder()
    log.emit(Note, code="nonfinite_loss", message="the loss is nan at step 3", step=3)
    remarks = summary_of(tmp_path, events=log.events).remarks
    assert [(remark.code, remark.step) for remark in remarks] == [("nonfinite_loss", 3)]


@pytest.mark.parametrize("state", [*Status, "lost", "bare"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_every_state_of_a_run_has_a_summary(tmp_path: Path, state: Status | str, elsewhere: bool) -> None:
    summary = load_summary(run_directory(tmp_path, state, elsewhere=elsewhere))
    assert as_plain(summary)["run_id"] == summary.run_id
    assert set(metrics(summary)) >= {"loss_last", "step_time_ms", "peak_memory_bytes", "gpu_busy_pct"}


def test_a_run_from_another_machine_is_never_running(tmp_path: Path) -> None:
    assert load_summary(run_directory(tmp_path, Status.MEASURING, elsewhere=True)).status is Status.UNKNOWN
    assert load_summary(run_directory(tmp_path / "own", "lost")).status is Status.KILLED


def test_the_summary_is_written_and_read_back_as_it_was(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path)
    written = summarise_run(run_dir)
    assert read_json(run_dir / SUMMARY, Summary) == written
    assert load_summary(run_dir) == written


def test_a_kept_summary_takes_its_status_from_the_verdict(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, Status.OOM, reason="CUDA out of memory")
    done = compute(RunHandle(run_dir), RunHandle(run_directory(tmp_path / "other")).status())
    assert done.status is Status.DONE
    summarise_run(run_dir, RunHandle(run_directory(tmp_path / "third")).status())
    loaded = load_summary(run_dir)
    assert (loaded.status, loaded.reason, loaded.exit_code) == (Status.OOM, "CUDA out of memory", 3)


def test_what_was_noted_after_the_summary_was_written_is_shown_with_it(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path)
    status = RunHandle(run_dir).status()
    write_json(run_dir / STATUS, msgspec.structs.replace(status, notes=("early",)))
    summarise_run(run_dir)
    write_json(run_dir / STATUS, msgspec.structs.replace(status, notes=("early", "TensorBoard's files are missing")))
    remarks = load_summary(run_dir).remarks
    assert [remark.message for remark in remarks] == ["early", "TensorBoard's files are missing"]


def test_damaged_files_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path)
    (run_dir / SUMMARY).write_text('{"schema": 1, "run')
    assert load_summary(run_dir).duration.measured_steps == 4
    (run_dir / EVENTS).write_bytes(b"\x00\xff not json\n" * 5)
    assert load_summary(run_dir).duration.measured_steps == 0


def test_a_traces_size_is_that_on_disk_also_in_the_file_once_it_was_enriched(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, events=finished_events(trace="w1.1.pt.trace.json.gz"))
    trace = run_dir / "w1.1.pt.trace.json.gz"
    trace.write_bytes(b"x" * 1234)
    summarise_run(run_dir)
    trace.write_bytes(b"x" * 4321)
    assert load_summary(run_dir).windows[0].file_bytes == 4321
    update_trace_sizes(run_dir)
    kept = read_json(run_dir / SUMMARY, Summary)
    assert kept is not None
    assert kept.windows[0].file_bytes == 4321
    trace.unlink()
    assert load_summary(run_dir).windows[0].file_bytes is None
