"""The form of a preset: every field, checked as the command line checks it."""

import shlex
from dataclasses import replace

import pytest
from home_views import CPU_ONLY, GIB, Launches
from shown_app import make_context
from textual import events
from textual.pilot import Pilot

from gradscope.analysis.expect import Expected, Source, outlook
from gradscope.config.fields import fields
from gradscope.config.load import load_preset
from gradscope.errors import GradscopeError
from gradscope.tui.home.form import open_form
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.edit import EditScreen
from gradscope.tui.widgets.item_list import ItemList
from gradscope.tui.widgets.rows import Rows


def edit(name: str = "quick", launches: Launches | None = None) -> EditScreen:
    return EditScreen(open_form(name), machine=CPU_ONLY, launcher=launches or Launches())


def text_of(pilot: Pilot[None], name: str) -> str:
    rows = pilot.app.screen.query_one(f"#{name}", Rows).rows
    return " ".join(" ".join("".join(span.text for span in row) for row in rows).split())


def screen_text(pilot: Pilot[None]) -> str:
    lines = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def go(pilot: Pilot[None], key: str) -> None:
    assert pilot.app.screen.query_one("#fields", ItemList).highlight(key)


async def settle(pilot: Pilot[None]) -> None:
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def message(name: str, *overrides: str) -> str:
    """What the command line says."""
    with pytest.raises(GradscopeError) as found:
        load_preset(name, overrides)
    return " ".join(f"{found.value.message} {found.value.hint}".split())


async def test_every_field_is_listed(show):
    async with show(edit(), size=(160, 80)) as pilot:
        keys = [item.key for item in pilot.app.screen.query_one("#fields", ItemList).items if not item.heading]
        assert keys == [one.key for one in fields()]


async def test_a_value_is_typed_checked_and_taken(show, context):
    async with show(edit(), context=context) as pilot:
        screen = pilot.app.screen
        go(pilot, "optimizer.lr")
        await pilot.press("enter", *"0.0x")
        assert text_of(pilot, "verdict") == f"✗ {message('quick', 'optimizer.lr=0.0x')}"
        assert screen.command == f"gradscope run quick -s optimizer.lr=0.0x --out {context.out}"
        assert screen.form.overrides == ()
        await pilot.press("backspace", "1", "enter")
        assert screen.form.overrides == ("optimizer.lr=0.01",)
        assert screen.form.preset.optimizer.lr == 0.01
        assert text_of(pilot, "verdict") == "ready: ~7.8 s, ~33 MiB (rough), fits"
        assert pilot.app.focused.id == "fields"
        (row,) = [line for line in screen_text(pilot).splitlines() if "was 0.001" in line]
        assert "▸ * lr" in row


async def test_escape_puts_back_what_the_field_had(show):
    async with show(edit()) as pilot:
        go(pilot, "run.seed")
        await pilot.press("enter", *"77", "escape")
        assert pilot.app.screen.form.overrides == ()
        assert pilot.app.screen.query_one("#value").value == "0"
        assert pilot.app.focused.id == "fields"


async def test_what_is_typed_is_kept_when_tab_leaves_the_field(show):
    async with show(edit()) as pilot:
        go(pilot, "run.seed")
        await pilot.press("enter", *"77", "tab")
        await pilot.pause()
        assert pilot.app.screen.form.overrides == ("run.seed=77",)


async def test_left_and_right_step_through_choices(show):
    async with show(edit()) as pilot:
        go(pilot, "memory.strategy")
        await pilot.pause()
        assert "activations of each block recomputed in backward" in text_of(pilot, "about")
        await pilot.press("right")
        assert pilot.app.screen.form.overrides == ("memory.strategy=checkpoint",)
        await pilot.press("left", "left")
        assert pilot.app.screen.form.overrides == ("memory.strategy=checkpoint-accumulate",)
        go(pilot, "run.seed")
        await pilot.press("right")
        assert pilot.app.screen.form.overrides == ("memory.strategy=checkpoint-accumulate",)


async def test_up_and_down_step_through_choices_while_typing(show):
    async with show(edit()) as pilot:
        go(pilot, "optimizer.name")
        await pilot.press("enter", "down", "enter")
        assert pilot.app.screen.form.overrides == ("optimizer.name=adamw",)


async def test_a_rule_over_two_fields_is_told_until_both_fit(show):
    async with show(edit()) as pilot:
        go(pilot, "memory.accumulate")
        await pilot.press("enter", "4", "enter")
        assert text_of(pilot, "verdict") == f"✗ {message('quick', 'memory.accumulate=4')}"
        await pilot.press("r")
        await settle(pilot)
        assert pilot.app.asked[-1][0] == "report_error"
        go(pilot, "memory.strategy")
        await pilot.press("right", "right")
        assert pilot.app.screen.form.error is None
        assert pilot.app.screen.form.overrides == ("memory.accumulate=4", "memory.strategy=accumulate")


async def test_another_budget_takes_the_place_of_the_one_that_was_set(show):
    async with show(edit()) as pilot:
        go(pilot, "budget.updates")
        await pilot.press("enter", *"50", "enter")
        go(pilot, "budget.seconds")
        await pilot.press("enter", *"20", "enter")
        form = pilot.app.screen.form
        assert (form.overrides, form.error) == (("budget.seconds=20",), None)
        assert form.text("budget.updates") == "none"
        assert form.differs("budget.updates")


async def test_u_undoes_a_field_and_capital_u_all(show):
    async with show(edit()) as pilot:
        screen = pilot.app.screen
        for key in ("run.seed", "run.warmup"):
            go(pilot, key)
            await pilot.press("enter", "9", "enter")
        await pilot.press("u")
        assert screen.form.overrides == ("run.seed=9",)
        await pilot.press("U")
        assert screen.form.overrides == ()
        assert screen.form.preset == load_preset("quick")


async def test_setting_the_presets_own_value_is_no_change(show):
    async with show(edit()) as pilot:
        go(pilot, "run.seed")
        await pilot.press("enter", "9", "enter", "enter", "0", "enter")
        assert pilot.app.screen.form.overrides == ()


async def test_fields_are_found_by_name_and_meaning(show):
    async with show(edit()) as pilot:
        await pilot.press("slash", *"learning rate")
        listed = pilot.app.screen.query_one("#fields", ItemList)
        assert [item.key for item in listed.items if not item.heading] == ["optimizer.lr"]
        await pilot.press("enter")
        assert pilot.app.focused.id == "fields"
        assert text_of(pilot, "about").startswith("Learning rate; the optimizer's own default where it is not given.")
        await pilot.press("slash", "escape")
        assert len([item for item in listed.items if not item.heading]) == len(fields())
        await pilot.press("slash", *"zzz")
        assert "nothing found" in screen_text(pilot)
        assert pilot.app.screen.command.startswith("gradscope run quick")


async def test_the_line_is_quoted_for_a_shell_and_copied(show):
    async with show(edit(), context=make_context_of_usual_root()) as pilot:
        go(pilot, "model.options")
        await pilot.press("enter")
        pilot.app.screen.query_one("#value").value = '{num_hidden_layers = 2, note = "it\'s $HOME"}'
        await pilot.press("enter", "y")
        (_, line) = pilot.app.asked[-1]
        assert shlex.split(line) == [
            *("gradscope", "run", "quick", "-s"),
            'model.options={num_hidden_layers = 2, note = "it\'s $HOME"}',
        ]
        assert load_preset("quick", shlex.split(line)[4:]) == pilot.app.screen.form.preset


def make_context_of_usual_root():
    from pathlib import Path

    return make_context(Path("traces"))


async def test_foreign_text_in_a_value_is_shown_as_it_is(show):
    async with show(edit()) as pilot:
        go(pilot, "description")
        await pilot.press("enter")
        pilot.app.screen.query_one("#value").value = "[/red] \x1b]0;X\x07"
        await pilot.pause()
        assert "[/red] \\e]0;X\\x07" in screen_text(pilot)


async def test_r_starts_the_edited_preset_and_leaves_the_form(show, context):
    launches = Launches()
    async with show(edit(launches=launches), context=context) as pilot:
        go(pilot, "run.seed")
        await pilot.press("enter", "9", "enter", "r")
        await settle(pilot)
        ((preset, argv),) = launches.started
        assert preset == load_preset("quick", ["run.seed=9"])
        assert argv == ("gradscope", "run", "quick", "-s", "run.seed=9", "--out", str(context.out))
        assert pilot.app.asked == [("open_live", context.out / "quick" / "20270115T080000Z-0a1b2c")]


async def test_d_starts_it_detached(show):
    launches = Launches()
    async with show(edit(launches=launches)) as pilot:
        await pilot.press("d")
        await settle(pilot)
        assert len(launches.started) == 1
        assert pilot.app.asked == []
        assert [note.title for note in pilot.app._notifications] == ["quick runs in the background"]


async def test_what_would_not_fit_asks_first(show):
    launches = Launches()
    async with show(edit("llama-1b", launches)) as pilot:
        await pilot.press("r")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ConfirmScreen)
        await pilot.press("y")
        await settle(pilot)
        assert launches.started == []
        await pilot.press("Y")
        await settle(pilot)
        assert len(launches.started) == 1


async def test_every_change_is_handed_to_who_opened_the_form(show):
    kept = []
    screen = EditScreen(open_form("quick"), machine=CPU_ONLY, keep=kept.append)
    async with show(screen) as pilot:
        await pilot.press("right", "u")
        assert [form.overrides for form in kept] == [("model.name=modernbert",), ()]


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (40, 12), (40, 10)])
async def test_every_size_shows_a_field_its_value_and_the_line(show, size):
    async with show(edit(), size=size) as pilot:
        text = screen_text(pilot)
        assert "▸   name" in text
        assert "model.name = vit" in text
        assert "$ gradscope run quick" in text
        await pilot.press("enter", "x")
        assert "✗ model.name in -s" in screen_text(pilot)


async def test_ascii_only(show, tmp_path):
    async with show(edit(), context=make_context(tmp_path / "traces", ascii_only=True)) as pilot:
        await pilot.press("enter", "x")
        text = screen_text(pilot)
        assert text.isascii(), sorted(set(text) - set(map(chr, range(128))))


async def test_escape_lists_all_fields_before_it_goes_back(show):
    async with show(edit()) as pilot:
        await pilot.press("slash", *"lr", "enter")
        assert pilot.app.screen.query_one("#finding").display
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, EditScreen)
        assert not pilot.app.screen.query_one("#finding").display
        assert len(pilot.app.screen.query_one("#fields", ItemList).items) > 20


async def test_an_unchanged_preset_is_expected_to_take_what_it_took(show):
    known = replace(outlook(load_preset("quick"), CPU_ONLY, None), expected=Expected(12.5, 3 * GIB, Source.LAST_RUN))
    screen = EditScreen(open_form("quick"), machine=CPU_ONLY, known=known)
    async with show(screen) as pilot:
        assert "12 s, 3.0 GiB (its last run)" in text_of(pilot, "verdict")
        screen._take(screen.form.with_value("run.warmup", "7"))
        assert "(rough)" in text_of(pilot, "verdict")


async def test_keys_that_are_sent_while_a_field_opens_are_its_value(show):
    launches = Launches()
    async with show(edit(launches=launches)) as pilot:
        go(pilot, "optimizer.name")
        await pilot.pause()
        for key in ("enter", *"adamw", "enter"):  # d, by itself, starts a run
            pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settle(pilot)
        await settle(pilot)
        assert pilot.app.screen.form.overrides == ("optimizer.name=adamw",)
        assert pilot.app.focused is pilot.app.screen.query_one("#fields")
        assert launches.started == []
