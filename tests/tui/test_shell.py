"""What the app does around its screens: back, help, palette, errors, small windows and the clipboard."""

import re
from pathlib import Path
from typing import ClassVar

import pytest
from shown_app import make_context
from textual.app import ComposeResult
from textual.binding import Binding
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.widgets import Button, Input, OptionList, Static

from gradscope.errors import GradscopeError
from gradscope.tui.app import GradscopeApp
from gradscope.tui.applog import AppLog
from gradscope.tui.bindings import commands_of
from gradscope.tui.screens.base import GradscopeScreen
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.error import ErrorScreen
from gradscope.tui.screens.help import HelpScreen
from gradscope.tui.screens.too_small import TooSmallScreen, size_text
from gradscope.tui.themes import THEMES, first_theme, next_theme
from gradscope.tui.widgets.foreign import literal, literal_cell

HOSTILE = ("ends in [/red]", "[/", "[bold", "\x1b]0;X\x07", "\x1b[2J", "a\nb", "\udcff", "[@click=app.quit]x[/]")


class Plain(GradscopeScreen):
    HELP = "What a [screen] is for."
    BINDINGS: ClassVar = [
        Binding("w,x", "work", "work", id="plain.work", tooltip="Do it"),
        Binding("b", "break_down", "break", id="plain.break"),
        Binding("c", "crash", "crash", id="plain.crash"),
    ]

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.worked = 0
        self._error = error or ValueError("no [/red] here")

    def compose(self) -> ComposeResult:
        yield Static("plain", markup=False)
        yield Button("button")

    def action_work(self) -> None:
        self.worked += 1

    def action_break_down(self) -> None:
        raise self._error

    def action_crash(self) -> None:
        self.query_one(Button).call_later(self._raise)

    def on_button_pressed(self) -> None:
        raise self._error

    def _raise(self) -> None:
        raise self._error


class RealApp(GradscopeApp):
    """The app as users have it: it survives errors, where the app around a screen under test lets the test fail."""

    def __init__(self, context, log, factory=Plain) -> None:
        super().__init__(context, log=AppLog(log))
        self._factory = factory

    def get_default_screen(self):
        return self._factory()


@pytest.fixture
def real(context, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return RealApp(context, tmp_path / "app.log")


async def test_escape_goes_back_and_keeps_the_first_screen(show):
    async with show(Plain()) as pilot:
        await pilot.press("escape")
        assert len(pilot.app.screen_stack) == 1
        pilot.app.push_screen(Plain())
        await pilot.press("escape")
        assert len(pilot.app.screen_stack) == 1


async def test_asked_ways_are_written_down(show, tmp_path: Path):
    async with show(Plain()) as pilot:
        pilot.app.open_run(tmp_path)
        assert pilot.app.asked == [("open_run", tmp_path)]


async def test_going_in_circles_piles_up_nothing(real, tmp_path):
    def places() -> list[str]:
        return [type(screen).__name__ for screen in real.screen_stack]

    async with real.run_test():
        real.open_live(tmp_path)
        real.open_results(tmp_path)
        real.open_live(tmp_path)
        assert places() == ["Plain", "LiveScreen"]
        real.open_live(tmp_path / "other")
        assert places() == ["Plain", "LiveScreen", "LiveScreen"]


# Foreign text


@pytest.mark.parametrize("text", HOSTILE)
async def test_foreign_text_is_shown_as_it_is(show, text):
    async with show(Plain()) as pilot:
        pilot.app.screen.query_one(Static).update(literal(text))
        pilot.app.report_error(text, text)
        pilot.app.copy_text(text)
        pilot.app.push_screen(ConfirmScreen(text, text, yes=text))
        await pilot.pause()
        pilot.app.push_screen(ErrorScreen(text, text))
        await pilot.pause()
        assert "\x1b" not in literal_cell(text).plain


def test_control_characters_are_written_out():
    assert literal("\x1b[2J\n").plain == "\\e[2J\\n"
    assert literal("a\nb\x9b", keep="\n").plain == "a\nb\\x9b"
    assert literal_cell("[/red]\t").plain == "[/red]\\t"


# Help and palette


async def test_help_lists_the_keys_of_the_current_screen(show):
    async with show(Plain()) as pilot:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        lines = [strip.text for strip in pilot.app.screen._compositor.render_strips()]
        text = "\n".join(line.strip(" \u2502") for line in lines)
        assert "What a [screen] is for." in text
        assert re.search("w x +work +Do it", text)
        assert "b break, c crash" in text
        assert text.index("this screen") < text.index("everywhere")
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, Plain)


async def test_help_of_a_window_of_the_least_size_scrolls(show):
    async with show(Plain(), size=(40, 10)) as pilot:
        await pilot.press("question_mark")
        box = pilot.app.screen.query_one(VerticalScroll)
        assert box.max_scroll_y > 0
        await pilot.press("end")
        await pilot.pause()
        assert box.scroll_y > 0


async def test_commands_merge_keys_of_one_action(show):
    async with show(Plain()) as pilot:
        work = next(command for command in commands_of(pilot.app.screen) if command.name == "work")
        assert (work.keys, work.explanation, work.group) == (("w", "x"), "Do it", "this screen")


async def test_the_palette_does_what_a_key_does(show):
    screen = Plain()
    async with show(screen) as pilot:
        await pilot.press("ctrl+p")
        assert isinstance(pilot.app.screen, CommandPalette)
        await pilot.press(*"work")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert pilot.app.screen.query_one(OptionList).option_count == 1
        await pilot.press("down", "enter")
        await pilot.pause()
        assert screen.worked == 1


# Themes


@pytest.mark.parametrize("theme", THEMES)
async def test_every_theme_draws(show, theme):
    async with show(Plain()) as pilot:
        pilot.app.theme = theme
        await pilot.press("question_mark")
        assert "work" in pilot.app.export_screenshot()


async def test_ctrl_t_goes_through_the_themes(show):
    async with show(Plain()) as pilot:
        pilot.app.theme = "dark"
        await pilot.press("ctrl+t")
        assert pilot.app.theme == "light"


def test_themes_follow_what_the_terminal_can_show():
    assert first_theme("", colour_system="truecolor", no_color=False) == "dark"
    assert first_theme("light", colour_system="256", no_color=False) == "light"
    assert first_theme("gone", colour_system="256", no_color=False) == "dark"
    assert first_theme("light", colour_system="standard", no_color=False) == "16-colours"
    assert first_theme("light", colour_system="truecolor", no_color=True) == "16-colours"
    assert next_theme("16-colours") == "dark"


async def test_without_utf8_only_ascii_reaches_the_screen(show, tmp_path):
    async with show(Plain(), context=make_context(tmp_path, ascii_only=True)) as pilot:
        pilot.app.screen.query_one(Static).update(literal("héllo 漢 │ ▁ …"))
        await pilot.pause()
        lines = [strip.text for strip in pilot.app.screen._compositor.render_strips()]
        assert all(line.isascii() for line in lines)
        assert lines[0].startswith("hello ?? | _ ~")


# Small windows


async def test_a_window_too_small_says_so_and_nothing_is_lost(show):
    screen = Plain()
    async with show(screen) as pilot:
        for size in ((20, 5), (39, 24), (80, 9), (1, 1)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert isinstance(pilot.app.screen, TooSmallScreen)
        await pilot.press("escape", "question_mark", "ctrl+p")
        assert len(pilot.app.screen_stack) == 2
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert pilot.app.screen is screen


async def test_what_opens_while_the_window_is_small_stays(show):
    async with show(Plain()) as pilot:
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        pilot.app.push_screen(ConfirmScreen("really?"))
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert isinstance(pilot.app.screen, ConfirmScreen)
        await pilot.press("n")
        await pilot.pause()
        assert isinstance(pilot.app.screen, Plain)


async def test_starting_in_a_small_window(show):
    async with show(Plain(), size=(20, 5)) as pilot:
        assert isinstance(pilot.app.screen, TooSmallScreen)


def test_the_line_of_a_small_window_fits():
    assert size_text(20, 5) == "too small: 20x5\nneeds 40x10"
    assert size_text(80, 9) == "too small: this is 80x9, gradscope needs 40x10"


# Questions


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False), ("escape", False), ("q", False)])
async def test_a_question_is_answered_by_one_key(show, key, answer):
    answers = []
    async with show(Plain()) as pilot:
        pilot.app.push_screen(ConfirmScreen("delete?", "2 runs"), answers.append)
        await pilot.press(key)
        await pilot.pause()
    assert answers == [answer]


# Errors


async def test_an_error_in_an_action_leaves_the_screen(real, tmp_path):
    async with real.run_test() as pilot:
        await pilot.press("b")
        await pilot.pause()
        assert isinstance(real.screen, ErrorScreen)
        assert real.screen.message == "ValueError: no [/red] here"
        assert real.screen.details == f"details: {tmp_path / 'app.log'}"
        await pilot.press("enter", "w")
        assert real.screen.worked == 1
    assert "Traceback" in (tmp_path / "app.log").read_text()
    assert real.last_fault == ""


@pytest.mark.parametrize("keys", [("c",), ("tab", "enter")], ids=["a widget", "the screen"])
async def test_a_screen_that_fails_is_closed(real, keys):
    async with real.run_test() as pilot:
        real.push_screen(Plain())
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert isinstance(real.screen, ErrorScreen)
        assert "this screen was closed" in real.screen.details
        await pilot.press("enter", "w")
        assert (len(real.screen_stack), real.screen.worked) == (1, 1)


async def test_a_first_screen_that_fails_is_made_anew(real):
    async with real.run_test() as pilot:
        first = real.screen
        await pilot.press("c")
        await pilot.pause()
        await pilot.press("enter", "w")
        assert real.screen is not first
        assert real.screen.worked == 1


class Undrawable(Plain):
    def compose(self) -> ComposeResult:
        raise RuntimeError("cannot be drawn")


async def test_a_screen_that_cannot_be_made_is_closed(real):
    async with real.run_test() as pilot:
        real.push_screen(Undrawable())
        await pilot.pause()
        assert isinstance(real.screen, ErrorScreen)
        await pilot.press("enter", "w")
        assert real.screen.worked == 1


class Unrenderable(Static):
    def render(self):
        raise RuntimeError("cannot be rendered")


class HoldsUnrenderable(Plain):
    def compose(self) -> ComposeResult:
        yield Unrenderable()


async def test_a_widget_that_cannot_be_rendered_closes_its_screen(real):
    async with real.run_test() as pilot:
        real.push_screen(HoldsUnrenderable())
        await pilot.pause()
        assert isinstance(real.screen, ErrorScreen)
        await pilot.press("enter", "w")
        assert real.screen.worked == 1


async def test_an_app_whose_first_screen_never_works_ends_with_a_line(context, tmp_path):
    app = RealApp(context, tmp_path / "app.log", Undrawable)
    async with app.run_test() as pilot:
        await pilot.pause()
    assert app.return_code == 1
    assert app.last_fault == "RuntimeError: cannot be drawn"


async def test_an_error_that_can_be_mended_shows_the_remedy(context, tmp_path):
    app = RealApp(context, tmp_path / "app.log", lambda: Plain(GradscopeError("no trace [x]", "capture one")))
    async with app.run_test() as pilot:
        await pilot.press("b")
        await pilot.pause()
        assert app.screen.message == "no trace [x]"
        assert app.screen.details.startswith("capture one\n")


async def test_an_error_of_a_worker_leaves_the_screen(real):
    async with real.run_test() as pilot:

        def fail() -> None:
            raise OSError(28, "No space left on device", "/x")

        real.screen.run_worker(fail, thread=True)
        await pilot.pause()
        await real.workers.wait_for_complete() if real.workers else None
        await pilot.pause()
        assert real.screen.message == "/x: No space left on device"
        await pilot.press("enter", "w")
        assert real.screen.worked == 1


async def test_printing_does_not_reach_the_screen(real, tmp_path):
    async with real.run_test() as pilot:
        print("forgotten")
        await pilot.pause()
    assert "forgotten" in (tmp_path / "app.log").read_text()


async def test_a_log_that_cannot_be_written_does_not_matter(context, tmp_path):
    (tmp_path / "file").write_text("")
    app = RealApp(context, tmp_path / "file" / "app.log")
    async with app.run_test() as pilot:
        await pilot.press("b")
        await pilot.pause()
        assert app.screen.details == "no details: the log could not be written"


async def test_keys_that_are_typed_into_a_field_are_text(show):
    class Form(GradscopeScreen):
        def compose(self) -> ComposeResult:
            yield Input()

    async with show(Form()) as pilot:
        await pilot.press("q", "question_mark", "y")
        assert pilot.app.screen.query_one(Input).value == "q?y"
