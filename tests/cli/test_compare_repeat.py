"""`gradscope compare --repeat`: presets run in turn by the real supervisor, with made-up workers."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradscope.cli import compare_repeat
from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.launch.starts import Starts
from gradscope.rundir.registry import all_runs
from tests import fake_runs
from tests.command_line import gradscope


@pytest.fixture
def launched(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, float | None]]]:
    """Launch made-up workers instead; holds the seed and learning rate of each."""
    seen: list[tuple[int, float | None]] = []

    def launch(preset: Preset, *, out: Path, argv: Any, start: Any) -> Any:
        seen.append((preset.run.seed, preset.optimizer.lr))
        chosen = behaviour.pop(0) if len(behaviour) > 1 else behaviour[0]
        run = fake_runs.start(out, chosen)
        if chosen == "trains":
            fake_runs.wait_for_steps(run)
            os.kill(os.getpid(), signal.SIGINT)
        return run

    behaviour = ["finishes"]
    monkeypatch.setattr(compare_repeat, "launch", launch)
    monkeypatch.setattr(compare_repeat, "Starts", lambda: Starts(warm=False))
    monkeypatch.setattr(compare_repeat, "_behaviour", behaviour, raising=False)
    yield seen
    fake_runs.reap()


def test_runs_alternate_and_share_their_seeds(
    launched: list[tuple[int, float | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gradscope("compare", "quick", "--repeat", "2", "-s", "run.seed=3", "-b", "optimizer.lr=0.5", "--json") == 0
    assert launched == [(3, 0.001), (3, 0.5), (4, 0.5), (4, 0.001)]
    said = capsys.readouterr()
    assert "run 1 of 4: quick, seed 3" in said.err
    assert "run 3 of 4: quick optimizer.lr=0.5, seed 4" in said.err
    found = json.loads(said.out)
    assert [column["name"] for column in found["sides"]] == ["quick", "quick optimizer.lr=0.5"]
    assert found["pairing"][1] == "alternated"
    assert found["differences"]["step_time_ms"][1]["verdict"] == "undecided"
    assert len(all_runs(Path("traces"))) == 4


def test_a_run_that_fails_ends_it(launched: list[tuple[int, float | None]], capsys: pytest.CaptureFixture[str]) -> None:
    compare_repeat._behaviour[:] = ["finishes", "raises"]  # type: ignore[attr-defined]
    assert gradscope("compare", "quick", "quick", "--repeat", "5") == 1
    assert len(launched) == 2
    said = capsys.readouterr()
    assert "the comparison ends here" in said.err
    assert said.out == ""


def test_a_stop_compares_the_complete_rounds(
    launched: list[tuple[int, float | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    compare_repeat._behaviour[:] = ["finishes", "finishes", "finishes", "trains"]  # type: ignore[attr-defined]
    assert gradscope("compare", "quick", "quick", "--repeat", "5", "--json") == 128 + signal.SIGINT
    assert len(launched) == 4
    said = capsys.readouterr()
    assert "stopped; compared is what was made: 1 run a side" in said.err
    assert [len(column["runs"]) for column in json.loads(said.out)["sides"]] == [1, 1]
    assert {run.status().status for run in all_runs(Path("traces"))} == {Status.DONE, Status.CANCELLED}


def test_a_stop_before_the_first_round_is_complete_compares_nothing(
    launched: list[tuple[int, float | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    compare_repeat._behaviour[:] = ["finishes", "trains"]  # type: ignore[attr-defined]
    assert gradscope("compare", "quick", "quick", "--repeat", "5") == 128 + signal.SIGINT
    assert len(launched) == 2
    assert capsys.readouterr().out == ""


def test_the_order_goes_there_and_back() -> None:
    assert compare_repeat.order(2, 3) == [0, 1, 1, 0, 0, 1]
    assert compare_repeat.order(3, 2) == [0, 1, 2, 2, 1, 0]
