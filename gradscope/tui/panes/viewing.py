"""How a run is looked at: which panes, where the cursor stands, which steps are seen. Only keys change it."""

from dataclasses import dataclass, field, replace

from gradscope.tui.panes.body import Choice, shown

LEAST_SPAN = 8
"""Steps that are seen at least, however far one zooms in."""


@dataclass
class Viewing:
    """State of the live screen that the user sets."""

    choice: Choice = field(default_factory=Choice)
    cursor: int | None = None
    """Step under the cursor; `None` follows the newest."""
    window: tuple[int, int] | None = None
    """First step that is seen, and how many; `None` is the whole run."""
    logarithmic: bool = False
    device: int = 0
    back: int = 0
    """Lines that the log is scrolled back by."""
    paused: bool = False

    @property
    def following(self) -> bool:
        """Whether the newest of everything is seen."""
        return not (self.paused or self.cursor is not None or self.window is not None or self.back)

    def follow(self) -> None:
        """See the whole run and its newest numbers."""
        self.paused, self.cursor, self.window, self.back = False, None, None, 0

    def move(self, steps: int, last: int) -> None:
        """Move the cursor within steps 1 to `last`; the first time it starts from the last one."""
        if last < 1:
            return
        self.cursor = max(1, min(last, (last if self.cursor is None else self.cursor) + steps))
        if self.window is not None:
            first, span = self.window
            if not first <= self.cursor < first + span:
                self.window = (max(1, self.cursor - span // 2), span)

    def closer(self, span: int, last: int) -> None:
        """See half of the `span` steps that are seen, around the cursor or the newest step."""
        self._see(max(LEAST_SPAN, span // 2), last)

    def farther(self, last: int) -> None:
        """See twice as many steps, up to the whole run."""
        if self.window is None:
            return
        if self.window[1] * 2 >= last:
            self.window = None
        else:
            self._see(self.window[1] * 2, last)

    def keep_up(self, last: int) -> None:
        """Turn the page where the run has gone past the window's end and nothing holds it."""
        if self.window is not None and self.cursor is None and not self.paused and last >= sum(self.window):
            self.window = (last, self.window[1])

    def bring(self, name: str) -> None:
        """Bring a pane to the front, switched on if it was off."""
        self.choice = replace(self.choice, active=name, off=self.choice.off - {name})

    def next_pane(self, step: int) -> None:
        """Go through the panes that are on."""
        names = shown(self.choice)
        if names:
            at = names.index(self.choice.active) if self.choice.active in names else -step
            self.choice = replace(self.choice, active=names[(at + step) % len(names)])

    def zoom(self) -> None:
        """Show the pane in front alone, or all of them again."""
        self.choice = replace(self.choice, zoomed=not self.choice.zoomed)

    def switch_off(self) -> None:
        """Hide the pane in front; the next one comes to the front."""
        names = shown(self.choice)
        active = self.choice.active
        if active in names:
            following = names[(names.index(active) + 1) % len(names)]
            self.choice = replace(self.choice, off=self.choice.off | {active}, active=following, zoomed=False)

    def next_metric(self) -> None:
        """Show the next thing that the pane in front can show."""
        metric = dict(self.choice.metric or {})
        metric[self.choice.active] = metric.get(self.choice.active, 0) + 1
        self.choice = replace(self.choice, metric=metric)

    def scroll(self, lines: int, most: int) -> None:
        """Scroll the log back by `lines`, or on if that is negative."""
        self.back = max(0, min(most, self.back + lines))

    def _see(self, span: int, last: int) -> None:
        at = last if self.cursor is None else self.cursor
        self.window = (max(1, min(at - span // 2, last - span + 1)), span)
