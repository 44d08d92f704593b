"""Folders that this user may not read: said on every screen, and nothing ends."""

from pathlib import Path

import pytest
from builders import RUN_ID, run_directory
from closed_folder import close_folder
from shown_app import make_context
from textual.pilot import Pilot

from gradscope.analysis.run_list import RunList
from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.rundir.layout import create_run_directory
from gradscope.rundir.registry import all_runs
from gradscope.tui.app import GradscopeApp
from gradscope.tui.home.launching import settings_of_run
from gradscope.tui.home.reader import HomeReader
from gradscope.tui.results.report import read_report
from gradscope.tui.runs.reader import RunsReader
from gradscope.tui.screens.home import HomeScreen
from gradscope.tui.screens.results import ResultsScreen
from gradscope.tui.screens.runs import RunsScreen


def picture(pilot: Pilot[None]) -> str:
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


async def settled(pilot: Pilot[None]) -> None:
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def test_a_closed_run_is_listed_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_directory(tmp_path)
    close_folder(monkeypatch, path)
    (run,) = RunList(tmp_path).read(10).runs
    assert (run.row.run_id, run.row.status, run.reason) == (RUN_ID, Status.UNKNOWN, "cannot be read: Permission denied")
    assert all_runs(tmp_path) == []  # commands act on runs that can be read


async def test_results_of_a_closed_run_stay_open_and_say_why(show, tmp_path, monkeypatch):
    path = run_directory(tmp_path / "traces")
    close_folder(monkeypatch, path)
    async with show(ResultsScreen(path)) as pilot:
        await settled(pilot)
        for key in "123456789f":
            await pilot.press(key)
            await settled(pilot)
        await pilot.press("1")
        assert isinstance(pilot.app.screen, ResultsScreen)
        assert "cannot be read: Permission denied" in picture(pilot)
        assert "there is no run in this folder" not in picture(pilot)


async def test_enter_on_a_closed_run_opens_its_results(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = run_directory(tmp_path / "traces")
    app = GradscopeApp(make_context(tmp_path / "traces"))
    async with app.run_test(size=(80, 24)) as pilot:
        close_folder(monkeypatch, path)
        app.open_run(path)
        await pilot.pause()
        assert isinstance(app.screen, ResultsScreen)


def test_settings_of_a_closed_run_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_directory(tmp_path)
    close_folder(monkeypatch, path)
    with pytest.raises(GradscopeError) as caught:
        settings_of_run(path)
    assert caught.value.hint == "its manifest.json cannot be read: Permission denied"


def test_a_closed_output_root_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "traces"
    run_directory(out)
    close_folder(monkeypatch, out)
    listed = RunList(out).read(10)
    assert (listed.total, listed.problem) == (0, f"{out} cannot be read: Permission denied")
    view = HomeReader(out).read()
    assert view.unreadable == listed.problem
    assert not view.is_new_here
    assert RunsReader(out).read().unreadable == listed.problem
    assert read_report(out / "quick" / RUN_ID).unreadable == "cannot be read: Permission denied"


@pytest.mark.parametrize("screen", [HomeScreen, RunsScreen])
async def test_a_closed_output_root_is_told_by_every_list(show, context, monkeypatch, screen):
    run_directory(context.out)
    close_folder(monkeypatch, context.out)
    async with show(screen, size=(160, 48), context=context) as pilot:
        await settled(pilot)
        assert "cannot be read: Permission denied" in picture(pilot)
        assert "none yet" not in picture(pilot)


def test_a_closed_folder_of_a_preset_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_directory(tmp_path)
    (tmp_path / "vit").mkdir()
    close_folder(monkeypatch, tmp_path / "vit")
    listed = RunList(tmp_path).read(10)
    assert (listed.total, listed.problem) == (1, f"1 folder in {tmp_path} cannot be read")


def test_no_leave_to_write_is_not_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close_folder(monkeypatch, tmp_path)
    with pytest.raises(GradscopeError) as caught:
        create_run_directory(tmp_path / "traces", "quick")
    assert caught.value.message.endswith("Permission denied")
    assert "free some space" not in caught.value.hint
