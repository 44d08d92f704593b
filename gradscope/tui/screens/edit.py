"""The form of a preset: every field, checked as you type, and the command line that does the same."""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Footer, Input, Static

from gradscope.analysis.expect import Outlook, outlook
from gradscope.analysis.machine import Machine
from gradscope.config.fields import Field
from gradscope.core.text import visible
from gradscope.core.units import format_number_of
from gradscope.launch.estimate import Estimator
from gradscope.launch.spawn import launch
from gradscope.tui.charts.cells import Row
from gradscope.tui.home.command import run_line, run_words
from gradscope.tui.home.foretelling import ForetellingScreen, MemoryEstimator
from gradscope.tui.home.form import Form, find_fields, next_choice
from gradscope.tui.home.form_rows import about, field_row, table_row, verdict
from gradscope.tui.home.form_widgets import FieldList, FilterInput, ValueInput
from gradscope.tui.home.launching import Launch, Launcher
from gradscope.tui.home.text import fitted
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.widgets.foreign import literal
from gradscope.tui.widgets.item_list import Item, ItemList
from gradscope.tui.widgets.rows import Rows

NARROW = 64
"""Columns below which the explanation gives its room to the fields."""

FIRST_FIELD = "model.name"
"""Highlighted at first: what a preset is called, above it, is rarely changed."""

MOST_COMMAND_ROWS = 3
VERDICT_ROWS = 2
"""Kept for the verdict, so that little moves while one types."""

SHORT = 14
"""Rows up to which every row counts."""


class EditScreen(ForetellingScreen):
    """Fields on the left, what the highlighted one means on the right, its value and the verdict below."""

    AUTO_FOCUS = "#fields"
    HELP = (
        "Every setting of the preset. * marks what you changed; `default` is gradscope's own value, everything else is "
        "the preset's. A change is checked as the command line checks it, and the line at the bottom does the same "
        "as the form. m foretells the memory of the form as it is, in a process of its own; escape stops that. "
        "What you change here is kept until you leave gradscope; the preset's file is not touched."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "launch", "run", tooltip="Start it and watch it"),
        Binding("d", "launch_detached", "detached", tooltip="Start it and go back"),
        Binding("m", "foretell", "foretell", tooltip="Foretell its memory without running it"),
        Binding("left", "choice(-1)", "choice before", show=False, tooltip="The choice before the highlighted value"),
        Binding("right", "choice(1)", "next choice", show=False, tooltip="The choice after the highlighted value"),
        Binding("slash", "find", "find", key_display="/", tooltip="Find a field by words of its name or meaning"),
        Binding("u", "undo", "undo", tooltip="Put back the preset's own value of this field"),
        Binding("U", "undo_all", "undo all", show=False, tooltip="Put back the preset's own values of all fields"),
        Binding("y", "copy", "copy", tooltip="Copy the command line at the bottom"),
        Binding("escape", "leave", "back", show=False, tooltip="List all fields again, or go back"),
    ]
    DEFAULT_CSS = """
    EditScreen { layout: vertical; }
    EditScreen #title { height: 1; padding: 0 1; }
    EditScreen #middle { height: 1fr; }
    EditScreen #fields, EditScreen #about { border-top: solid $border-blurred; padding: 0 1; height: 100%; }
    EditScreen #fields:focus { border-top: solid $border; }
    EditScreen #fields { width: 11fr; }
    EditScreen #about { width: 9fr; }
    EditScreen .entry { height: 1; border-top: none; }
    EditScreen .entry Static { width: auto; padding: 0 1; }
    EditScreen Input { width: 1fr; }
    EditScreen #verdict { height: 2; padding: 0 1; }
    EditScreen #command { height: auto; max-height: 3; padding: 0 1; }
    EditScreen.-ascii #fields, EditScreen.-ascii #about { border-top: ascii $border-blurred; }
    """

    def __init__(
        self,
        form: Form,
        *,
        machine: Machine | None = None,
        keep: Callable[[Form], None] | None = None,
        known: Outlook | None = None,
        launcher: Launcher = launch,
        estimator: Callable[[], MemoryEstimator] = Estimator,
    ) -> None:
        """Make it.

        Args:
            form: The preset, with what was changed before.
            machine: This one.
            keep: Told of every change, so that the form can be opened again as it was left.
            known: What to expect of the preset without changes, from its last run.
            launcher: Starts runs.
            estimator: Foretells memory.
        """
        super().__init__(launcher, estimator)
        self.form = form
        """What was taken."""
        self._typed: Form | None = None
        """What it would be with the value that is being typed."""
        self._machine = machine
        self._known = known
        self._keep = keep
        self._fields: dict[str, Field] = {}

    @property
    def current(self) -> Form:
        """The form with what is being typed."""
        return self._typed or self.form

    @property
    def command(self) -> str:
        """The command line that does the same."""
        return run_line(self.form.name, self.current.overrides, self.context.out)

    def compose(self) -> ComposeResult:
        """Fields and explanation; value, filter, verdict, command line."""
        yield Static(id="title")
        with Horizontal(id="middle"):
            yield FieldList("fields", id="fields")
            yield Rows(id="about")
        with Horizontal(id="finding", classes="entry"):
            yield Static(literal("find"))
            yield FilterInput(compact=True, id="filter", placeholder="words of a field's name or meaning")
        with Horizontal(id="entering", classes="entry"):
            yield Static(id="label")
            yield ValueInput(compact=True, id="value")
        yield Rows(id="verdict")
        yield Static(id="command")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start at the first field."""
        self.set_class(not self.context.glyphs.unicode, "-ascii")
        self.query_one("#finding").display = False
        self._list_fields()
        self._fields_list.highlight(FIRST_FIELD)
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        """Give the fields the room of the explanation where there is little."""
        self.query_one("#about").display = event.size.width >= NARROW
        self.query_one("#command").styles.max_height = MOST_COMMAND_ROWS if event.size.height > SHORT else 1
        self.call_after_refresh(self._show)

    # showing

    @property
    def _fields_list(self) -> FieldList:
        return self.query_one(FieldList)

    @property
    def _value(self) -> ValueInput:
        return self.query_one(ValueInput)

    def _list_fields(self) -> None:
        found = find_fields(self.query_one(FilterInput).value)
        self._fields = {one.key: one for one in found}
        glyphs = self.context.glyphs
        items: list[Item] = []
        for table, members in groupby(found, key=lambda one: one.table):
            items.append(Item(f"table {table}", partial(table_row, table, glyphs), heading=True))
            items += [Item(one.key, partial(field_row, one, self.form, glyphs)) for one in members]
        nothing = Item("", lambda width, _: table_row("nothing found", glyphs, width), heading=True)
        self._fields_list.show(items or [nothing])

    def _field(self) -> Field | None:
        return self._fields.get(self._fields_list.highlighted or "")

    def _show(self) -> None:
        """Show everything but the list, as it is now."""
        form, one, glyphs = self.current, self._field(), self.context.glyphs
        changes = format_number_of(len(form.changed), "change")
        state = f"starting {visible(self.starting)} {glyphs.ellipsis}" if self.starting else changes
        left = f"edit {visible(form.name)}"
        room = max(0, self.size.width - 2 - len(left) - 1)
        self.query_one("#title", Static).update(
            literal(f"{left} {fitted(state, room, glyphs.ellipsis, right=True)}"), layout=False
        )
        panel = self.query_one("#about", Rows)
        panel.border_title = literal("" if one is None else one.key)
        panel.show([] if one is None else about(one, form, glyphs, panel.size.width or 34))
        self.query_one("#label", Static).update(literal("" if one is None else f"{one.key} ="))
        if self._typed is None:
            with self.prevent(Input.Changed):
                self._value.value = "" if one is None else form.text(one.key)
        foretold = self.foretold(form.preset) if form.error is None else None
        self._show_verdict(verdict(form, self._outlook(form), glyphs, max(10, self.size.width - 2), foretold))
        self.query_one("#command", Static).update(literal(f"$ {self.command}"))

    def _show_verdict(self, rows: list[Row]) -> None:
        """Give a long message the room it needs, up to a third of the screen."""
        panel = self.query_one("#verdict", Rows)
        least = VERDICT_ROWS if self.size.height > SHORT else 1
        wanted = max(least, min(len(rows), self.size.height // 3))
        if panel.styles.height is None or panel.styles.height.value != wanted:
            panel.styles.height = wanted
        panel.show(rows)

    def _outlook(self, form: Form) -> Outlook | None:
        if self._known is not None and not form.changed:
            return self._known
        return None if self._machine is None else outlook(form.preset, self._machine, None)

    def _take(self, form: Form) -> None:
        """Make a change count."""
        self.form, self._typed = form, None
        if self._keep is not None:
            self._keep(form)
        self._list_fields()
        self._show()

    def on_item_list_highlighted(self, event: ItemList.Highlighted) -> None:
        """Explain the highlighted field."""
        event.stop()
        self._show()

    # changing values

    def on_item_list_chosen(self, event: ItemList.Chosen) -> None:
        """Type a value."""
        event.stop()
        self.set_focus(self._value)

    def on_item_list_left(self, event: ItemList.Left) -> None:
        """Nothing lies beyond the first and last field."""
        event.stop()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Check what is typed, or find fields."""
        event.stop()
        one = self._field()
        if event.input is not self._value:
            self._list_fields()
            self._fields_list.highlight_edge(-1)
            self._show()
        elif one is not None and self._value.has_focus:
            self._typed = self.form.with_value(one.key, event.value.strip())
            self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the value."""
        event.stop()
        if event.input is self._value:
            self._take(self.current)
            self.set_focus(self._fields_list)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """A value that is left by tab or mouse is kept."""
        if event.widget is self._value and self._typed is not None:
            self._take(self._typed)

    def action_leave_value(self) -> None:
        """Put back what the field had before typing."""
        self._typed = None
        self._show()
        self.set_focus(self._fields_list)

    def action_choice(self, direction: int) -> None:
        """Step through the choices of the field."""
        one = self._field()
        text = None if one is None else next_choice(one, self.current.text(one.key), direction)
        if one is None or text is None:
            return
        if self._value.has_focus:
            self._value.value = text
            self._value.action_end()
        else:
            self._take(self.form.with_value(one.key, text))

    def action_undo(self) -> None:
        """Put back the preset's own value."""
        one = self._field()
        if one is not None:
            self._take(self.form.without(one.key))

    def action_undo_all(self) -> None:
        """Put back all of the preset's own values."""
        self._take(self.form.cleared())

    # finding fields

    def action_find(self) -> None:
        """Type words to find a field by."""
        self.query_one("#finding").display = True
        self.set_focus(self.query_one(FilterInput))

    def action_to_fields(self) -> None:
        """Go to what was found; the words stay while they leave anything out."""
        self.query_one("#finding").display = bool(self.query_one(FilterInput).value.strip())
        self.set_focus(self._fields_list)

    def action_clear_filter(self) -> None:
        """List all fields again."""
        self.query_one(FilterInput).value = ""
        self.query_one("#finding").display = False
        self.set_focus(self._fields_list)

    # leaving

    def action_leave(self) -> None:
        """List all fields again, else go back."""
        if self.query_one("#finding").display:
            self.action_clear_filter()
        else:
            super().action_leave()

    def action_copy(self) -> None:
        """Copy the command line."""
        self.front.copy_text(self.command)

    def action_launch(self) -> None:
        """Start it and watch it."""
        self._launch(detached=False)

    def action_launch_detached(self) -> None:
        """Start it and go back."""
        self._launch(detached=True)

    def _launch(self, *, detached: bool) -> None:
        form = self.form
        if form.error is not None:
            self.front.report_error(form.error.message, form.error.hint)
            return
        argv = tuple(run_words(form.name, form.overrides, self.context.out))
        wanted = Launch(form.preset, argv, detached)
        ahead = self._outlook(form)
        if ahead is None or not ahead.obstacle:
            self.start(wanted)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.start(wanted)

        detail = f"it {ahead.obstacle}\n{ahead.remedy}".strip()
        question = ConfirmScreen(f"start {form.name} all the same?", detail, yes="start", firm=True)
        self.app.push_screen(question, answered)

    def action_foretell(self) -> None:
        """Foretell the memory of the form as it is."""
        if self.form.error is not None:
            self.front.report_error(self.form.error.message, self.form.error.hint)
        else:
            self.foretell(self.form.preset)

    def foretelling_changed(self) -> None:
        """Show it in the verdict."""
        self._show()

    def starting_changed(self) -> None:
        """Say in the title what is being started."""
        self._show()

    def launched(self, path: Path, wanted: Launch) -> None:
        """Leave the form; back from the run is home."""
        if self.is_current:
            self.front.go_back()
        if not wanted.detached:
            self.front.open_live(path)
