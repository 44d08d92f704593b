"""The home screen: what it shows, and what each key does."""

import shlex
from pathlib import Path

import pytest
from builders import preset_dict, run_directory
from home_views import Launches, Source, broken, home, listed
from shown_app import make_context
from textual.pilot import Pilot

from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.tui.home.form import open_form
from gradscope.tui.home.view import HomeView
from gradscope.tui.results.server import Address, server_of
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.edit import EditScreen
from gradscope.tui.screens.home import HomeScreen
from gradscope.tui.widgets.item_list import ItemList
from gradscope.tui.widgets.rows import Rows


async def settle(pilot: Pilot[None]) -> None:
    """Wait until workers are through and what they posted is shown."""
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def see(pilot: Pilot[None], source: Source, view: HomeView) -> None:
    """Let the screen see something else."""
    source.view = view
    await settle(pilot)
    pilot.app.screen.post_message(HomeScreen.Seen(view))
    await settle(pilot)


def screen_text(pilot: Pilot[None]) -> str:
    lines = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def facts(pilot: Pilot[None]) -> str:
    rows = pilot.app.screen.query_one("#facts", Rows).rows
    return "\n".join("".join(span.text for span in row) for row in rows)


def highlighted(pilot: Pilot[None], name: str = "presets") -> str | None:
    return pilot.app.screen.query_one(f"#{name}", ItemList).highlighted


async def test_an_empty_machine_highlights_quick_and_enter_runs_it(show, context):
    launches = Launches()
    screen = HomeScreen(Source(home(context.out)), launches)
    async with show(screen, context=context) as pilot:
        await settle(pilot)
        assert highlighted(pilot) == "quick"
        assert "none yet: enter on quick starts one, which takes about 7.8 s" in screen_text(pilot)
        await pilot.press("enter")
        await settle(pilot)
        ((preset, argv),) = launches.started
        assert preset.name == "quick"
        assert argv == ("gradscope", "run", "quick", "--out", str(context.out))
        assert pilot.app.asked == [("open_live", context.out / "quick" / "20270115T080000Z-0a1b2c")]


async def test_a_second_enter_while_one_is_being_started_does_nothing(show, context):
    launches = Launches()
    screen = HomeScreen(Source(home(context.out)), launches)
    async with show(screen, context=context) as pilot:
        await settle(pilot)
        screen.action_launch_detached()
        screen.action_launch_detached()
        assert screen.starting == "quick"
        await settle(pilot)
        assert len(launches.started) == 1
        assert screen.starting == ""


async def test_d_starts_detached_stays_and_says_so(show, context):
    launches = Launches()
    async with show(HomeScreen(Source(home(context.out)), launches), context=context) as pilot:
        await settle(pilot)
        await pilot.press("down", "d")
        await settle(pilot)
        assert launches.started[0][0].name == "vit-tiny"
        assert pilot.app.asked == []
        (note,) = pilot.app._notifications
        assert (note.title, note.message) == ("vit-tiny runs in the background", "gradscope attach 0a1b2c")


async def test_a_failed_start_is_told(show, context):
    launches = Launches(GradscopeError("no space", "free some"))
    async with show(HomeScreen(Source(home(context.out)), launches), context=context) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert pilot.app.asked == [("report_error", "no space", "free some")]
        launches.error = OSError(28, "No space left on device")
        await pilot.press("enter")
        await settle(pilot)
        assert pilot.app.asked[1] == ("report_error", "the run could not be started: No space left on device", "")


async def test_a_preset_that_is_too_much_for_this_machine_asks_first(show, context):
    launches = Launches()
    async with show(HomeScreen(Source(home(context.out)), launches), context=context) as pilot:
        await settle(pilot)
        pilot.app.screen.query_one("#presets", ItemList).highlight("llama-1b")
        await pilot.pause()
        assert "of memory, and this machine has 8.00 GiB" in " ".join(facts(pilot).split())
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert pilot.app.screen.detail.startswith("it needs about ")
        await pilot.press("n")
        await settle(pilot)
        assert launches.started == []
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("y")  # pressed by habit
        await settle(pilot)
        assert launches.started == []
        await pilot.press("Y")
        await settle(pilot)
        assert [preset.name for preset, _ in launches.started] == ["llama-1b"]


@pytest.mark.parametrize("keys", [("g", "G"), ("home", "end")])
async def test_first_and_last_are_those_of_all_lists(show, context, keys):
    first, last = keys
    async with show(HomeScreen(Source(home(context.out, runs=2, going=True))), context=context) as pilot:
        await settle(pilot)
        await pilot.press(first)
        assert pilot.app.focused.id == "running"
        await pilot.press(last)
        assert pilot.app.focused.id == "recent"
        assert highlighted(pilot, "recent") == listed(context.out, 0).row.path
        await pilot.press(first)
        assert pilot.app.focused.id == "running"


async def test_a_grid_says_how_many_runs_it_has_and_enter_opens_its_sweep(show, context):
    launches = Launches()
    async with show(HomeScreen(Source(home(context.out)), launches), context=context) as pilot:
        await settle(pilot)
        await pilot.press("end")
        await pilot.pause()
        assert "60 runs" in screen_text(pilot)
        assert "60 runs, one a cell; enter opens the sweep" in " ".join(facts(pilot).split())
        await pilot.press("y", "enter")
        await settle(pilot)
        assert launches.started == []
        assert pilot.app.asked == [
            ("copy_text", f"gradscope sweep grid-tiny --out {context.out}"),
            ("open_sweep", "grid-tiny"),
        ]


async def test_d_on_a_grid_starts_its_sweep_and_stays(show, context):
    started: list[object] = []

    def sweeper(words: object, out: Path, name: str) -> None:
        started.append((words, out, name))

    screen = HomeScreen(Source(home(context.out)), Launches(), sweeper)
    async with show(screen, context=context) as pilot:
        await settle(pilot)
        await pilot.press("end", "d")
        await settle(pilot)
        assert started == [(["grid-tiny", "--out", str(context.out)], context.out, "grid-tiny")]
        assert "grid-tiny runs in the background" in [note.title for note in pilot.app._notifications]
        assert pilot.app.asked == []


async def test_a_bad_preset_is_listed_with_what_is_wrong(show, context):
    view = home(context.out, extra=[broken("[/mine]")])
    async with show(HomeScreen(Source(view), Launches()), context=context) as pilot:
        await settle(pilot)
        await pilot.press("end")
        await pilot.pause()
        assert 'found "x", allowed a number > 0' in " ".join(facts(pilot).split())
        assert "[/mine]" in screen_text(pilot)
        for key in ("enter", "d", "e"):
            await pilot.press(key)
            await settle(pilot)
        wrong = ("report_error", 'lr in presets/mine.toml: found "x", allowed a number > 0', "mend it")
        assert pilot.app.asked == [wrong, wrong, wrong]


async def test_y_copies_the_line_at_the_bottom(show, context):
    async with show(HomeScreen(Source(home(context.out, runs=1))), context=context) as pilot:
        await settle(pilot)
        await pilot.press("y")
        run = listed(context.out, 0).row
        await pilot.press("tab", "y")
        assert pilot.app.asked == [
            ("copy_text", f"gradscope run quick --out {context.out}"),
            ("copy_text", f"gradscope show {run.run_id} --out {context.out}"),
        ]


async def test_the_usual_output_root_is_not_in_the_line(show, tmp_path: Path):
    context = make_context(Path("traces"))
    async with show(HomeScreen(Source(home(context.out))), context=context) as pilot:
        await settle(pilot)
        assert pilot.app.screen.command == "gradscope run quick"
        assert "$ gradscope run quick" in screen_text(pilot)


async def test_up_and_down_go_through_all_lists_and_enter_opens_runs(show, context):
    view = home(context.out, runs=2, going=True)
    async with show(HomeScreen(Source(view)), context=context) as pilot:
        await settle(pilot)
        await pilot.press("up")
        assert pilot.app.focused.id == "running"
        assert pilot.app.screen.command == "gradscope attach 20270115T075900Z-00000a"
        await pilot.press("enter")
        await pilot.press("down")
        assert highlighted(pilot) == "quick"
        await pilot.press("end", "down")
        assert pilot.app.focused.id == "recent"
        await pilot.press("down", "enter", "up", "up")
        assert pilot.app.focused.id == "presets"
        assert highlighted(pilot) == "grid-tiny"
        await settle(pilot)
        assert pilot.app.asked == [
            ("open_live", view.running[0].path),
            ("open_run", Path(view.recent[1].row.path)),
        ]


async def test_running_runs_show_step_and_time_left(show, context):
    async with show(HomeScreen(Source(home(context.out, going=True))), context=context) as pilot:
        await settle(pilot)
        text = screen_text(pilot)
        assert "1 running, 1 run in" in text
        (row,) = [line for line in text.splitlines() if "measuring" in line]
        assert " ".join(row.split()) == "▶ quick · adam · accumulate x4 measuring 12/60 0:18 left loss 2.5"


async def test_runs_that_are_over_show_their_numbers_or_their_reason(show, context):
    view = home(context.out, runs=1)
    bad = listed(context.out, 2, Status.OOM, reason="out of memory in backward of step 3 [/x]")
    view = type(view)(presets=view.presets, recent=(bad, *view.recent), total=2, machine=view.machine)
    async with show(HomeScreen(Source(view)), size=(100, 30), context=context) as pilot:
        await settle(pilot)
        lines = screen_text(pilot).splitlines()
        (over,) = [" ".join(line.split()) for line in lines if "done" in line]
        assert over == "2 min quick done loss 0.31 142 ms 300 MiB"
        (failed,) = [line for line in lines if " oom " in line]
        assert "out of memory in backward of step 3 [/x]" in failed


async def test_a_starts_the_last_run_again_with_its_own_settings(show, context):
    settings = preset_dict(optimizer={"name": "sgd", "lr": 0.5})
    run_dir = run_directory(context.out, preset=settings, run_id="20270115T075800Z-000000")
    launches = Launches()
    async with show(HomeScreen(Source(home(context.out, runs=1)), launches), context=context) as pilot:
        await settle(pilot)
        await pilot.press("a")
        await settle(pilot)
        ((preset, argv),) = launches.started
        assert (preset.optimizer.name, preset.optimizer.lr) == ("sgd", 0.5)
        assert argv == ("gradscope", "run", "quick")
        assert run_dir.is_dir()


async def test_a_takes_the_highlighted_run(show, context):
    for number, optimizer in enumerate(("sgd", "adagrad")):
        settings = preset_dict(optimizer={"name": optimizer})
        run_directory(context.out, preset=settings, run_id=f"20270115T0758{number:02d}Z-00000{number}")
    launches = Launches()
    async with show(HomeScreen(Source(home(context.out, runs=2)), launches), context=context) as pilot:
        await settle(pilot)
        await pilot.press("a")
        await settle(pilot)
        await pilot.press("tab", "down", "a")
        await settle(pilot)
        assert [preset.optimizer.name for preset, _ in launches.started] == ["adagrad", "sgd"]


async def test_a_without_runs_and_without_a_manifest_says_so(show, context):
    async with show(HomeScreen(Source(home(context.out)), Launches()), context=context) as pilot:
        await settle(pilot)
        await pilot.press("a")
        assert pilot.app.asked[-1][1] == "there is no run yet to start again"
    async with show(HomeScreen(Source(home(context.out, runs=1)), Launches()), context=context) as pilot:
        await settle(pilot)
        await pilot.press("a")
        assert pilot.app.asked[-1][1] == "the settings of 20270115T075800Z-000000 are not known"


async def test_e_edits_and_comes_back_to_what_was_changed(show, context):
    async with show(HomeScreen(Source(home(context.out)), Launches()), context=context) as pilot:
        await settle(pilot)
        await pilot.press("e")
        await settle(pilot)
        assert isinstance(pilot.app.screen, EditScreen)
        await pilot.press("right", "escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HomeScreen)
        await pilot.press("e")
        await settle(pilot)
        assert pilot.app.screen.form.overrides == ("model.name=modernbert",)


async def test_l_opens_all_runs_and_keys_of_presets_are_away_among_runs(show, context):
    launches = Launches()
    async with show(HomeScreen(Source(home(context.out, runs=1)), launches), context=context) as pilot:
        await settle(pilot)
        await pilot.press("l", "tab", "d", "e")
        await settle(pilot)
        assert pilot.app.asked == [("open_runs",)]
        assert launches.started == []
        assert isinstance(pilot.app.screen, HomeScreen)


async def test_the_highlight_stays_with_its_item_when_others_come(show, context):
    source = Source(home(context.out, runs=1))
    screen = HomeScreen(source)
    async with show(screen, context=context) as pilot:
        await settle(pilot)
        await pilot.press("tab")
        before = highlighted(pilot, "recent")
        await see(pilot, source, home(context.out, runs=3))
        assert len(screen.view.recent) == 3
        assert highlighted(pilot, "recent") == before


async def test_the_list_of_runs_that_empties_gives_the_focus_back(show, context):
    source = Source(home(context.out, going=True))
    screen = HomeScreen(source)
    async with show(screen, context=context) as pilot:
        await settle(pilot)
        await pilot.press("up")
        assert pilot.app.focused.id == "running"
        await see(pilot, source, home(context.out))
        assert pilot.app.focused.id == "presets"


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (40, 12), (40, 10), (63, 20)])
async def test_every_size_shows_a_preset_and_the_command_line(show, context, size):
    async with show(HomeScreen(Source(home(context.out, runs=40, going=True))), size=size, context=context) as pilot:
        await settle(pilot)
        lines = screen_text(pilot).splitlines()
        assert len(lines) == size[1]
        assert any("▸ quick" in line for line in lines)
        assert any("$ gradscope run quick" in line for line in lines)
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert "default job" in screen_text(pilot)


async def test_ascii_only(show, tmp_path: Path):
    context = make_context(tmp_path / "traces", ascii_only=True)
    view = home(context.out, runs=1, going=True)
    async with show(HomeScreen(Source(view)), context=context) as pilot:
        await settle(pilot)
        text = screen_text(pilot)
        assert text.isascii(), sorted(set(text) - set(map(chr, range(128))))


async def test_changes_of_a_form_are_seen_at_home_and_enter_takes_them(show, context):
    launches = Launches()
    screen = HomeScreen(Source(home(context.out)), launches)
    async with show(screen, context=context) as pilot:
        await settle(pilot)
        screen._keep_form(open_form("quick", {"budget.updates": "7"}))
        await settle(pilot)
        assert "▸*quick" in screen_text(pilot)
        line = ("gradscope", "run", "quick", "-s", "budget.updates=7", "--out", str(context.out))
        assert screen.command == shlex.join(line)
        await pilot.press("enter")
        await settle(pilot)
        ((preset, argv),) = launches.started
        assert (preset.budget.updates, argv) == (7, line)
        screen._keep_form(open_form("quick", {"budget.updates": "x"}))
        await pilot.press("enter")
        await settle(pilot)
        assert len(launches.started) == 1
        assert pilot.app.asked[-1][0] == "report_error"


async def test_home_names_tensorboard_while_it_runs(show, context):
    screen = HomeScreen(Source(home(context.out)))
    async with show(screen, context=context, size=(120, 24)) as pilot:
        await settle(pilot)
        assert "t tensorboard" not in screen_text(pilot)
        server_of(pilot.app).address = Address("http://localhost:6006", None, context.out)
        screen.refresh_bindings()
        await settle(pilot)
        assert "t tensorboard" in screen_text(pilot)
        await pilot.press("t")
        await settle(pilot)
        assert "it ends when you leave gradscope" in screen_text(pilot)
