"""The panes of the live screen, in the order of their keys. A new one is a module and a line here."""

from gradscope.tui.panes import log, loss, memory, time, utilization
from gradscope.tui.panes.base import Pane

PANES: dict[str, Pane] = {pane.name: pane for pane in (memory.PANE, time.PANE, utilization.PANE, loss.PANE, log.PANE)}
