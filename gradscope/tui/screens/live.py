"""The live screen: one run while it goes on, or as it went.

It shows what a feed tells it and changes nothing but by asking: quitting or leaving never stops a run.
"""

from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Footer

from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.launch.ask import ask_for_snapshot, ask_for_trace
from gradscope.launch.stop import ask_to_stop
from gradscope.rundir.handle import RunHandle
from gradscope.tui.charts.spread import Spread
from gradscope.tui.feed import Feed
from gradscope.tui.follower import FeedUpdated, follow
from gradscope.tui.panes.base import Look
from gradscope.tui.panes.body import Body, draw_body, inside
from gradscope.tui.panes.chart import spread_in
from gradscope.tui.panes.header import draw_header
from gradscope.tui.panes.kept import Kept
from gradscope.tui.panes.legend import width_beside
from gradscope.tui.panes.log import scrolled_most
from gradscope.tui.panes.memory import on_cpu
from gradscope.tui.panes.verdict import draw_verdict
from gradscope.tui.panes.viewing import Viewing
from gradscope.tui.screens.base import GradscopeScreen
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.live_keys import KEYS
from gradscope.tui.view import RunView
from gradscope.tui.widgets.log_lines import LogLines
from gradscope.tui.widgets.plot import Plot

CAPTURED_STEPS = 2
"""Updates that a trace on request is of, where the preset does not say how many."""

NOTICE_SECONDS = 6.0


class LiveScreen(GradscopeScreen):
    """One run, live or over."""

    HELP = (
        "One run: where its memory and its time go, step by step. The cursor stands at the same step in all panes, "
        "and their titles show its numbers. Leaving never stops the run."
    )
    DEFAULT_CSS = """
    LiveScreen { layers: base above; }
    LiveScreen > Plot { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    class Told(Message):
        """A request to the run was written, or could not be."""

        def __init__(self, text: str, hint: str = "", *, failed: bool = False) -> None:
            super().__init__()
            self.text = text
            self.hint = hint
            self.failed = failed

    def __init__(self, feed: Feed) -> None:
        """`feed` is read on a thread of its own."""
        super().__init__()
        self.feed = feed
        self.view: RunView | None = None
        """What the panes show; older than `newest` while paused."""
        self.newest: RunView | None = None
        self.viewing = Viewing()
        self.stopping = False
        """Whether we have asked the run to end."""
        self.body: Body | None = None
        self._kept = Kept()
        self._waiting_for_file = False

    def compose(self) -> ComposeResult:
        """One picture, the log's lines over it, the keys."""
        yield Plot(id="picture")
        yield LogLines(id="log")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Follow the run."""
        follow(self, self.feed, self.context.refresh_seconds)

    def on_feed_updated(self, event: FeedUpdated) -> None:
        """Show what is new."""
        self.show_view(event.view)

    def on_screen_resume(self) -> None:
        """Catch up with what came while another screen lay over this one."""
        self.draw()

    def on_plot_resized(self) -> None:
        """Draw for the new size."""
        self.draw()

    def show_view(self, view: RunView) -> None:
        """Take in a newer view."""
        before, self.newest = self.newest, view
        if self.view is None or not self.viewing.paused:
            self.view = view
            self.viewing.keep_up(self._last_step())
        self._announce(before, view)
        if self.is_active:
            self.draw()
        if before is None or before.running != view.running:
            self.refresh_bindings()

    # drawing

    def look(self) -> Look:
        """Return how the panes are looked at."""
        viewing = self.viewing
        return Look(
            self.context.glyphs,
            cursor=viewing.cursor,
            window=viewing.window,
            logarithmic=viewing.logarithmic,
            device=viewing.device,
            back=viewing.back,
            kept=self._kept,
        )

    def draw(self) -> None:
        """Bring the picture up to date; only cells that changed are sent."""
        plot = self.query_one("#picture", Plot)
        width, height = plot.size
        if self.view is None or self.newest is None or width < 1 or height < 1:
            return
        glyphs = self.context.glyphs
        top = draw_header(self.newest, width, glyphs, note=self._note())
        top += draw_verdict(self.newest, width, (height - len(top)) // 2, glyphs)
        body = draw_body(self.view, width, max(0, height - len(top)), self.look(), self.viewing.choice)
        self.body = body
        with self.app.batch_update():
            plot.show([*top, *body.rows][:height])
            lines = self.query_one(LogLines)
            box = body.log
            if box is None:
                lines.display = False
            else:
                lines.place(box.x, box.y + len(top), box.width, box.height)
                lines.show(body.log_rows)

    def _note(self) -> str:
        view, newest = self.view, self.newest
        if view is None or newest is None:
            return ""
        if self.viewing.paused:
            behind = newest.steps.count - view.steps.count
            return f"paused, {behind} steps behind" if behind else "paused"
        return "stopping" if self.stopping and newest.running else ""

    def _announce(self, before: RunView | None, view: RunView) -> None:
        """Say what came of a request of ours."""
        if before is None or not self._waiting_for_file:
            return
        fresh = view.remarks[len(before.remarks) :]
        for remark in fresh:
            self.app.notify(visible(remark.text), markup=False, timeout=NOTICE_SECONDS)
        if fresh:
            self._waiting_for_file = False

    # asking the run

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be done now: requests while the run goes on, its results when it is over."""
        running = self.newest is not None and self.newest.running
        if action in ("capture", "snapshot", "stop", "detach"):
            return running
        if action == "results":
            return self.newest is not None and not running
        return True

    def action_capture(self) -> None:
        """Ask for a trace."""
        if self.newest is None:
            return
        preset = self.newest.preset
        steps = preset.profile.steps if preset is not None and preset.profile.steps else CAPTURED_STEPS
        self._ask(partial(ask_for_trace, steps=steps))

    def action_snapshot(self) -> None:
        """Ask for a memory snapshot, where there is a card."""
        if self.newest is None:
            return
        if self.newest.started is not None and on_cpu(self.newest):
            self.front.report_error(
                "memory snapshots show a CUDA card's memory, and this run is on the CPU",
                "the memory pane and a trace (c) show where a CPU run's memory goes",
            )
            return
        self._ask(ask_for_snapshot)

    def action_stop(self) -> None:
        """End the run after a question; once more, kill its worker."""
        if self.newest is None:
            return
        name = self.newest.preset_name
        if self.stopping:
            question = ConfirmScreen(
                f"kill the worker of {name}?", "what it has not written by now is lost", yes="kill", no="wait"
            )
        else:
            question = ConfirmScreen(
                f"stop {name}?", "it ends after this step; what was measured is written", yes="stop", no="go on"
            )
        self.app.push_screen(question, partial(self._stop, kill=self.stopping))

    def _stop(self, confirmed: bool | None, *, kill: bool) -> None:
        if confirmed:
            self.stopping = True
            self._ask(partial(_ask_to_end, kill=kill))
            self.draw()

    def action_detach(self) -> None:
        """Leave the run alone."""
        if self.newest is not None:
            text = f"run goes on; gradscope attach {self.newest.run_id}"
            self.app.notify(visible(text), markup=False, timeout=NOTICE_SECONDS)
        self.front.go_back()

    def action_results(self) -> None:
        """Show what the run came to."""
        if self.newest is not None:
            self.front.open_results(self.newest.path)

    def action_copy(self) -> None:
        """Copy where the run lies."""
        if self.newest is not None:
            self.front.copy_text(str(self.newest.path))

    def _ask(self, ask: Any) -> None:
        """Write a request on a thread: disks can be slow."""
        if self.newest is None:
            return
        handle = RunHandle(self.newest.path)

        def work() -> None:
            try:
                wish = ask(handle)
            except GradscopeError as error:
                self.post_message(self.Told(error.message, error.hint or "", failed=True))
            else:
                self.post_message(self.Told(f"asked the run {wish}" if wish else ""))

        self.run_worker(work, thread=True, group="ask")

    def on_live_screen_told(self, event: Told) -> None:
        """Say what became of a request."""
        if event.failed:
            self.front.report_error(event.text, event.hint)
        elif event.text:
            self._waiting_for_file = True
            self.app.notify(visible(event.text), markup=False, timeout=NOTICE_SECONDS)

    # looking

    def action_pane(self, name: str) -> None:
        """Bring a pane to the front, switched on if it was off."""
        self.viewing.bring(name)
        self.draw()

    def action_next_pane(self, step: int) -> None:
        """Go through the panes that are on."""
        self.viewing.next_pane(step)
        self.draw()

    def action_zoom(self) -> None:
        """One pane over the whole screen, and back."""
        self.viewing.zoom()
        self.draw()

    def action_switch_off(self) -> None:
        """Hide the pane in front."""
        self.viewing.switch_off()
        self.draw()

    def action_metric(self) -> None:
        """Show the next thing that the pane in front can show."""
        self.viewing.next_metric()
        self.draw()

    def action_device(self) -> None:
        """Show the utilization of the next card, or of the host."""
        self.viewing.device += 1
        self.draw()

    def action_logarithmic(self) -> None:
        """Change the axis of the loss."""
        self.viewing.logarithmic = not self.viewing.logarithmic
        self.draw()

    def action_scroll_log(self, lines: int) -> None:
        """Scroll the log, wherever it is."""
        self.viewing.scroll(lines, 0 if self.view is None else scrolled_most(self.view))
        self.draw()

    def action_pause(self) -> None:
        """Hold everything still; or follow the run again."""
        if self.viewing.following:
            self.viewing.paused = True
            self.draw()
        else:
            self.action_follow()

    def action_follow(self) -> None:
        """Show the whole run and its newest numbers."""
        self.viewing.follow()
        self.view = self.newest
        self.draw()

    def action_cursor(self, columns: int) -> None:
        """Move the cursor by columns of the chart in front."""
        spread = self._spread()
        if spread is not None:
            self.action_step(columns * max(1, round(spread.span / spread.columns)))

    def action_step(self, steps: int) -> None:
        """Move the cursor by steps."""
        self.viewing.move(steps, self._last_step())
        self.draw()

    def action_first(self) -> None:
        """Put the cursor on the first step."""
        self.action_step(-self._last_step())

    def action_closer(self) -> None:
        """See half as many steps."""
        spread = self._spread()
        if spread is not None:
            self.viewing.closer(spread.span, self._last_step())
            self.draw()

    def action_farther(self) -> None:
        """See twice as many steps."""
        self.viewing.farther(self._last_step())
        self.draw()

    def _last_step(self) -> int:
        last = None if self.view is None else self.view.steps.last("step")
        return 0 if last is None else int(last)

    def _spread(self) -> Spread | None:
        """Return how steps lie in the chart in front."""
        if self.view is None or self.body is None:
            return None
        boxes = self.body.arrangement.panes
        box = boxes.get(self.viewing.choice.active) or next(iter(boxes.values()), None)
        if box is None:
            return None
        width = inside(box).width
        return spread_in(self.view, width - width_beside(width), self.look())


def _ask_to_end(handle: RunHandle, *, kill: bool) -> str:
    ask_to_stop(handle, kill=kill)
    return ""  # the header says that it is stopping
