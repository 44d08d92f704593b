"""What the app does around its screens: back, quit, errors and the clipboard."""

from pathlib import Path

from gradscope.tui.app import _Missing


async def test_a_screen_is_shown_and_escape_keeps_the_first(show, tmp_path: Path):
    async with show(_Missing("x")) as pilot:
        await pilot.press("escape")
        assert len(pilot.app.screen_stack) == 1
        pilot.app.open_run(tmp_path)
        assert pilot.app.asked == [("open_run", tmp_path)]


async def test_errors_are_literal_text(show):
    async with show(_Missing("x")) as pilot:
        pilot.app.report_error("no [/red] \x1b]0;X\x07", "[bold")
        await pilot.pause()
        assert [note.message for note in pilot.app._notifications] == ["no [/red] \\e]0;X\\x07\n[bold"]
