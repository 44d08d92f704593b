"""The exported tables of steps and samples: exact on a small run, and of runs that are empty or damaged."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from gradscope.core.events import Phases, Stage, Step
from gradscope.export.columns import STEP_COLUMNS, step_ends_ns
from gradscope.export.formats import FORMATS, csv_text, sample_frame, step_frame
from gradscope.export.gathered import gather
from gradscope.rundir.layout import EVENTS
from tests.builders import MONOTONIC_START_NS, RUN_ID, WALL_START_NS, finished_events, run_directory, sample

CARD = {
    "uuid": "GPU-1",
    "gpu_busy_pct": 80.0,
    "power_w": 250.0,
    "used_bytes": 1000,
    "energy_mj": 5000,
    "throttle": ["sw_power_cap"],
}
OTHER = {"uuid": "GPU-2", "gpu_busy_pct": 1.0}


def sampled_run(tmp_path: Path, **started: Any) -> Path:
    """4 measured steps end 10, 30, 60 and 100 ms after 2 s; samples at 20 and 40 ms, each of the 20 ms before it."""
    samples = [
        sample(2020, interval_ms=20, host={"tree_cpu_pct": 100.0, "worker_resident_bytes": 1000}, gpus=[CARD, OTHER]),
        sample(
            2040,
            interval_ms=20,
            host={"tree_cpu_pct": 200.0, "worker_resident_bytes": 3000},
            gpus=[CARD | {"energy_mj": 10_000, "throttle": []}, OTHER],
        ),
    ]
    card = {"device": "cuda:0", "device_uuid": "GPU-1"}
    return run_directory(tmp_path, events=finished_events(**(card | started)), samples=samples)


def measured(run_dir: Path) -> list[dict[str, Any]]:
    return step_frame(gather(run_dir)).filter(pl.col("stage") == "measure").to_dicts()


def test_a_row_holds_all_that_is_known_of_a_step(tmp_path: Path) -> None:
    second = measured(sampled_run(tmp_path))[1]
    assert {name: value for name, value in second.items() if value is not None} == {
        "run": RUN_ID,
        "seq": 8,
        "step": 4,
        "stage": "measure",
        "covers": 1,
        "t_ns": MONOTONIC_START_NS + 2_030_000_000,
        "wall_ms": 20.0,
        "loss": 3.0,
        "samples": 8,
        "tokens": 100,
        "evaluations": 1,
        "data_ms": 2.0,
        "h2d_ms": 0.0,
        "forward_ms": 6.0,
        "backward_ms": 8.0,
        "optimizer_ms": 3.0,
        "other_ms": 1.0,
        "end_t_ns": MONOTONIC_START_NS + 2_030_000_000,
        "end_unix_ns": WALL_START_NS + 2_030_000_000,
        "sampled": 2,
        "sample_shared": False,
        "cpu_pct": 150.0,  # 10 ms of each sample
        "resident_bytes": 2000,
        "gpu_busy_pct": 80.0,
        "gpu_used_bytes": 1000,
        "gpu_power_w": 250.0,
        "gpu_energy_j": 5.0,  # 250 W for 20 ms; the counter does not reach back to the step's start
        "gpu_throttle": ["sw_power_cap"],
    }


def test_samples_are_laid_over_each_step(tmp_path: Path) -> None:
    rows = measured(sampled_run(tmp_path))
    assert [row["sampled"] for row in rows] == [1, 2, 1, 0]
    assert [row["sample_shared"] for row in rows] == [True, False, False, None]
    assert [row["cpu_pct"] for row in rows] == [100.0, 150.0, 200.0, None]
    assert [row["gpu_throttle"] for row in rows] == [["sw_power_cap"], ["sw_power_cap"], [], None]
    assert [row["gpu_energy_j"] for row in rows] == [2.5, 5.0, None, None]


def test_a_run_on_the_cpu_has_no_figures_of_a_card(tmp_path: Path) -> None:
    rows = measured(sampled_run(tmp_path, device="cpu", device_uuid=None))
    assert {row[name] for row in rows for name in STEP_COLUMNS if name.startswith("gpu_")} == {None}
    assert rows[0]["cpu_pct"] == 100.0


def test_one_row_a_sample_and_card(tmp_path: Path) -> None:
    rows = sample_frame(gather(sampled_run(tmp_path))).to_dicts()
    assert [(row["tree_cpu_pct"], row["gpu_uuid"], row["gpu_energy_mj"]) for row in rows] == [
        (100.0, "GPU-1", 5000),
        (100.0, "GPU-2", None),
        (200.0, "GPU-1", 10_000),
        (200.0, "GPU-2", None),
    ]
    assert rows[0]["unix_ns"] == WALL_START_NS + 2_020_000_000


def test_a_sample_without_cards_is_a_row(tmp_path: Path) -> None:
    run = run_directory(tmp_path, samples=[sample(2020, host={"core_busy_pct": [1.0, 2.0]})])
    rows = sample_frame(gather(run)).to_dicts()
    assert [(row["core_busy_pct"], row["gpu_uuid"], row["gpu_lost"]) for row in rows] == [([1.0, 2.0], None, None)]


def recorded(t_ns: int, wall_ms: float, covers: int = 1) -> Step:
    phases = Phases(data=0, forward=0, backward=0, optimizer=0, other=wall_ms)
    return Step(
        seq=0,
        t_ns=t_ns,
        step=1,
        stage=Stage.MEASURE,
        wall_ms=wall_ms,
        phases=phases,
        loss=None,
        samples=1,
        covers=covers,
    )


def test_steps_recorded_together_ended_one_after_the_other() -> None:
    ms = 1_000_000
    group = [recorded(100 * ms, 10), recorded(100 * ms, 20), recorded(100 * ms, 30)]
    assert step_ends_ns([recorded(5 * ms, 5), *group]) == [5 * ms, 50 * ms, 70 * ms, 100 * ms]
    assert step_ends_ns([recorded(99 * ms, 1), recorded(100 * ms, 2, covers=10)]) == [80 * ms, 100 * ms]
    assert step_ends_ns([]) == []


@pytest.mark.parametrize("state", ["bare", "starting"])
def test_an_empty_run_has_all_columns_and_no_rows(tmp_path: Path, state: str) -> None:
    run, notes = run_directory(tmp_path, state), []
    paths = FORMATS["parquet"].write(run, tmp_path / "out", note=notes.append)
    frames = [pl.read_parquet(path) for path in paths]
    assert [frame.height for frame in frames] == [0, 0]
    assert frames[0].schema["gpu_throttle"] == pl.List(pl.String)
    assert frames[0].schema["step"] == pl.Int64
    assert notes[-1:] == ["the run has no steps: their table is empty"]
    assert csv_text(run).decode() == ",".join(STEP_COLUMNS) + "\n"


def test_csv_is_empty_where_nothing_was_measured(tmp_path: Path) -> None:
    events = finished_events(until=Stage.MEASURE)
    events[-1] = msgspec.structs.replace(events[-1], loss=None, nonfinite="nan", micro_ms=[1.5, 2.5])
    *_, before, last = csv.DictReader(io.StringIO(csv_text(run_directory(tmp_path, "lost", events=events)).decode()))
    assert (last["loss"], last["nonfinite"], last["micro_ms"], last["cpu_pct"]) == ("", "nan", "[1.5,2.5]", "")
    assert (before["loss"], before["nonfinite"], before["micro_ms"]) == ("2.5", "", "")


def test_what_is_no_record_or_no_number_is_left_out_and_said(tmp_path: Path) -> None:
    run, notes = run_directory(tmp_path), []
    text = (run / EVENTS).read_text().replace('"tokens":100', '"tokens":1' + "0" * 30)
    (run / EVENTS).write_text(text + '{"kind":"of another version"}\n{"kind":"st')
    FORMATS["csv"].write(run, tmp_path / "steps.csv", note=notes.append)
    rows = list(csv.DictReader((tmp_path / "steps.csv").open()))
    assert len(rows) == 9
    assert {row["tokens"] for row in rows} == {""}
    assert notes == ["1 line of the run's files could not be read and are left out"]


def test_records_read_twice_are_one_row(tmp_path: Path) -> None:
    run = gather(run_directory(tmp_path, events=[*finished_events(), *finished_events()]))
    assert step_frame(run).get_column("step").to_list() == list(range(1, 10))
    assert replace(run, events=[]).steps == []
