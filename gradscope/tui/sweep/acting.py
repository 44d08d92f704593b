"""Starting, stopping and reporting a sweep from its screen: on a thread, one thing at a time, every outcome said."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from textual.message import Message
from textual.worker import Worker, WorkerState

from gradscope.core.status import ProcessId
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.tui.screens.base import GradscopeScreen
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.sweep.control import SweepControl
from gradscope.tui.sweep.view import SweepView

ACTING = "act"
"""Group of the workers that start, stop and report."""

SAID_SECONDS = 8.0


class ActingScreen(GradscopeScreen):
    """A screen of one sweep that can act on it."""

    @dataclass
    class Acted(Message):
        """Something was done, or could not be."""

        said: str
        title: str = ""
        error: GradscopeError | None = None
        instead: "Callable[[], ActingScreen.Acted] | None" = None
        """What to do if the user wants it all the same, `said` notwithstanding."""

    def __init__(self, name: str, control: SweepControl) -> None:
        super().__init__()
        self.preset_name = name
        self.view = SweepView(name)
        """What is shown."""
        self._control = control
        self._acting = False

    def look(self) -> None:
        """Read the sweep now."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """After an error nobody foresaw, which the app tells, something else can be done."""
        if event.state is WorkerState.ERROR and event.worker.group == ACTING:
            self._acting = False

    def action_start(self) -> None:
        """Start the sweep, or go on with it."""
        view = self.view
        if view.process is not None:
            self.front.report_error(f"the sweep runs already (process {view.process.pid})", "s stops it")
        elif view.rows and not view.left:
            again = "; R runs those again that did not end well" if view.bad else ""
            self.front.report_error("every cell has a result", f"enter opens one{again}")
        else:
            self._start(retry_failed=False)

    def action_retry(self) -> None:
        """Run the cells again that did not end well."""
        view = self.view
        if view.process is not None:
            self.front.report_error(f"the sweep runs already (process {view.process.pid})", "s stops it")
        elif not view.bad:
            self.front.report_error("no cell has failed", "")
        else:
            self._start(retry_failed=True)

    def _start(self, *, retry_failed: bool) -> None:
        view = self.view
        if view.preset is None:
            if view.complete:
                self.front.report_error(view.problem or "there is nothing to run", view.hint)
            return

        self._act(partial(self._weigh, view, retry_failed=retry_failed))

    def _weigh(self, view: SweepView, *, retry_failed: bool) -> "ActingScreen.Acted":
        """Start the sweep unless something is in its way, on a thread."""
        obstacle, remedy = self._control.obstacle(view, self.context.out)
        if not obstacle:
            return self._run(view, retry_failed=retry_failed)
        start = partial(self._run, view, retry_failed=retry_failed)
        return self.Acted(f"it {obstacle}\n{remedy}".strip(), instead=start)

    def _run(self, view: SweepView, *, retry_failed: bool) -> "ActingScreen.Acted":
        log = self._control.start(view, self.context.out, retry_failed=retry_failed)
        said = f"tail -f {shlex.quote(str(log))}"
        return self.Acted(said, title="the sweep runs on its own; to follow it")

    def action_stop(self) -> None:
        """Ask whether to stop the sweep, and stop it."""
        process = self.view.process
        if process is None:
            self.front.report_error("no sweep of this preset runs here", "r starts it, or goes on with it")
            return
        running = self.view.running
        cells = "the cell that runs now is" if running == 1 else f"the {running} cells that run now are"
        dropped = f"{cells} dropped, and made anew when it goes on\n" if running else ""
        detail = f"{dropped}results so far are kept"

        def answered(yes: bool | None) -> None:
            if yes:
                self._act(partial(self._stop, process))

        question = f"stop the sweep of {visible(self.preset_name)}?"
        self.app.push_screen(ConfirmScreen(question, detail, yes="stop", no="go on"), answered)

    def _stop(self, process: ProcessId) -> "ActingScreen.Acted":
        self._control.stop(process)
        return self.Acted("it ends after the current step; r goes on with it", title="the sweep is being stopped")

    def action_export(self) -> None:
        """Write the report as a page."""
        view, out = self.view, self.context.out
        if not view.done:
            self.front.report_error("no cell is done yet: there is nothing to report", "r starts the sweep")
            return
        self._act(lambda: self.Acted(str(self._control.export(view, out)), title="report written"))

    def _act(self, work: "Callable[[], ActingScreen.Acted]") -> None:
        """Do something on a thread, one thing at a time."""
        if self._acting:
            return
        self._acting = True
        self.run_worker(partial(self._work, work), thread=True, group=ACTING)

    def _work(self, work: "Callable[[], ActingScreen.Acted]") -> None:
        try:
            acted = work()
        except GradscopeError as error:
            acted = self.Acted("", error=error)
        except OSError as error:
            acted = self.Acted("", error=GradscopeError(str(error.strerror or error)))
        self.post_message(acted)

    def on_acting_screen_acted(self, event: Acted) -> None:
        """Say what came of it, and look."""
        self._acting = False
        wanted = event.instead
        if wanted is not None:

            def answered(yes: bool | None) -> None:
                if yes:
                    self._act(wanted)

            self.app.push_screen(
                ConfirmScreen(f"start {visible(self.preset_name)} all the same?", event.said, yes="start"), answered
            )
            return
        if event.error is not None:
            self.front.report_error(event.error.message, event.error.hint)
        else:
            self.notify(visible(event.said), title=event.title, markup=False, timeout=SAID_SECONDS)
        self.look()
