"""`gradscope sweep --estimate`, `--foretell`, `--skip-oom`: what is foretold, skipped, and told of it afterwards."""

import csv
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gradscope.analysis.grid_report import report
from gradscope.analysis.results import rows
from gradscope.config.grid import grid_cells
from gradscope.config.schema import Preset
from gradscope.core.estimate import Estimate
from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.export.report_tables import sections
from gradscope.launch.foretell import foretell
from gradscope.launch.plan import make_plan, with_foretold
from gradscope.rundir.cells import read_skips
from gradscope.rundir.layout import RUN_ID
from tests.command_line import gradscope
from tests.made_cells import made_run, write_grid

pytestmark = pytest.mark.usefixtures("own_folder")

MIB = 1 << 20

GRID = """
[run]
device = "cpu"
[sweep.axes]
"data.batch_size" = [10, 20, 40]
"""


class MadeUp:
    """Stands for the estimating process: a MiB a row; `refused` rows cannot be foretold."""

    asked: ClassVar[list[Preset]] = []
    refused = 0

    def __enter__(self) -> "MadeUp":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def estimate(self, preset: Preset) -> Estimate:
        self.asked.append(preset)
        if preset.data.batch_size == self.refused:
            raise GradscopeError("the optimizer decides by values [/red]")
        return Estimate(
            parameters_bytes=2 * MIB,
            buffers_bytes=0,
            gradients_bytes=2 * MIB,
            optimizer_state_bytes=0,
            inputs_bytes=0,
            saved_activations_bytes=MIB,
            peak_activations_bytes=MIB,
            at_peak_bytes={},
            peak_bytes=preset.data.batch_size * MIB,
            peak_phase="backward",
            phase_peak_bytes={},
            attention=[],
            device="cuda" if preset.run.device == "cuda" else "cpu",
        )


@pytest.fixture(autouse=True)
def estimator(monkeypatch: pytest.MonkeyPatch) -> type[MadeUp]:
    monkeypatch.setattr("gradscope.cli.sweep_estimate.Estimator", MadeUp)
    monkeypatch.setattr(MadeUp, "asked", [])
    monkeypatch.setattr(MadeUp, "refused", 0)
    return MadeUp


def runs_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if RUN_ID.match(path.name)]


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_every_cell_is_foretold_and_nothing_runs(tmp_path, capsys):
    write_grid(tmp_path, GRID)
    assert gradscope("sweep", "grid.toml", "--estimate", "--room", "20MiB") == 3
    out, err = capsys.readouterr()
    assert [line.split()[1:] for line in out.splitlines()[2:5]] == [
        ["10.0", "MiB", "backward", "fits", "data.batch_size=10"],
        ["20.0", "MiB", "backward", "fits", "data.batch_size=20"],
        ["40.0", "MiB", "backward", "DOES", "NOT", "FIT", "data.batch_size=40"],
    ]
    assert out.splitlines()[-1] == "2 of 3 cells fit into 20.0 MiB (given)"
    assert "estimating cell 1 of 3" in err
    assert not (tmp_path / "traces").exists()


def test_a_cell_that_cannot_be_foretold_is_said_and_the_others_are(tmp_path, capsys, estimator):
    write_grid(tmp_path, GRID)
    estimator.refused = 20
    assert gradscope("sweep", "grid.toml", "--estimate", "--room", "1GiB", "--json") == 1
    cells = said(capsys)["cells"]
    assert [cell["fits"] for cell in cells] == [True, None, True]
    assert [cell["error"] for cell in cells] == [None, "the optimizer decides by values [/red]", None]
    assert cells[2]["estimate"]["peak_bytes"] == 40 * MIB
    assert cells[2]["room_bytes"] == 1 << 30


def test_cells_that_differ_in_their_seed_are_foretold_once(tmp_path, estimator):
    preset = write_grid(tmp_path, GRID.replace("[sweep.axes]", "[sweep]\nrepeats = 3\n[sweep.axes]"))
    with estimator() as one:
        found = foretell(grid_cells(preset), one)
    assert (len(found), len(estimator.asked)) == (9, 3)


def test_cells_that_do_not_fit_are_skipped_and_no_failure(tmp_path, capsys):
    preset = write_grid(tmp_path, GRID)
    small, middle, large = grid_cells(preset)
    out = tmp_path / "traces"
    for cell in (small, middle):
        made_run(out, cell, Status.DONE)
    assert gradscope("sweep", "grid.toml", "--skip-oom", "--room", "30MiB", "--json") == 0
    found = said(capsys)
    assert found["counts"] == {"done": 2, "skipped": 1}
    assert not found["all_done"]
    last = next(cell for cell in found["cells"] if cell["cell"] == large.hash)
    reason = "foretold peak 40.0 MiB, room for 30.0 MiB (given)"
    assert last == {
        "cell": large.hash,
        "label": "data.batch_size=40",
        "status": "skipped",
        "run_id": None,
        "exit_code": None,
        "reason": reason,
        "foretold_peak_bytes": 40 * MIB,
        "room_bytes": 30 * MIB,
    }
    assert len(runs_in(out / "grid")) == 2
    with (out / "grid" / "results.csv").open() as file:
        line = list(csv.DictReader(file))[-1]
    assert (line["status"], line["reason"], line["run_id"]) == ("skipped", reason, "")
    assert (line["foretold_peak_bytes"], line["room_bytes"]) == (str(40 * MIB), str(30 * MIB))


def test_skipped_cells_are_in_the_report_with_both_numbers(tmp_path, capsys):
    preset = write_grid(tmp_path, GRID)
    out = tmp_path / "traces"
    made_run(out, grid_cells(preset)[0], Status.DONE)
    made_run(out, grid_cells(preset)[1], Status.DONE)
    assert gradscope("sweep", "grid.toml", "--skip-oom", "--room", "30MiB") == 0
    printed, noted = capsys.readouterr()
    assert printed.startswith("3 cells: 2 done, 1 skipped\n")
    assert "skipped  data.batch_size=40: foretold peak 40.0 MiB, room for 30.0 MiB (given)" in noted
    assert "are left" not in noted
    found = {part.code: part for part in sections(report("grid", rows(out, preset), preset))}
    assert list(found["trouble"].table.rows) == [["skipped", "40", "foretold peak 40.0 MiB, room for 30.0 MiB (given)"]]
    assert list(found["foretold"].table.rows) == [["40", "40.0 MiB", "skipped", ""]]
    assert gradscope("report", "grid.toml") == 0
    assert "1 skipped" in capsys.readouterr().out


def test_a_skipped_cell_is_judged_anew_and_a_result_outweighs_it(tmp_path, capsys):
    preset = write_grid(tmp_path, GRID)
    cells = grid_cells(preset)
    out = tmp_path / "traces"
    for cell in cells[:2]:
        made_run(out, cell, Status.DONE)
    assert gradscope("sweep", "grid.toml", "--skip-oom", "--room", "30MiB") == 0
    assert set(read_skips(out, "grid")) == {cells[2].hash}
    plan = make_plan(preset, out)
    assert [cell.hash for cell in plan.waiting] == [cells[2].hash]
    assert with_foretold(plan, foretell(plan.waiting, MadeUp()), skip=False).skipped == {}
    made_run(out, cells[2], Status.KILLED)
    assert rows(out, preset)[2].status == "skipped"
    made_run(out, cells[2], Status.OOM, at=10)
    assert rows(out, preset)[2].status == "oom"
    assert gradscope("sweep", "grid.toml", "--skip-oom", "--room", "30MiB") == 1
    assert "2 done, 1 oom" in capsys.readouterr().out


def test_nobody_knows_the_room_of_a_card_that_is_not_here(tmp_path):
    preset = write_grid(tmp_path, GRID.replace('"cpu"', '"cuda"'))
    found = foretell(grid_cells(preset), MadeUp())
    assert [one.fits for one in found.values()] == [None] * 3
    assert with_foretold(make_plan(preset, tmp_path), found, skip=True).skipped == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--estimate", "--dry-run"], "--dry-run estimates nothing"),
        (["--estimate", "--skip-oom"], "--estimate runs nothing"),
        (["--room", "1GiB"], "--room goes with"),
        (["--skip-oom", "--room", "plenty"], "'plenty' is no size"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, capsys, arguments, words):
    write_grid(tmp_path, GRID)
    assert gradscope("sweep", "grid.toml", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "traces").exists()
