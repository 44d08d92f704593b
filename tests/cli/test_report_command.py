"""`gradscope report` over made-up runs: what it finds, prints, writes, refuses and leaves with."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gradscope.config.convert import preset_to_dict
from gradscope.config.grid import GridCell, grid_cells
from gradscope.config.load import load_preset
from gradscope.core.status import Status
from gradscope.export.results import write_results
from gradscope.rundir.files import write_json
from gradscope.rundir.layout import SUMMARY
from tests.builders import run_directory
from tests.command_line import gradscope
from tests.made_summaries import made

pytestmark = pytest.mark.usefixtures("own_folder")

OUT = Path("traces")

PRESET = """
extends = "quick"
[sweep.axes]
"optimizer.name" = ["sgd", "adam"]
"memory.strategy" = ["standard", "checkpoint"]
[[claim]]
name = "time"
text = "checkpointing costs at most 30 %"
metric = "step_time_ms"
numerator = { "memory.strategy" = "checkpoint" }
denominator = { "memory.strategy" = "standard" }
at_most = 1.3
tolerance = 0.0
"""

STEPS_MS = {"standard": 100.0, "checkpoint": 200.0}


@pytest.fixture
def cells(own_folder: None) -> list[GridCell]:
    """The cells of a preset `small` in the current folder."""
    Path("presets").mkdir()
    Path("presets/small.toml").write_text(PRESET)
    return grid_cells(load_preset("small"))


def make(
    number: int, cell: GridCell, state: Status = Status.DONE, *, step_ms: float | None = None, **fields: Any
) -> Path:
    """A run of a cell, made in the second that its number says."""
    run_id = f"20270115T0800{number:02}Z-0000{number:02}"
    path = run_directory(OUT, state, run_id=run_id, preset=preset_to_dict(cell.preset), **fields)
    strategy, optimizer = cell.preset.memory.strategy, cell.preset.optimizer.name
    summary = made(
        run_id,
        step_ms or STEPS_MS[strategy],
        loss=2.0 if optimizer == "sgd" else 1.0,
        strategy=strategy,
        optimizer=optimizer,
        status=state,
    )
    write_json(path / SUMMARY, summary)
    return path


@pytest.fixture
def runs(cells: list[GridCell]) -> list[Path]:
    """A run of every cell: steps of 100 ms, of 200 ms under checkpointing; loss 2 with sgd and 1 with adam."""
    return [make(number, cell) for number, cell in enumerate(cells)]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert gradscope("report", *arguments) == code
    return capsys.readouterr().out


@pytest.mark.usefixtures("runs")
def test_a_report_of_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "small")
    assert text.startswith("small: 4 runs (2 optimizers x 2 strategies): 4 done\n")
    assert "adam standard" in text
    assert "claims: 1 refuted" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("how", ["presets/small.toml", "traces/small"])
@pytest.mark.usefixtures("runs")
def test_a_sweep_can_be_named_by_its_file_or_folder(capsys: pytest.CaptureFixture[str], how: str) -> None:
    assert printed(capsys, how) == printed(capsys, "small")


@pytest.mark.usefixtures("runs")
def test_a_folder_whose_preset_is_not_here_is_a_grid_of_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("presets/small.toml").unlink()
    text = printed(capsys, "traces/small")
    assert text.startswith("small: 4 runs (2 optimizers x 2 strategies): 4 done\n")
    assert "claims" not in text


def test_cells_without_a_run_are_told(cells: list[GridCell], capsys: pytest.CaptureFixture[str]) -> None:
    make(1, cells[0])
    make(2, cells[1], Status.OOM, reason="memory was full")
    assert gradscope("report", "small") == 0
    out, err = capsys.readouterr()
    assert "2 missing, 1 done, 1 oom" in out
    assert "memory was full" in out
    assert "2 of 4 cells have no run yet; `gradscope sweep small` makes them" in err
    assert "claims: 1 undecided" in out


def test_the_newest_run_of_a_cell_counts(cells: list[GridCell], capsys: pytest.CaptureFixture[str]) -> None:
    make(1, cells[0], Status.FAILED, reason="a bad day")
    make(2, cells[0], step_ms=50.0)
    row = json.loads(printed(capsys, "small", "--json"))["rows"][0]
    assert (row["run_id"], row["status"], row["step_time_ms"]) == ("20270115T080002Z-000002", "done", 50.0)


@pytest.mark.usefixtures("runs")
def test_json_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "small", "--json"))
    assert found["counts"] == {"done": 4}
    assert [axis["title"] for axis in found["axes"]] == ["optimizer", "strategy"]
    assert found["claims"][0]["verdict"] == "refuted"
    assert found["claims"][0]["figure"] == 2.0
    effect = next(one for one in found["effects"] if one["metric"] == "step_time_ms" and one["value"] == "checkpoint")
    assert (effect["pairs"], effect["ratio"]) == (2, pytest.approx(2.0))
    assert found["choices"][0]["contender"]["name"] == "adam standard"
    assert found["rows"][0]["optimizer.name"] == "sgd"
    assert len(found["rows"]) == 4


@pytest.mark.usefixtures("runs")
def test_markdown_and_csv_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "small", "--markdown").startswith("## small: 4 runs")
    lines = printed(capsys, "small", "--csv").splitlines()
    assert lines[:2] == ["metric,strategy,sgd,adam", "loss_last,standard,2.0,1.0"]


@pytest.mark.usefixtures("runs")
def test_cells_can_be_ranked_by_another_metric(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "small", "--json", "--metric", "peak_activations_bytes"))
    assert found["metric"] == "peak_activations_bytes"
    assert found["pivots"][0]["metric"] == "peak_activations_bytes"


@pytest.mark.usefixtures("runs")
def test_losses_are_read_at_equal_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "small", "--json", "--against", "seconds", "--against", "energy"))
    seconds, energy = found["equal"]
    assert seconds["spent"] == {"": pytest.approx(0.1)}  # the made-up records' four steps: 10 + 20 + 30 + 40 ms
    assert energy["spent"] == {}


@pytest.mark.usefixtures("runs")
def test_a_page_and_the_rows_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "small", "--html", "page.html", "--results", "rows.parquet") == ""
    assert "which to choose" in Path("page.html").read_text()
    assert pl.read_parquet("rows.parquet").height == 4
    assert gradscope("report", "small", "--html", "page.html") == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert printed(capsys, "small", "--html", "page.html", "--force", "--csv").startswith("metric,")


@pytest.mark.usefixtures("runs")
def test_a_sweeps_results_are_written_into_its_folder() -> None:
    written = write_results(OUT, load_preset("small"))
    assert [path.name for path in written] == ["results.csv", "results.parquet"]
    assert pl.read_csv(written[0])["cell"].to_list() == [cell.hash for cell in grid_cells(load_preset("small"))]


@pytest.mark.usefixtures("runs")
def test_a_refuted_claim_can_fail_a_build(capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "small", "--check-claims", code=5)
    printed(capsys, "small", code=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "nosuch"),
        (["quick"], "has no [sweep]"),
        (["."], "there is no run in the folder"),
        (["small", "--metric", "los_last"], "did you mean loss_last"),
        (["small", "--against", "money"], "step, samples, seconds, energy"),
        (["small", "--json", "--csv"], "several outputs"),
        (["small", "--html", "nowhere/page.html"], "there is no folder"),
    ],
)
@pytest.mark.usefixtures("cells")
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("report", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_metric_without_any_value_is_one_line(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("report", "small", "--metric", "energy_j") == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "--metric energy_j: it was not measured in any run of small" in said.err


def test_a_run_and_other_kinds_of_files_are_refused(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("report", str(runs[0])) == 2
    assert f"`gradscope show {runs[0]}` tells of it" in capsys.readouterr().err
    assert gradscope("report", "small", "--results", "x.xls") == 2
    assert "x.xls: the name has to end in .csv or .parquet" in capsys.readouterr().err
