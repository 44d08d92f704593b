"""The files tab: what lies in the run's folder, and what each file is."""

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType

from gradscope.core.paths import shown_path
from gradscope.core.units import format_bytes
from gradscope.tui.charts.cells import Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import one_cell
from gradscope.tui.results.lines import Line, blank, prose, row
from gradscope.tui.results.report import RunReport
from gradscope.tui.results.table import shortened
from gradscope.tui.results.text_panes import TextPane

WIDE = 60
"""Columns from which on files are explained."""


class FilesPane(TextPane):
    """Files to copy the paths of."""

    NAME = "files"
    BINDING_GROUP_TITLE = "files"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "screen.tensorboard", "tensorboard", tooltip="Start TensorBoard, or stop it"),
        Binding("y", "screen.copy", "copy path", tooltip="Copy the path of the highlighted file"),
    ]

    def make(self, width: int, height: int) -> list[Line]:
        """List the files."""
        report = self.host.report
        return [] if report is None else list(file_lines(report, width, self.glyphs))


def file_lines(report: RunReport, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Lay out the files of a run."""
    yield row("folder", str(shown_path(report.path)), copy=str(report.path))
    yield blank()
    longest = max((len(file.kind) for file in report.files), default=0)
    for file in report.files:
        size = f"{format_bytes(file.size_bytes):>10}  "
        kind = f"{file.kind:<{longest}}" if width >= WIDE else ""
        room = max(12, width - len(size) - len(kind) - 2)
        name = one_cell(file.name)
        name = shortened(name, room, glyphs)
        yield Line((Span(size), Span(f"{name}  "), Span(kind, "dim")), copy=str(file.path))
    if not report.files:
        yield from prose("nothing lies there", width, indent=0)
    yield blank()
    if not report.traces:
        for text in report.no_trace:
            yield from prose(text, width, indent=0, style="dim")
    for text in (
        "y copies the highlighted path. x writes the run in another format, t shows it in TensorBoard.",
        "A trace opens in https://ui.perfetto.dev too.",
    ):
        yield from prose(text, width, indent=0, style="dim")
