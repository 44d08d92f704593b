"""`gradscope prune`: which runs go, which stay, what is asked, and what is said."""

import io
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradscope.cli.prune import Rule, select
from gradscope.core.status import Status
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir import remove
from gradscope.rundir.registry import all_runs
from tests.builders import preset_dict, run_directory
from tests.command_line import gradscope

pytestmark = pytest.mark.usefixtures("own_folder")

OUT = Path("traces")


def run_of(days_ago: float, number: int = 0, state: Status | str = Status.DONE, preset: str = "quick") -> Path:
    """Make a run that was started so long ago."""
    started = datetime.now(UTC) - timedelta(days=days_ago)
    run_id = f"{started:%Y%m%dT%H%M%SZ}-{number:06x}"
    return run_directory(OUT, state, preset=preset_dict(name=preset), run_id=run_id).absolute()


def paths() -> set[Path]:
    return {handle.path for handle in all_runs(OUT)}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Terminal:
    said = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", said)
    return said


def test_a_named_run_goes_and_its_path_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    gone, kept = run_of(1, 1), run_of(2, 2)
    assert gradscope("prune", "000001", "--yes") == 0
    said = capsys.readouterr()
    assert said.out == f"{gone}\n"
    assert said.err.startswith("deleted 1 run, ")
    assert paths() == {kept}


def test_an_age_chooses_what_was_started_longer_ago(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(31, 1)
    kept = run_of(29, 2)
    assert gradscope("prune", "--older-than", "30d", "--yes") == 0
    assert paths() == {kept}


def test_keep_counts_each_preset_for_itself() -> None:
    kept = {run_of(1, 1), run_of(2, 2), run_of(3, 3, preset="other")}
    run_of(4, 4)
    assert gradscope("prune", "--keep", "2", "--yes") == 0
    assert paths() == kept


def test_failed_leaves_done_and_unknown_ones() -> None:
    kept = {run_of(1, 1)}
    for number, state in enumerate((Status.FAILED, Status.OOM, Status.CANCELLED, Status.KILLED, "lost")):
        run_of(2, 16 + number, state)
    assert gradscope("prune", "--failed", "--yes") == 0
    assert paths() == kept


def test_all_of_several_rules_must_hold() -> None:
    kept = {run_of(9, 1, Status.FAILED), run_of(40, 2), run_of(1, 3), run_of(35, 5, Status.FAILED, preset="other")}
    run_of(50, 4, Status.FAILED)
    assert gradscope("prune", "--failed", "--older-than", "30d", "--keep", "1", "--yes") == 0
    assert paths() == kept


def test_statuses_are_not_read_for_nothing() -> None:
    run_of(1)
    [handle] = all_runs(OUT)
    handle.status = None  # type: ignore[method-assign, assignment]
    assert select([handle], Rule(keep=0), time.time_ns()) == [handle]


def test_running_ones_are_left_alone_by_rules_and_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    going, over = run_of(40, 1, Status.MEASURING), run_of(41, 2)
    assert gradscope("prune", "--older-than", "1d", "--dry-run") == 0
    said = capsys.readouterr()
    assert said.out == f"{over}\n"
    assert f"left alone: {going.name} is running" in said.err
    assert gradscope("prune", "000001", "000002", "--yes") == ExitCode.USAGE
    assert f"{going.name} is running" in capsys.readouterr().err
    assert paths() == {going, over}


def test_a_dry_run_lists_and_deletes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(40)
    assert gradscope("prune", "--keep", "0", "--dry-run") == 0
    said = capsys.readouterr()
    assert said.out == f"{run}\n"
    assert "STATUS" in said.err
    assert said.err.splitlines()[-1].startswith("1 run, ")
    assert said.err.endswith(": nothing was deleted\n")
    assert paths() == {run}


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 4, 1), ("\n", 4, 1)])
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: int) -> None:
    run_of(40)
    said = at_a_terminal(monkeypatch, answer)
    assert gradscope("prune", "--keep", "0") == code
    assert "delete 1 run, " in said.getvalue()
    assert len(paths()) == left


def test_without_a_terminal_nothing_goes_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(40)
    assert gradscope("prune", "--keep", "0") == ExitCode.USAGE
    assert "no terminal to ask in" in capsys.readouterr().err
    assert len(paths()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "which runs?"),
        (("last", "--failed"), "either name runs or give rules, not both"),
        (("--older-than", "30"), "--older-than '30' is no age"),
        (("--older-than", "soon"), "--older-than 'soon' is no age"),
        (("--older-than", "-3d"), "--older-than '-3d' is no age"),
        (("nothing",), "no run 'nothing' below traces"),
    ],
)
def test_what_makes_no_sense_is_told(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    run_of(40)
    assert gradscope("prune", *arguments) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith(f"gradscope: {message}")
    assert len(paths()) == 1


def test_nothing_to_delete_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("prune", "--failed", "--yes") == 0
    assert capsys.readouterr() == ("", "nothing to delete below traces\n")


def test_one_that_cannot_be_deleted_keeps_none_of_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, gone = run_of(1, 1), run_of(2, 2)
    really = os.rename

    def rename(path: Path, target: Path) -> Path:
        if path == stuck:
            raise PermissionError(13, "Permission denied")
        really(path, target)
        return target

    monkeypatch.setattr(Path, "rename", rename)
    assert gradscope("prune", "--keep", "0", "--yes") == ExitCode.ENVIRONMENT
    said = capsys.readouterr()
    assert said.out == f"{gone}\n"
    assert f"cannot delete {stuck.name}: Permission denied" in said.err
    assert paths() == {stuck}


def test_what_an_interrupted_deletion_left_goes_along() -> None:
    run = run_of(1, 1)
    left = run.with_name(f"{remove.ASIDE}{run.name}-01234567")
    left.mkdir()
    assert gradscope("prune", "last", "--yes") == 0
    assert not left.exists()


def test_a_run_is_deleted_once_however_often_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(1)
    assert gradscope("prune", "last", run.name, str(run), "--yes") == 0
    assert capsys.readouterr().out == f"{run}\n"


def test_named_ones_may_not_be_judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(1)
    monkeypatch.setattr("gradscope.cli.prune.why_not", lambda path: GradscopeError("not this one", "because"))
    assert gradscope("prune", run.name, "--yes") == ExitCode.USAGE
    assert capsys.readouterr().err == "gradscope: not this one\n  because\n"
