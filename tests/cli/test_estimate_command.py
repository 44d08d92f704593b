"""`gradscope run --estimate`, `--find-batch`, `--foretell`: what is printed, and what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gradscope.analysis.summary import load_summary
from gradscope.config.load import load_preset
from gradscope.core.estimate import CATEGORIES, Estimate
from gradscope.errors import GradscopeError
from gradscope.launch.estimate import Estimator
from gradscope.rundir.registry import all_runs
from tests.command_line import gradscope

ROOT = Path(__file__).parents[2]
TINY = ["-s", f"model.name=py:{ROOT}/tests/user_models.py:tiny", "-s", "optimizer.name=adam"]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def elsewhere(own_folder: None) -> None:
    pass


class MadeUp:
    """Stands for the estimating process: a MiB a row."""

    def __enter__(self) -> "MadeUp":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def estimate(self, preset: Any) -> Estimate:
        peak = preset.data.batch_size * MIB
        parts = {"parameters": 2 * MIB, "gradients": 0, "buffers": 0, "optimizer": 0, "inputs": 0, "workspace": 0}
        return Estimate(
            parameters_bytes=2 * MIB,
            buffers_bytes=0,
            gradients_bytes=2 * MIB,
            optimizer_state_bytes=0,
            inputs_bytes=0,
            saved_activations_bytes=MIB,
            peak_activations_bytes=3 * MIB,
            at_peak_bytes=parts | {"activations": peak - 2 * MIB},
            peak_bytes=peak,
            peak_phase="backward",
            phase_peak_bytes={"backward": peak, "forward": MIB},
            attention=["scaled_dot_product_flash_attention_for_cpu"],
            device="cuda" if preset.run.device == "cuda" else "cpu",
            notes=["something [/red] was assumed"],
        )


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.cli.look_ahead.Estimator", MadeUp)


def test_an_estimate_runs_nothing_and_is_json_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("run", "quick", *TINY, "--estimate", "--json", "--room", "1KiB") == 3
    [line] = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["preset"] == "quick"
    assert found["parameters_bytes"] == 16_900
    assert set(found["at_peak_bytes"]) == set(CATEGORIES)
    assert (found["room_bytes"], found["fits"]) == (1024, False)
    assert not (tmp_path / "traces").exists()


@pytest.mark.usefixtures("made_up")
def test_the_table_names_categories_kernel_room_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("run", "quick", "--estimate", "--room", "20MiB", "-s", "data.batch_size=10") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "quick, foretold for cpu: peak 10.0 MiB in backward (standard, adam, 10 rows)"
    assert ["activations", "8.00", "MiB", "80.0", "%"] in [line.split() for line in out.splitlines()]
    assert "attention      scaled_dot_product_flash_attention_for_cpu" in out
    assert "room           fits into 20.0 MiB (given)" in out
    assert "note           something [/red] was assumed" in out


@pytest.mark.usefixtures("made_up")
def test_the_largest_batches_are_listed_by_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("run", "quick", "--find-batch", "--estimate", "--room", "100MiB", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["strategy"], one["batch_size"], one["trials"]) for one in found] == [
        ("standard", 100, 0),
        ("checkpoint", 100, 0),
        ("accumulate", 100, 0),
        ("checkpoint-accumulate", 100, 0),
    ]


@pytest.mark.usefixtures("made_up")
def test_where_nothing_fits_the_exit_code_is_that_of_no_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("run", "quick", "--find-batch", "--room", "1KiB") == 3
    assert "not even data.batch_size = 1 fits" in capsys.readouterr().out


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--estimate", "--room", "plenty"], 2, "'plenty' is no size"),
        (["--room", "1GiB"], 2, "--room goes with"),
        (["--find-batch", "-s", "run.device=cuda"], 6, "say it with --room"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gradscope("run", "quick", *arguments) == code
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("made_up")
def test_an_estimate_for_a_card_that_is_not_here_knows_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("run", "quick", "--estimate", "--json", "-s", "run.device=cuda") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["device"], found["room_bytes"], found["fits"]) == ("cuda", None, None)


def test_one_process_answers_several_presets_and_lives_through_a_refusal() -> None:
    with Estimator() as estimator:
        with pytest.raises(GradscopeError, match="does not fit this model"):
            estimator.estimate(load_preset("quick", [f"model.name=py:{ROOT}/tests/user_models.py:raising_factory"]))
        one, more = (
            estimator.estimate(load_preset("quick", [TINY[1], f"data.batch_size={rows}"])).peak_bytes
            for rows in (64, 128)
        )
    assert one < more < 2 * one


def test_a_process_that_dies_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.launch.estimate.COMMAND", ["-c", "import sys; sys.exit('no torch here')"])
    with Estimator() as estimator, pytest.raises(GradscopeError, match="no torch here"):
        estimator.estimate(load_preset("quick", []))


def test_a_foretold_run_has_both_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["budget.updates=1", "run.warmup=1", "run.threads=1", "profile.steps=0", "audit.enabled=false"]
    settings = [word for one in short for word in ("-s", one)]
    assert gradscope("run", "quick", *TINY, *settings, "-s", "data.batch_size=512", "--foretell") == 0
    [run] = all_runs(tmp_path / "traces")
    memory = load_summary(run.path).memory
    assert memory.foretold_peak_bytes is not None
    assert memory.foretold_peak_bytes == pytest.approx(memory.allocated_peak_bytes, rel=0.05)
    assert "of the measured peak" in capsys.readouterr().out
    assert msgspec.json.decode((run.path / "manifest.json").read_bytes())["foretold_peak_bytes"] > 0
