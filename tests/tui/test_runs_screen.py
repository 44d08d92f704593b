"""The screen of all runs: what it shows, and what each key does."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from builders import preset_dict, run_directory
from home_views import Launches, listed, running
from shown_app import NOW_WALL_NS, make_context
from textual.pilot import Pilot
from textual.widgets import Input

from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.rundir.registry import all_runs
from gradscope.tui.runs import deleting
from gradscope.tui.runs.table import RunTable
from gradscope.tui.runs.view import Entry, RunsView, entry_of, running_entry
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.runs import RunsScreen


class Source:
    """Gives the view that it was told last."""

    def __init__(self, view: RunsView) -> None:
        self.view = view
        self.anew = 0

    def read(self, *, anew: bool = False) -> RunsView:
        self.anew += anew
        return self.view


def entry(out: Path, number: int, status: Status = Status.DONE, **fields: object) -> Entry:
    return entry_of(listed(out, number, status, **fields))


def view_of(*entries: Entry, complete: bool = True) -> RunsView:
    over = sum(one.running is None for one in entries)
    return RunsView(entries, over if complete else 2000, complete)


def some(out: Path) -> RunsView:
    """Four runs, the newest first: losses 3, 1, none, 2."""
    return view_of(
        entry(out, 4, loss=3.0, optimizer="sgd"),
        entry(out, 3, loss=1.0),
        entry(out, 2, Status.OOM, loss=None, reason="at step 3, backward: [/red]\x1b[2J"),
        entry(out, 1, loss=2.0, preset="vit-tiny"),
    )


async def settle(pilot: Pilot[None]) -> None:
    """Wait until workers are through and what they posted is shown."""
    for _ in range(3):
        await pilot.pause()
        await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def see(pilot: Pilot[None], view: RunsView) -> None:
    screen = pilot.app.screen
    assert isinstance(screen, RunsScreen)
    screen._source.view = view
    screen.post_message(RunsScreen.Seen(view))
    await settle(pilot)


def screen_text(pilot: Pilot[None]) -> str:
    lines = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def table(pilot: Pilot[None]) -> RunTable:
    return pilot.app.screen.query_one(RunTable)


def numbers(pilot: Pilot[None]) -> list[int]:
    return [int(one.row.run_id[-1], 16) for one in table(pilot).entries]


def here(pilot: Pilot[None]) -> int:
    found = table(pilot).entry
    assert found is not None
    return int(found.row.run_id[-1], 16)


@pytest.fixture
def screen(context) -> RunsScreen:
    return RunsScreen(Source(some(context.out)), Launches())


async def test_all_runs_are_listed_the_newest_first(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        assert numbers(pilot) == [4, 3, 2, 1]
        text = screen_text(pilot)
        assert f"runs  4 · in {context.out}"[:40] in text
        assert "▸ 000004" in text
        assert "oom" in text
        assert table(pilot).has_focus


async def test_there_may_be_none_and_they_may_still_be_read(show, context):
    screen = RunsScreen(Source(view_of()))
    async with show(screen) as pilot:
        assert screen.view is None or screen.view.complete
        await settle(pilot)
        assert "no runs here yet: escape, then enter on quick starts one" in screen_text(pilot)
        for key in ("enter", "space", "c", "a", "x", "y", "s", "S", "1", "asterisk", "u", "end", "pagedown"):
            await pilot.press(key)
        await settle(pilot)
        assert pilot.app.asked == [("report_error", "no runs are marked", "space marks; compare takes 2 to 6")]


async def test_the_first_look_is_followed_by_one_at_all_runs(show, context):
    first = view_of(*some(context.out).entries[:2], complete=False)

    class Growing(Source):
        def read(self, *, anew: bool = False) -> RunsView:
            given, self.view = self.view, some(context.out)
            return given

    async with show(RunsScreen(Growing(first))) as pilot:
        await settle(pilot)
        assert numbers(pilot) == [4, 3, 2, 1]


async def test_keys_move_the_highlight(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        for key, number in [("down", 3), ("j", 2), ("k", 3), ("up", 4), ("up", 4), ("end", 1), ("home", 4)]:
            await pilot.press(key)
            assert here(pilot) == number
        for key, number in [("G", 1), ("g", 4), ("pagedown", 1), ("pageup", 4)]:
            await pilot.press(key)
            assert here(pilot) == number


async def test_enter_opens(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("down", "enter")
        await settle(pilot)
        assert pilot.app.asked == [("open_run", screen.view.entries[1].path)]


async def test_the_filter_works_as_you_type(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("slash")
        await pilot.press(*"loss")
        assert numbers(pilot) == []
        assert "no run fits the filter" in screen_text(pilot)
        await pilot.press("<")
        assert numbers(pilot) == [4, 3, 2, 1]
        await pilot.press("3")
        assert numbers(pilot) == [3, 1]
        assert "runs  2 of 4 · in" in screen_text(pilot)
        await pilot.press("enter")
        assert table(pilot).has_focus
        assert numbers(pilot) == [3, 1]
        await pilot.press("slash", "escape")
        assert numbers(pilot) == [4, 3, 2, 1]
        assert table(pilot).has_focus
        assert pilot.app.screen is screen


async def test_letters_in_the_filter_are_letters(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"xcasyq?u1", "space", "G")
        assert screen.query_one(Input).value == "xcasyq?u1 G"
        assert pilot.app.screen is screen
        assert pilot.app.asked == []


async def test_what_the_filter_does_not_understand_is_said(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"lss<2")
        assert "there is no lss to compare; did you mean loss?" in screen_text(pilot)
        assert numbers(pilot) == [4, 3, 2, 1]


async def test_s_sorts_by_the_next_column_and_capital_s_turns_it_around(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("end", "s")
        assert table(pilot).sorted_by.name == "loss"
        assert numbers(pilot) == [3, 1, 4, 2]
        assert here(pilot) == 3
        assert "↑loss" in screen_text(pilot)
        await pilot.press("S")
        assert numbers(pilot) == [4, 1, 3, 2]
        assert "↓loss" in screen_text(pilot)
        await pilot.press("s")
        assert table(pilot).sorted_by.name == "step"
        assert not table(pilot).reversed
        for _ in range(len(table(pilot)._widths) - 2):
            await pilot.press("s")
        assert table(pilot).sorted_by.name == "age"
        assert numbers(pilot) == [4, 3, 2, 1]


async def test_a_digit_sorts_by_that_column(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        shown = [column.name for column, _ in table(pilot).layout_now.places]
        await pilot.press(str(shown.index("loss") + 1))
        assert numbers(pilot) == [3, 1, 4, 2]
        await pilot.press(str([column.name for column, _ in table(pilot).layout_now.places].index("loss") + 1))
        assert numbers(pilot) == [4, 1, 3, 2]
        await pilot.press("2")
        assert table(pilot).sorted_by.name == "preset"


async def test_marked_runs_are_compared_in_the_order_of_marking(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("end", "space", "home", "space")
        assert "2 marked" in screen_text(pilot)
        assert "*000004" in screen_text(pilot)
        assert here(pilot) == 3
        await pilot.press("s", "slash", *"sgd", "enter", "c")
        entries = screen.view.entries
        assert pilot.app.asked == [("open_compare", entries[3].path, entries[0].path)]


async def test_one_marked_run_is_compared_with_the_highlighted_one(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("space", "c")
        entries = screen.view.entries
        assert pilot.app.asked == [("open_compare", entries[0].path, entries[1].path)]
        await pilot.press("up", "c")
        assert pilot.app.asked[1] == ("report_error", "1 run marked", "space marks; compare takes 2 to 6")


async def test_more_than_six_are_too_many(show, context):
    view = view_of(*(entry(context.out, number) for number in reversed(range(7))))
    async with show(RunsScreen(Source(view))) as pilot:
        await settle(pilot)
        await pilot.press("asterisk", "c")
        assert pilot.app.asked == [("report_error", "7 runs marked", "space marks; compare takes 2 to 6")]
        await pilot.press("u", "c")
        assert pilot.app.asked[1][1] == "no runs are marked"


async def test_a_mark_is_taken_away_and_goes_with_its_run(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("space", "up", "space")
        assert not table(pilot).marked
        await pilot.press("home", "space", "space")
        await see(pilot, view_of(*some(context.out).entries[1:]))
        assert list(table(pilot).marked) == [screen.view.entries[0].row.path]


async def test_y_copies_the_path(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("y")
        assert pilot.app.asked == [("copy_text", str(screen.view.entries[0].path))]


async def test_a_starts_the_run_again_with_its_own_settings(show, context):
    path = run_directory(context.out, preset=preset_dict(name="mine", run={"seed": 99}))
    launches = Launches()
    async with show(RunsScreen(None, launches)) as pilot:
        await settle(pilot)
        await pilot.press("a")
        await settle(pilot)
        ((preset, argv),) = launches.started
        assert (preset.name, preset.run.seed) == ("mine", 99)
        assert argv == ("gradscope", "run", "mine")
        assert pilot.app.asked == [("open_live", context.out / "mine" / "20270115T080000Z-0a1b2c")]
        (path / "manifest.json").unlink()
        await pilot.press("a")
        await settle(pilot)
        assert pilot.app.asked[1][0:2] == ("report_error", f"the settings of {path.name} are not known")
        assert len(launches.started) == 1


@pytest.mark.parametrize("key", ["x", "delete"])
async def test_deleting_asks_first(show, context, key):
    kept = run_directory(context.out, run_id="20270115T080000Z-000001")
    gone = run_directory(context.out, run_id="20270115T080001Z-000002")
    async with show(RunsScreen()) as pilot:
        await settle(pilot)
        await pilot.press(key)
        await settle(pilot)
        asked = pilot.app.screen
        assert isinstance(asked, ConfirmScreen)
        assert asked.question == "delete run 000002?"
        assert "this cannot be taken back" in asked.detail
        await pilot.press("n")
        await settle(pilot)
        assert gone.exists()
        await pilot.press(key)
        await settle(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert [handle.path for handle in all_runs(context.out)] == [kept]
        assert numbers(pilot) == [1]
        (note,) = pilot.app._notifications
        assert note.message.startswith("1 run deleted, ")


async def test_marked_runs_are_deleted_also_those_not_listed_and_it_says_so(show, context):
    for number in range(3):
        run_directory(
            context.out, run_id=f"20270115T08000{number}Z-00000{number}", preset=preset_dict(name=f"p{number}")
        )
    async with show(RunsScreen()) as pilot:
        await settle(pilot)
        await pilot.press("space", "space", "slash", *"p1", "enter", "x")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert pilot.app.screen.question == "delete 2 runs?"
        assert "1 of them is marked, but not listed now" in pilot.app.screen.detail
        assert "Y delete all 2" in screen_text(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert len(all_runs(context.out)) == 3
        await pilot.press("Y")
        await settle(pilot)
        assert [handle.path.parent.name for handle in all_runs(context.out)] == ["p0"]
        assert not table(pilot).marked


async def test_a_running_one_is_never_deleted(show, context):
    going = run_directory(context.out, Status.MEASURING, run_id="20270115T080001Z-000001")
    over = run_directory(context.out, run_id="20270115T080000Z-000000")
    async with show(RunsScreen()) as pilot:
        await settle(pilot)
        await pilot.press("x")
        await settle(pilot)
        hint = "`gradscope stop 000001` ends it"
        assert pilot.app.asked == [("report_error", f"{going.name} is running", hint)]
        await pilot.press("asterisk", "x")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert pilot.app.screen.question == "delete run 000000?"
        assert f"stays: {going.name} is running" in pilot.app.screen.detail
        await pilot.press("y")
        await settle(pilot)
        assert going.exists()
        assert not over.exists()


async def test_a_failed_deletion_is_told(show, context, monkeypatch):
    run = run_directory(context.out)

    def refused(path: Path) -> None:
        raise GradscopeError("cannot delete [/red]", "see who owns it")

    monkeypatch.setattr(deleting, "remove_run", refused)
    async with show(RunsScreen()) as pilot:
        await settle(pilot)
        await pilot.press("x")
        await settle(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert pilot.app.asked == [("report_error", "cannot delete [/red]", "see who owns it")]
        assert run.exists()
        assert pilot.app.screen.deleting == 0


async def test_while_runs_are_deleted_the_title_says_so_and_x_does_nothing(show, context, monkeypatch):
    run_directory(context.out)
    go_on = threading.Event()
    monkeypatch.setattr(deleting, "remove_run", lambda path: go_on.wait(10))
    async with show(RunsScreen()) as pilot:
        await settle(pilot)
        await pilot.press("x")
        await settle(pilot)
        await pilot.press("y")
        await pilot.pause()
        assert "deleting 1 run …" in screen_text(pilot)
        await pilot.press("x")
        await pilot.pause()
        assert not isinstance(pilot.app.screen, ConfirmScreen)
        go_on.set()
        await settle(pilot)
        assert "deleting" not in screen_text(pilot)


async def test_running_ones_stand_on_top_and_update_by_themselves(show, context):
    going = running(context.out)
    view = view_of(running_entry(going), *some(context.out).entries)
    screen = RunsScreen(Source(view))
    async with show(screen, size=(160, 30)) as pilot:
        await settle(pilot)
        assert numbers(pilot) == [10, 4, 3, 2, 1]
        assert "1 running" in screen_text(pilot)
        assert "measuring 12/60" in screen_text(pilot)
        assert screen._next_look is not None
        assert screen._next_look._interval == context.refresh_seconds
        later = replace(going, standing=replace(going.standing, stage_done=13))
        await see(pilot, view_of(running_entry(later), *some(context.out).entries))
        assert "measuring 13/60" in screen_text(pilot)


async def test_the_highlight_stays_with_its_run_when_others_come(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("down")
        await see(pilot, view_of(entry(context.out, 5), *some(context.out).entries))
        assert here(pilot) == 3
        assert numbers(pilot)[0] == 5


async def test_all_about_the_highlighted_run_is_below_and_foreign_text_is_literal(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        assert "quick · vit · sgd · standard · cpu · fp32 · 2 min ago" in screen_text(pilot)
        assert "done · loss 3 · step 142 ms · peak 300 MiB" in screen_text(pilot)
        await pilot.press("down", "down")
        assert r"oom: at step 3, backward: [/red]\e[2J" in screen_text(pilot)
        assert "20270115T075802Z-000002" in screen_text(pilot)


async def test_foreign_names_in_cells_and_titles_are_literal(show, context):
    strange = entry(context.out, 1, preset="[/red]\x1b[2J", optimizer="[bold]x", reason="[/]")
    async with show(RunsScreen(Source(view_of(strange))), size=(160, 24)) as pilot:
        await settle(pilot)
        assert r"[/red]\e[2J" in screen_text(pilot)
        assert "[bold]x" in screen_text(pilot)


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (80, 24), (160, 48), (300, 80)])
async def test_any_size_shows_the_highlighted_run(show, screen, size):
    async with show(screen, size=size) as pilot:
        await settle(pilot)
        assert "000004" in screen_text(pilot) or size == (20, 5)
        await pilot.resize_terminal(100, 30)
        await settle(pilot)
        assert "000004" in screen_text(pilot)


async def test_ascii_terminals(show, screen, context):
    async with show(screen, context=make_context(context.out, ascii_only=True)) as pilot:
        await settle(pilot)
        await pilot.press("s", "space")
        text = screen_text(pilot)
        assert text.isascii()
        assert "^loss" in text
        assert " *000003" in text


async def test_without_colour_mark_and_highlight_are_seen(show, screen, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("space")
        assert " *000004" in screen_text(pilot)
        assert "▸ 000003" in screen_text(pilot)


async def test_two_thousand_runs_draw_only_what_is_seen(show, context, monkeypatch):
    many = view_of(*(replace_id(entry(context.out, 1), number) for number in range(2000)))
    async with show(RunsScreen(Source(many))) as pilot:
        await settle(pilot)
        drawn: list[int] = []
        really = RunTable.render_line

        def counted(self: RunTable, y: int) -> object:
            drawn.append(y)
            return really(self, y)

        monkeypatch.setattr(RunTable, "render_line", counted)
        await pilot.press("end")
        assert here_id(pilot) == "20270115T000000Z-0007cf"
        await pilot.press("slash", *"0007ce")
        assert len(table(pilot).entries) == 1
        assert len(drawn) <= 24 * 10


def replace_id(one: Entry, number: int) -> Entry:
    import msgspec

    run_id = f"20270115T000000Z-{number:06x}"
    row = msgspec.structs.replace(one.row, run_id=run_id, path=f"/traces/quick/{run_id}")
    return Entry(msgspec.structs.replace(row, created_wall_ns=NOW_WALL_NS - number * 10**9))


def here_id(pilot: Pilot[None]) -> str:
    found = table(pilot).entry
    assert found is not None
    return found.row.run_id


async def test_nothing_is_read_while_another_screen_is_open(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot)
        assert screen._asleep
        await pilot.press("escape")
        await settle(pilot)
        assert not screen._asleep
        assert screen._next_look is not None


async def test_clicks_highlight_and_open(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.click(RunTable, offset=(5, 2))
        assert here(pilot) == 3
        await pilot.click(RunTable, offset=(5, 2))
        await settle(pilot)
        assert pilot.app.asked == [("open_run", screen.view.entries[1].path)]
