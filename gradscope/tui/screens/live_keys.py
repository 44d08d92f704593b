"""The keys of the live screen."""

from textual.binding import Binding, BindingType

from gradscope.tui.panes.registry import PANES

FAST_COLUMNS = 10
"""Columns by which the fast keys move the cursor."""

LOG_PAGE = 10
"""Lines by which page up and page down scroll the log."""


def _hidden(key: str, action: str, name: str, tooltip: str = "") -> Binding:
    """Return a key that is told in the help only; its id is that of the action's words."""
    words = "".join(char if char.isalnum() else "_" for char in name)
    return Binding(key, action, name, id=f"live.{words}", show=False, tooltip=tooltip)


KEYS: list[BindingType] = [
    Binding("c", "capture", "capture", id="live.capture", tooltip="Trace the next updates now"),
    Binding("m", "snapshot", "snapshot", id="live.snapshot", tooltip="Write what the card's memory holds to a file"),
    Binding("s", "stop", "stop", id="live.stop", tooltip="End the run; what was measured is written"),
    Binding("d", "detach", "detach", id="live.detach", tooltip="Leave; the run goes on"),
    Binding("enter", "results", "results", id="live.results", key_display="enter", tooltip="What the run came to"),
    Binding("space", "pause", "pause", id="live.pause", tooltip="Hold everything still, or follow again"),
    Binding("z", "zoom", "zoom", id="live.zoom", tooltip="One pane over the whole screen, and back"),
    Binding("n", "metric", "metric", id="live.metric", tooltip="The next thing that the pane can show"),
    *(_hidden(pane.key, f"pane('{name}')", name, f"To the {name} pane") for name, pane in PANES.items()),
    _hidden("tab", "next_pane(1)", "next pane"),
    _hidden("shift+tab", "next_pane(-1)", "pane before"),
    _hidden("x", "switch_off", "switch off", "Hide the pane in front; its number brings it back"),
    _hidden("left", "cursor(-1)", "cursor back", "By one column of the chart"),
    _hidden("right", "cursor(1)", "cursor on", "By one column of the chart"),
    _hidden("shift+left,ctrl+left", f"cursor(-{FAST_COLUMNS})", "cursor far back"),
    _hidden("shift+right,ctrl+right", f"cursor({FAST_COLUMNS})", "cursor far on"),
    _hidden("comma", "step(-1)", "step before", "The cursor, by one step"),
    _hidden("full_stop", "step(1)", "next step", "The cursor, by one step"),
    _hidden("home", "first", "first step"),
    _hidden("end", "follow", "follow", "The whole run and its newest step again"),
    _hidden("plus,equals_sign", "closer", "closer", "Half as many steps, around the cursor"),
    _hidden("minus", "farther", "farther", "Twice as many steps, up to the whole run"),
    _hidden("l", "logarithmic", "lin/log", "Axis of the loss"),
    _hidden("v", "device", "next device", "Utilization of the next card, or of the host"),
    _hidden("up", "scroll_log(1)", "log back"),
    _hidden("down", "scroll_log(-1)", "log on"),
    _hidden("pageup", f"scroll_log({LOG_PAGE})", "log far back"),
    _hidden("pagedown", f"scroll_log(-{LOG_PAGE})", "log far on"),
    _hidden("y", "copy", "copy", "Copy the run's folder"),
]
