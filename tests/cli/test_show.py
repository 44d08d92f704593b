"""`gradscope show`: one run's numbers as text or JSON, whatever became of the run."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradscope.core.status import Status
from gradscope.rundir.layout import SUMMARY
from tests.builders import RUN_ID, run_directory
from tests.command_line import gradscope

pytestmark = pytest.mark.usefixtures("own_folder")


def shown_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert gradscope("show", *arguments, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_last_run_is_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_directory(tmp_path / "traces")
    assert gradscope("show") == 0
    said = capsys.readouterr()
    assert "4 steps measured after 2 of warm-up" in said.out
    assert said.err == ""


@pytest.mark.parametrize("name", ["last", RUN_ID, RUN_ID[:20], f"traces/quick/{RUN_ID}"])
def test_a_run_is_found_by_any_of_its_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    run_directory(tmp_path / "traces")
    assert shown_json(capsys, name)["run_id"] == RUN_ID


def test_json_says_null_for_what_was_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_directory(tmp_path / "traces")
    found = shown_json(capsys, "last")
    assert found["time"]["step_ms"]["median"] == 25
    assert found["utilization"]["gpu_busy_pct"] is None
    assert found["energy"]["joules"] is None


def test_a_running_run_is_shown_with_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = run_directory(tmp_path / "traces", Status.MEASURING)
    found = shown_json(capsys, "last")
    assert (found["status"], found["duration"]["measured_steps"]) == ("measuring", 4)
    assert not (run_dir / SUMMARY).exists()


def test_a_killed_and_a_copied_run_are_never_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed = run_directory(tmp_path / "a", "lost")
    copied = run_directory(tmp_path / "b", Status.MEASURING, elsewhere=True)
    assert shown_json(capsys, str(killed))["status"] == "killed"
    assert shown_json(capsys, str(copied))["status"] == "unknown"


def test_a_run_that_cannot_be_written_to_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = run_directory(tmp_path / "traces")
    before = sorted(run_dir.iterdir())
    shown_json(capsys, "last")
    assert sorted(run_dir.iterdir()) == before


def test_no_such_run_is_one_message_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_directory(tmp_path / "traces")
    assert gradscope("show", "20991231") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "no run '20991231'" in said.err


def test_an_error_message_writes_out_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("show", "last", "--out", "a\x1b[31m") == 2
    assert capsys.readouterr().err.splitlines()[0] == "gradscope: there is no run below a\\e[31m yet"
