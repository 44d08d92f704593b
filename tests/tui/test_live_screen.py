"""The live screen: what each key does, what it asks of the run, and how it ends."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gradscope.core.events import Stage
from gradscope.core.status import Status
from gradscope.rundir.control import AnyRequest, CaptureRequested, StopRequested
from gradscope.rundir.layout import CONTROL
from gradscope.tui.panes.registry import PANES
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.live import LiveScreen
from gradscope.tui.view import Remark, RunView
from gradscope.tui.widgets.log_lines import LogLines
from gradscope.tui.widgets.plot import Plot
from tests.builders import run_directory
from tests.tui.conftest import Show, ShownApp, make_context
from tests.tui.views import (
    ListFeed,
    finished_view,
    gpu_view,
    host_columns,
    oom_view,
    starting_view,
    status,
    step_columns,
    view,
)


class HandedFeed(ListFeed):
    """A feed of one view; further ones are handed to the screen by the test."""


def live(*views: RunView) -> LiveScreen:
    return LiveScreen(HandedFeed(views))


async def settled(pilot: Pilot[None]) -> LiveScreen:
    """Wait until the first view is shown."""
    screen = pilot.app.screen
    assert isinstance(screen, LiveScreen)
    while screen.view is None:
        await pilot.pause(0.01)
    await pilot.pause()
    return screen


def picture(screen: LiveScreen) -> list[str]:
    """Return what is on the screen, without the footer."""
    plot = screen.query_one(Plot)
    return [plot.cells(y, 0, plot.size.width)[0].rstrip() for y in range(plot.size.height)]


def front(pilot: Pilot[None]) -> ShownApp:
    """Return the app, which writes down where it is asked to go."""
    assert isinstance(pilot.app, ShownApp)
    return pilot.app


def notices(pilot: Pilot[None]) -> list[str]:
    return [notice.message for notice in pilot.app._notifications]


async def hand(pilot: Pilot[None], screen: LiveScreen, shown: RunView) -> None:
    screen.show_view(shown)
    await pilot.pause()


async def test_it_shows_the_run_as_soon_as_it_was_read(show: Show) -> None:
    async with show(live(view())) as pilot:
        lines = picture(await settled(pilot))
        assert lines[0].startswith(" llama-tiny · adam · standard")
        assert lines[1].startswith(" ▶ measuring")
        assert "1 memory" in lines[2]
        assert lines[-1].startswith(" 5 log  UserWarning")


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (40, 12), (40, 10), (300, 80)])
@pytest.mark.parametrize("shown", [starting_view(), view(), gpu_view(), finished_view(), oom_view()])
async def test_it_draws_every_state_at_every_size(show: Show, shown: RunView, size: tuple[int, int]) -> None:
    async with show(live(shown), size=size) as pilot:
        screen = await settled(pilot)
        assert "llam" in picture(screen)[0]


async def test_a_large_screen_shows_everything_at_once(show: Show) -> None:
    async with show(live(view()), size=(160, 48)) as pilot:
        screen = await settled(pilot)
        text = "\n".join(picture(screen))
        assert all(f" {pane.key} " in text for pane in PANES.values())
        log = screen.query_one(LogLines)
        assert log.display
        assert log.render_line(0).text.startswith("Loading weights")
        assert (log.region.x, log.region.y) == (1, 40)


async def test_it_draws_anew_for_another_size(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.resize_terminal(160, 48)
        await pilot.pause()
        assert "4 loss, linear" in "\n".join(picture(screen))
        await pilot.resize_terminal(40, 12)
        await pilot.pause()
        assert len(picture(screen)) == 11
        assert "4 loss, linear" not in "\n".join(picture(screen))


async def test_numbers_choose_panes(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        for name, pane in PANES.items():
            await pilot.press(pane.key)
            assert screen.viewing.choice.active == name
            assert f" {pane.key} " in picture(screen)[2]


async def test_z_shows_one_pane_alone_and_all_again(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("2", "z")
        lines = picture(screen)
        assert "2 step time" in lines[2]
        assert lines[-1].startswith("└")
        await pilot.press("z")
        assert picture(screen)[-1].startswith(" 5 log")


async def test_x_hides_a_pane_until_its_number_is_pressed(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("x")
        assert "memory" not in "\n".join(picture(screen))
        await pilot.press("1")
        assert "1 memory" in picture(screen)[2]


async def test_the_cursor_moves_by_columns_by_steps_and_to_the_ends(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("left")
        assert screen.viewing.cursor == 38  # two steps a column: 62 of them over 40
        await pilot.press("comma", "comma", "full_stop")
        assert screen.viewing.cursor == 37
        assert "step 37 carried over" in picture(screen)[2]
        await pilot.press("shift+left")
        assert screen.viewing.cursor == 17
        await pilot.press("home", "left")
        assert screen.viewing.cursor == 1
        await pilot.press("right", "end")
        assert screen.viewing.cursor is None


async def test_plus_and_minus_zoom_into_the_steps(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("plus")
        assert screen.viewing.window is not None
        assert screen.viewing.window[1] == 31
        await pilot.press("minus", "minus")
        assert screen.viewing.window is None


async def test_space_holds_the_panes_still_and_follows_again(show: Show) -> None:
    early, late = view(steps=step_columns(40)), view(steps=step_columns(60))
    async with show(live(early)) as pilot:
        screen = await settled(pilot)
        await pilot.press("space")
        before = picture(screen)[2:]
        await hand(pilot, screen, late)
        assert picture(screen)[2:] == before
        assert "paused, 20 steps behind" in picture(screen)[1]
        await pilot.press("space")
        assert picture(screen)[2:] != before
        assert "paused" not in picture(screen)[1]


async def test_space_also_ends_a_look_back(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("left", "plus", "space")
        assert screen.viewing.following


async def test_n_l_and_v_change_what_is_shown(show: Show) -> None:
    async with show(live(gpu_view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("n")
        assert "memory against its limit" in picture(screen)[2]
        await pilot.press("4", "l")
        assert "4 loss, log" in picture(screen)[2]
        await pilot.press("n")
        assert "4 throughput, samples" in picture(screen)[2]
        await pilot.press("3", "v")
        assert "3 utilization of the host" in picture(screen)[2]


async def test_up_and_down_scroll_the_log(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("5", "up")
        assert screen.viewing.back == 1
        await pilot.press("pagedown")
        assert screen.viewing.back == 0


async def test_no_step_for_a_while_is_said(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await hand(pilot, screen, view(silent_seconds=14.0))
        assert "no step for 14 s" in picture(screen)[1]


# requests


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """A run directory of a run that goes on."""
    return run_directory(tmp_path / "traces", Status.MEASURING)


def requests(path: Path) -> list[Any]:
    file = path / CONTROL
    return msgspec.json.decode(
        b"[" + b",".join(file.read_bytes().splitlines()) + b"]" if file.exists() else b"[]", type=list[AnyRequest]
    )


async def asked(pilot: Pilot[None], path: Path, count: int) -> list[Any]:
    """Return the requests once there are `count`; they are written on a thread."""
    await pilot.pause()
    for worker in [worker for worker in pilot.app.workers if worker.group == "ask"]:
        await worker.wait()
    await pilot.pause()
    found = requests(path)
    assert len(found) == count
    return found


async def test_c_asks_for_a_trace_and_says_what_came_of_it(show: Show, running: Path) -> None:
    async with show(live(view(path=running))) as pilot:
        screen = await settled(pilot)
        await pilot.press("c")
        assert await asked(pilot, running, 1) == [CaptureRequested(steps=2)]
        assert notices(pilot) == ["asked the run for a trace of its next 2 updates"]
        await hand(pilot, screen, view(path=running, remarks=(Remark("trace of 2 steps: [/w2].json"),)))
        assert notices(pilot)[-1] == "trace of 2 steps: [/w2].json"


async def test_m_asks_for_a_snapshot_only_where_there_is_a_card(show: Show, running: Path) -> None:
    async with show(live(view(path=running))) as pilot:
        await settled(pilot)
        await pilot.press("m")
        await asked(pilot, running, 0)
        kind, message, hint = front(pilot).asked[-1]
        assert (kind, "this run is on the CPU" in message, "trace (c)" in hint) == ("report_error", True, True)


async def test_m_asks_for_a_snapshot_of_a_card(show: Show, running: Path) -> None:
    async with show(live(gpu_view(path=running))) as pilot:
        await settled(pilot)
        await pilot.press("m")
        assert [type(one).__name__ for one in await asked(pilot, running, 1)] == ["SnapshotRequested"]


async def test_s_asks_once_and_the_header_says_that_it_is_stopping(show: Show, running: Path) -> None:
    async with show(live(view(path=running))) as pilot:
        screen = await settled(pilot)
        await pilot.press("s")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        await pilot.press("n")
        assert await asked(pilot, running, 0) == []
        await pilot.press("s", "y")
        assert await asked(pilot, running, 1) == [StopRequested()]
        assert "stopping" in picture(screen)[1]


async def test_s_once_more_offers_to_kill(show: Show, running: Path) -> None:
    async with show(live(view(path=running))) as pilot:
        await settled(pilot)
        await pilot.press("s", "y")
        await asked(pilot, running, 1)
        await pilot.press("s")
        question = pilot.app.screen
        assert isinstance(question, ConfirmScreen)
        assert question.question == "kill the worker of llama-tiny?"
        await pilot.press("y")
        assert (await asked(pilot, running, 2))[1] == StopRequested(kill=True)


async def test_a_run_that_ended_unseen_is_an_error_with_a_way_on(show: Show, tmp_path: Path) -> None:
    over = run_directory(tmp_path / "traces", Status.DONE)
    async with show(live(view(path=over))) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await asked(pilot, over, 0)
        assert front(pilot).asked[-1][0] == "report_error"
        assert "is not running: done" in front(pilot).asked[-1][1]


async def test_d_leaves_and_says_how_to_come_back(show: Show, running: Path) -> None:
    async with show(live(view(path=running))) as pilot:
        await settled(pilot)
        await pilot.press("d")
        assert notices(pilot) == ["run goes on; gradscope attach 20270115T080000Z-0a1b2c"]
        assert requests(running) == []


async def test_y_copies_the_folder(show: Show) -> None:
    async with show(live(view())) as pilot:
        await settled(pilot)
        await pilot.press("y")
        assert front(pilot).asked == [("copy_text", "/runs/llama-tiny/20270115T080000Z-0a1b2c")]


# the end


async def test_a_run_that_ends_while_watched_says_what_it_came_to_and_enter_shows_its_results(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await pilot.press("enter")
        assert front(pilot).asked == []
        await hand(pilot, screen, finished_view())
        assert picture(screen)[2].startswith(" done: last loss -2.25 · median step 100 ms · peak 1000 MiB")
        await pilot.press("enter")
        assert front(pilot).asked == [("open_results", screen.newest.path)]


async def test_a_run_that_dies_while_watched_shows_why_and_its_log(show: Show) -> None:
    async with show(live(gpu_view())) as pilot:
        screen = await settled(pilot)
        await hand(pilot, screen, oom_view())
        text = "\n".join(picture(screen))
        assert " oom: out of memory at step 3, backward" in text
        assert "memory.accumulate=4 with memory.mode=split" in text
        assert "torch.OutOfMemoryError" in text


async def test_a_run_that_is_killed_before_its_first_step_says_so(show: Show) -> None:
    shown = starting_view(running=False, status=status(Status.KILLED, reason="its supervisor was ended from outside"))
    async with show(live(shown)) as pilot:
        text = "\n".join(picture(await settled(pilot)))
        assert "killed: its supervisor was ended from outside" in text
        assert "there was no step" in text


async def test_keys_that_ask_a_run_are_off_once_it_is_over(show: Show, running: Path) -> None:
    async with show(live(finished_view(path=running))) as pilot:
        await settled(pilot)
        await pilot.press("c", "m", "s", "d")
        await pilot.pause()
        assert isinstance(pilot.app.screen, LiveScreen)
        assert requests(running) == []
        assert front(pilot).asked == []


async def test_a_vanished_folder_is_told_in_the_header(show: Show) -> None:
    async with show(live(view())) as pilot:
        screen = await settled(pilot)
        await hand(pilot, screen, view(problems=("the run directory is gone",)))
        assert "the run directory is gone" in picture(screen)[1]


async def test_foreign_text_is_shown_as_it_is(show: Show) -> None:
    shown = finished_view(
        preset_name="[/red]\x1b[2J",
        status=status(Status.FAILED, reason="ValueError: [/bold] \x1b]0;X\x07", hint="[link=x]"),
        remarks=(Remark("[/]"),),
    )
    async with show(live(shown), size=(160, 48)) as pilot:
        text = "\n".join(picture(await settled(pilot)))
        assert "[/red]\\e[2J" in text
        assert "failed: ValueError: [/bold] \\e]0;X\\x07" in text
        assert "[link=x]" in text


async def test_it_is_drawn_in_ascii_where_nothing_else_can_be_shown(show: Show, tmp_path: Path) -> None:
    context = make_context(tmp_path, ascii_only=True)
    async with show(live(gpu_view()), size=(160, 48), context=context) as pilot:
        screen = await settled(pilot)
        assert all(line.isascii() for line in picture(screen))
        await pilot.press("left", "plus", "l", "3", "v", "n")
        assert all(line.isascii() for line in picture(screen))


async def test_stages_are_marked(show: Show) -> None:
    async with show(live(view(stage=Stage.WARMUP, doing="warm-up", stage_done=1, stage_planned=2))) as pilot:
        screen = await settled(pilot)
        assert picture(screen)[1].startswith(" ▶ warm-up")
        await hand(
            pilot,
            screen,
            view(
                steps=step_columns(124, profiled=(124,)),
                host=host_columns(124),
                stage=Stage.PROFILE,
                doing="profiling",
                stage_done=1,
                stage_planned=2,
            ),
        )
        assert picture(screen)[1].startswith(" ▶ profiling")


async def test_every_key_is_told_in_the_help() -> None:
    bindings = [binding for binding in LiveScreen.BINDINGS if not isinstance(binding, tuple)]
    assert all(binding.id and binding.id.startswith("live.") for binding in bindings)
    assert len({binding.id for binding in bindings}) == len(bindings)
    assert all(binding.description for binding in bindings)
