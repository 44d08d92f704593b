"""Two to six runs side by side: numbers, what makes the difference, curves over each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Footer

from gradscope.analysis.comparison import compare
from gradscope.analysis.comparison_words import method_words
from gradscope.analysis.sides import LETTERS, MOST_SIDES
from gradscope.core.text import visible
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.compare.bars import Shown
from gradscope.tui.compare.curves import KINDS, Kind, overlaid
from gradscope.tui.compare.numbers import explained, lines_of
from gradscope.tui.compare.reading import Read, read_runs
from gradscope.tui.panes.base import fitted, in_ascii, message, one_cell, wrapped
from gradscope.tui.results.lines import Line, LinesView
from gradscope.tui.screens.base import GradscopeScreen
from gradscope.tui.widgets.plot import Plot
from gradscope.tui.widgets.rows import Rows

WIDE = 130
"""Columns from which on curves stand beside the numbers."""
CURVES_SHARE = 0.45
TALL = 26
"""Rows from which on loss and step time stand below each other."""
DETAIL_ROWS = 3


class CompareScreen(GradscopeScreen):
    """Several runs against one of them."""

    AUTO_FOCUS = "LinesView"
    HELP = (
        "Runs side by side. The baseline's numbers stand as they are, the others as differences from them; a mark says "
        "that a difference is beyond noise. The unit is the run: with one run a side, sizes are compared exactly and "
        "what is measured stays undecided; `gradscope compare PRESET -b KEY=VALUE --repeat 5` decides. Below: which "
        "phase and which memory category make the difference, on a common scale."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "baseline(1)", "baseline", id="compare.baseline", tooltip="Compare with the next run"),
        Binding("B", "baseline(-1)", "baseline before", id="compare.baseline_before", show=False),
        Binding("c", "curves", "curves", id="compare.curves", tooltip="Next curve: loss, step time; by step, by time"),
        Binding("C", "no_curves", "no curves", id="compare.no_curves", show=False, tooltip="Numbers only"),
        Binding("l", "logarithmic", "lin/log", id="compare.log", tooltip="The loss on a logarithmic axis, or a linear"),
        Binding("y", "copy", "copy", id="compare.copy", tooltip="Copy everything that is shown as text"),
        Binding(
            "Y", "copy_command", "copy command", id="compare.copy_command", show=False, tooltip="The same in a shell"
        ),
        Binding("R", "read_again", "read again", id="compare.read", show=False, tooltip="Read the runs once more"),
    ]
    DEFAULT_CSS = """
    CompareScreen { layout: vertical; }
    CompareScreen #title, CompareScreen #curve-title { height: 1; }
    CompareScreen #body { height: 1fr; }
    CompareScreen #lines { width: 1fr; }
    CompareScreen #curves { width: 1fr; height: 1fr; }
    CompareScreen #detail { height: 3; padding: 0 1; }
    """

    class WasRead(Message):
        """The runs were read."""

        bubble = False

        def __init__(self, found: Read) -> None:
            super().__init__()
            self.found = found

    def __init__(self, paths: Sequence[Path], *, found: Read | None = None) -> None:
        """`paths` of run directories, the first is the baseline; `found` is what lies there, where that is known."""
        super().__init__()
        self.paths = tuple(paths)[:MOST_SIDES]
        self.found = found
        """What was read; `None` until then."""
        self.shown: Shown | None = None
        self.baseline = 0
        """Index of the run that the others are compared with."""
        self.curve: int | None = None
        """Which of `KINDS` is drawn; `None` where there is no room and nobody asked."""
        self.log_scale = False
        """Whether losses are drawn on a logarithmic axis."""

    def compose(self) -> ComposeResult:
        """Title, numbers beside curves, what is highlighted in full, keys."""
        yield Rows(id="title")
        with Horizontal(id="body"):
            yield LinesView(id="lines")
            yield Plot(id="curves")
        yield Rows(id="detail")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read on a thread."""
        self._arrange()
        if self.found is None:
            self.action_read_again()
        else:
            self._take(self.found)

    def on_resize(self) -> None:
        """Put curves beside the numbers, or in their place."""
        self._arrange()
        self._draw()

    # reading

    def action_read_again(self) -> None:
        """Read the runs once more."""
        self.run_worker(self._read, thread=True, group="compare", exclusive=True)

    def _read(self) -> None:
        self.post_message(self.WasRead(read_runs(self.paths)))

    def on_compare_screen_was_read(self, message: WasRead) -> None:
        """Show what was read."""
        self._take(message.found)

    def _take(self, found: Read) -> None:
        self.found = found
        self.baseline = min(self.baseline, max(0, len(found.sides) - 1))
        for problem in found.problems:
            self.front.report_error(problem)
        self._compare()

    def _compare(self) -> None:
        found = self.found
        if found is not None and len(found.sides) > 1:
            result = compare(found.sides, baseline=self.baseline)
            self.shown = Shown(found.sides, result, self.context.glyphs)
        else:
            self.shown = None
        with self.app.batch_update():
            self.query_one(LinesView).show_lines(self._lines)
            self._draw()

    def _lines(self, width: int, height: int) -> list[Line]:
        if self.shown is not None:
            return lines_of(self.shown, width)
        if self.found is None:
            text = "reading the runs"
        else:
            text = "fewer than two runs can be read; mark two to six in the list of runs"
        return [Line(tuple(row), skipped=True) for row in message(text, width, height, self.context.glyphs)]

    # drawing

    @property
    def wide(self) -> bool:
        """Whether curves stand beside the numbers."""
        return self.size.width >= WIDE

    def _arrange(self) -> None:
        lines, curves = self.query_one(LinesView), self.query_one("#curves")
        beside = self.wide
        if beside and self.curve is None:
            self.curve = 0
        drawn = self.curve is not None
        curves.display = drawn
        lines.display = beside or not drawn
        curves.styles.width = f"{round(100 * CURVES_SHARE)}%" if beside else "1fr"
        if lines.display and not lines.has_focus:
            lines.focus()

    def _draw(self) -> None:
        self._say_title()
        self._say_detail()
        plot = self.query_one(Plot)
        if self.curve is None or self.found is None or not plot.display:
            return
        width, height = plot.size
        chosen = KINDS[self.curve]
        other = next(kind for kind in KINDS if kind.over == chosen.over and kind.values != chosen.values)
        both = height >= TALL
        heights = (height - height // 2, height // 2) if both else (height,)
        kinds = (chosen, other) if both else (chosen,)
        plot.show([row for kind, rows in zip(kinds, heights, strict=True) for row in self._chart(kind, width, rows)])

    def _chart(self, kind: Kind, width: int, height: int) -> list[Row]:
        """Return one chart with its title."""
        found, letters = self.found, LETTERS[: len(self.found.series)] if self.found is not None else ""
        if found is None or height < 1:
            return []
        title = f" {kind.title}{', logarithmic' if self.log_scale and kind.values == 'loss' else ''}"
        legend = [
            span
            for index, (letter, side) in enumerate(zip(letters, found.sides, strict=True))
            for span in (Span("  "), Span(f"{letter} ", f"bold curve_{index}"), Span(one_cell(side.name), "dim"))
        ]
        rows = overlaid(
            found.series,
            letters,
            kind,
            size=(width, height - 1),
            glyphs=self.context.glyphs,
            logarithmic=self.log_scale,
        )
        return [fitted([Span(title, "bold"), *legend], width), *rows]

    def on_plot_resized(self) -> None:
        """Draw for the room there is now."""
        self._draw()

    def on_item_list_highlighted(self) -> None:
        """Say the highlighted line in full."""
        self._say_detail()

    def on_item_list_chosen(self) -> None:
        """Open the run whose line is highlighted."""
        line = self.query_one(LinesView).line
        if line is not None and line.place and self.found is not None:
            self.front.open_run(self.found.paths[int(line.place)])

    def _say_title(self) -> None:
        width, glyphs = self.size.width, self.context.glyphs
        count = len(self.found.sides) if self.found is not None else len(self.paths)
        words = [f"compare {count} runs"]
        if self.shown is not None:
            words.append(f"baseline {LETTERS[self.baseline]}")
            held = self.shown.comparison.held_equal
            words.append(f"equal {' and '.join(held)}" if held else "no budget held equal")
        self.query_one("#title", Rows).show([fitted([Span(f" {f' {glyphs.dot} '.join(words)}", "bold")], width)])

    def _say_detail(self) -> None:
        detail, line = self.query_one("#detail", Rows), self.query_one(LinesView).line
        width = max(1, self.size.width - 2)
        texts: list[str] = []
        if self.shown is not None and line is not None and self.query_one(LinesView).display:
            texts = explained(self.shown, line.meaning)
        broken = [part for text in texts for part in wrapped(in_ascii(one_cell(text), self.context.glyphs), width)]
        detail.show([fitted([Span(part)], width) for part in broken[:DETAIL_ROWS]])

    # keys

    def action_baseline(self, by: int) -> None:
        """Compare with the next run."""
        if self.found is not None and len(self.found.sides) > 1:
            self.baseline = (self.baseline + by) % len(self.found.sides)
            self._compare()

    def action_curves(self) -> None:
        """Draw the next curve; in a narrow terminal, numbers come after the last."""
        if self.curve is None:
            self.curve = 0
        elif self.curve + 1 < len(KINDS):
            self.curve += 1
        else:
            self.curve = 0 if self.wide else None
        self._arrange()
        self._draw()

    def action_no_curves(self) -> None:
        """Show numbers only."""
        if not self.wide:
            self.curve = None
            self._arrange()
            self._draw()

    def action_logarithmic(self) -> None:
        """Change the loss's axis."""
        self.log_scale = not self.log_scale
        self._draw()

    def action_copy(self) -> None:
        """Copy the numbers as text."""
        if self.shown is None:
            return
        lines = lines_of(self.shown, 100)
        methods = [
            f"{LETTERS[index]}: {method_words(self.shown.comparison, index)}"
            for index in range(len(self.shown.sides))
            if index != self.baseline
        ]
        self.front.copy_text("\n".join([*(("".join(s.text for s in line.spans)).rstrip() for line in lines), *methods]))

    def action_copy_command(self) -> None:
        """Copy the command that says the same."""
        if self.found is not None:
            names = " ".join(visible(path.name) for path in self.found.paths)
            base = f" --baseline {LETTERS[self.baseline]}" if self.baseline else ""
            self.front.copy_text(f"gradscope compare {names}{base}")
