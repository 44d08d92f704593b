"""What TensorBoard will find in a run's file, read back with tensorboard's own reader."""

from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams import metadata as hparams_metadata

from gradscope.analysis.summary import load_summary, summarise_run
from gradscope.core.metrics import METRICS
from gradscope.core.status import Status
from gradscope.export import tensorboard
from gradscope.export.tensorboard import write_run
from tests.builders import MIB, WALL_START_NS, finished_events, run_directory, sample


def events_of(path: Path) -> list[Any]:
    return list(LegacyEventFileLoader(str(path)).Load())


def scalars_of(path: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events_of(path):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def written(run_dir: Path) -> Path:
    summarise_run(run_dir)
    path = write_run(run_dir)
    assert path is not None
    return path


def test_measured_steps_are_scalars_at_their_step(tmp_path: Path) -> None:
    scalars = scalars_of(written(run_directory(tmp_path)))
    assert scalars["loss/loss"] == [(3, 4.0), (4, 3.0), (5, 2.5), (6, 2.0)]
    assert scalars["time/step_ms"] == [(3, 10), (4, 20), (5, 30), (6, 40)]
    assert scalars["time/backward_ms"] == [(3, 4), (4, 8), (5, 12), (6, 16)]
    assert scalars["throughput/samples_per_s"][0] == (3, 800)
    assert "time/recompute_ms" not in scalars


def test_other_steps_are_apart(tmp_path: Path) -> None:
    scalars = scalars_of(written(run_directory(tmp_path)))
    excluded = {tag: [step for step, _ in points] for tag, points in scalars.items() if tag.startswith("excluded/")}
    assert excluded == {
        "excluded/warmup_loss": [1, 2],
        "excluded/warmup_step_ms": [1, 2],
        "excluded/memory_loss": [7],
        "excluded/memory_step_ms": [7],
        "excluded/profile_loss": [8, 9],
        "excluded/profile_step_ms": [8, 9],
    }


def test_memory_by_category_is_one_point_where_it_was_measured(tmp_path: Path) -> None:
    scalars = scalars_of(written(run_directory(tmp_path)))
    assert scalars["memory/parameters_mib"] == [(2, pytest.approx(4000 / MIB))]
    assert scalars["memory/peak_activations_mib"] == [(7, pytest.approx(7000 / MIB))]
    assert scalars["memory/backward_peak_mib"] == [(7, pytest.approx(23_440 / MIB))]


def test_samples_are_means_at_the_measured_step_they_were_taken_in(tmp_path: Path) -> None:
    def at(step: int | None, cpu: float) -> Any:
        from msgspec.structs import replace

        gpu = {"uuid": "GPU-1", "power_w": cpu * 2}
        return replace(sample(2050, host={"tree_cpu_pct": cpu}, gpus=[gpu]), step=step)

    samples = [at(2, 1.0), at(4, 100.0), at(4, 200.0), at(8, 5.0), at(None, 7.0)]
    scalars = scalars_of(written(run_directory(tmp_path, samples=samples)))
    assert scalars["utilization/cpu_pct"] == [(4, 150.0)]
    assert scalars["power/power_w"] == [(4, 300.0)]
    assert "utilization/gpu_busy_pct" not in scalars


def test_wall_times_come_from_the_clock_pair(tmp_path: Path) -> None:
    events = events_of(written(run_directory(tmp_path)))
    by_step = {
        event.step: event.wall_time for event in events for value in event.summary.value if value.tag == "time/step_ms"
    }
    assert by_step[3] == pytest.approx(WALL_START_NS / 1e9 + 2.010, abs=1e-6)


def test_hyperparameters_and_metrics_are_there(tmp_path: Path) -> None:
    path = written(run_directory(tmp_path))
    content = {value.tag: value.metadata for event in events_of(path) for value in event.summary.value}
    start = hparams_metadata.parse_session_start_info_plugin_data(
        content[hparams_metadata.SESSION_START_INFO_TAG].plugin_data.content
    )
    hparams = {
        name: value.WhichOneof("kind") and (value.string_value or value.number_value or value.bool_value)
        for name, value in start.hparams.items()
    }
    assert hparams == {
        "preset": "quick",
        "model": "vit",
        "scale": "tiny",
        "optimizer": "adam",
        "lr": 0.001,
        "strategy": "standard",
        "k": 1.0,
        "batch": 8.0,
        "precision": "fp32",
        "compile": False,
        "threads": 2.0,
        "seed": 7.0,
        "device": "Test CPU",
    }
    experiment = hparams_metadata.parse_experiment_plugin_data(
        content[hparams_metadata.EXPERIMENT_TAG].plugin_data.content
    )
    assert len(experiment.metric_infos) == len(METRICS)
    scalars = scalars_of(path)
    assert scalars["metrics/step_time_ms"] == [(4, 25.0)]
    assert scalars["metrics/peak_memory_mib"] == [(4, pytest.approx(23_440 / MIB))]
    assert scalars["metrics/samples_per_s"] == [(4, pytest.approx(320.0))]
    assert "metrics/power_w" not in scalars  # not measured is absent, not 0


def test_the_preset_is_a_text(tmp_path: Path) -> None:
    path = written(run_directory(tmp_path))
    texts = [value for event in events_of(path) for value in event.summary.value if value.tag == "preset"]
    assert len(texts) == 1
    markdown = texts[0].tensor.string_val[0].decode()
    assert markdown.startswith("`gradscope run quick`")
    assert '[optimizer]\nname = "adam"\nlr = 0.001' in markdown


def test_exporting_again_replaces_its_own_file_and_no_other(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path)
    other = run_dir / "events.out.tfevents.123.somebody"
    other.write_bytes(b"theirs")
    first = written(run_dir)
    content = first.read_bytes()
    assert written(run_dir) == first
    assert first.read_bytes() == content
    assert other.read_bytes() == b"theirs"
    assert sum("tfevents" in path.name for path in run_dir.iterdir()) == 2


def test_a_failed_export_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = run_directory(tmp_path)
    content = written(run_dir).read_bytes()
    before = sorted(path.name for path in run_dir.iterdir())

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensorboard.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_run(run_dir)
    assert sorted(path.name for path in run_dir.iterdir()) == before
    assert next(run_dir.glob("*tfevents*")).read_bytes() == content


@pytest.mark.parametrize("state", [*Status, "lost", "bare"])
def test_every_state_of_a_run_can_be_exported(tmp_path: Path, state: Status | str) -> None:
    run_dir = run_directory(tmp_path, state)
    path = write_run(run_dir)  # without a summary
    assert (path is None) == (state in ("bare", Status.STARTING))
    if path is not None:
        assert not any(tag.startswith("metrics/") for tag in scalars_of(path))


def test_very_many_steps_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "STEPS_SHOWN", 4)
    path = write_run(run_directory(tmp_path, events=finished_events()))
    assert path is not None
    scalars = scalars_of(path)
    assert sum(len(points) for tag, points in scalars.items() if tag.endswith("step_ms")) == 3


def test_a_run_that_goes_on_is_written_elsewhere_with_the_metrics_of_now(tmp_path: Path) -> None:
    run = run_directory(tmp_path, Status.MEASURING)
    (tmp_path / "logs").mkdir()
    path = write_run(run, tmp_path / "logs", load_summary(run))
    assert path is not None
    assert path.parent == tmp_path / "logs"
    assert scalars_of(path)["metrics/step_time_ms"] == [(4, 25.0)]
    assert list(run.glob("events.out*")) == []
