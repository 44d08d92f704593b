"""One line that is redrawn only where it changed: a label, a bar, a figure."""

from typing import Any

from gradscope.tui.charts.bars import meter
from gradscope.tui.charts.cells import Row
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.widgets.plot import Plot


class Meter(Plot):
    """One line: a label, a bar over a share, a figure.

    meter = Meter(glyphs, "cpu", role="cpu")
    meter.update(0.92, "92 %")
    """

    DEFAULT_CSS = """
    Meter { height: 1; }
    """

    def __init__(self, glyphs: Glyphs, label: str, *, role: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._glyphs = glyphs
        self._label = label
        self._role = role
        self._share: float | None = None
        self._text = ""

    def update(self, share: float | None, text: str) -> None:
        """Show a share (0 to 1; `None` is missing, and draws no bar) and its figure."""
        self._share, self._text = share, text
        self.show([self._row()])

    def on_plot_resized(self) -> None:
        """Use the new width."""
        self.show([self._row()])

    def _row(self) -> Row:
        return meter(self._label, self._share, self._text, self.size.width, self._glyphs, role=self._role)
