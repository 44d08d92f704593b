"""From the command line into the app, and back."""

import asyncio
import sys
import time
import warnings
from pathlib import Path

from gradscope.core.text import visible
from gradscope.errors import ExitCode
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import short_id
from gradscope.rundir.registry import running
from gradscope.tui.app import GradscopeApp
from gradscope.tui.applog import AppLog, describe
from gradscope.tui.driver import driver_to
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.screens.base import Context
from gradscope.tui.session import Session, in_terminal
from gradscope.tui.settings import app_folder

NAMED_RUNS = 3
"""Running runs that are named when the app ends; more are counted."""


def run_app(out: Path, *, refresh_seconds: float = 0.5, run: Path | None = None, utf8: bool = True) -> int:
    """Run the app in this terminal; stdin and stderr have to be one. Main thread only.

    Args:
        out: The output root.
        refresh_seconds: Time between looks at a running run.
        run: A run to show at once.
        utf8: Whether the terminal shows more than ASCII.

    Returns:
        The exit code: 0; 1 after an error of the app itself; 128 + n when ended by signal n or by a lost terminal.
    """
    log = AppLog(app_folder() / "app.log")
    context = Context(
        out=out,
        glyphs=UNICODE if utf8 else ASCII,
        refresh_seconds=refresh_seconds,
        now_wall_ns=time.time_ns,
        now_monotonic_ns=time.monotonic_ns,
    )
    with in_terminal(log) as session:
        app = GradscopeApp(context, run=run, log=log, driver_class=driver_to(session.outlet, session.terminal_lost))
        session.last_words = lambda: _last_words(app, session, log)
        _end_together(app, session)
        try:
            app.run()
        except Exception as error:  # the last net: said in a line and written to the log
            log.exception(error)
            app.last_fault = app.last_fault or describe(error)[0]
            session.restore_terminal()
    if app.last_fault:
        warnings.simplefilter("ignore")  # what was cut off has been said
    _last_words(app, session, log)
    log.close()
    if session.exit_code is not None:
        return session.exit_code
    return ExitCode.FAILED if app.last_fault else app.return_code or 0


def _end_together(app: GradscopeApp, session: Session) -> None:
    """Let signals end the app, and tell the session when the app ends of its own."""

    def leave(exit_code: int) -> None:
        loop: asyncio.AbstractEventLoop | None = app._loop
        if loop is None:
            app._exit = True  # textual then leaves the terminal alone
        elif not loop.is_closed():
            loop.call_soon_threadsafe(lambda: app.exit(return_code=exit_code))

    session.on_leave = leave
    app.on_exit_asked.append(session.leaving)


def _last_words(app: GradscopeApp, session: Session, log: AppLog) -> None:
    """Say on stderr what went wrong and which runs go on."""
    if session.outlet.lost:
        return
    lines = []
    if app.last_fault:
        where = f"; details: {log.path}" if log.path is not None else ""
        lines.append(f"gradscope: {app.last_fault}{where}")
    lines.extend(_runs_that_go_on(running()))
    sys.stderr.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stderr.flush()


def _runs_that_go_on(runs: list[RunHandle]) -> list[str]:
    if not runs:
        return []
    named = [f"gradscope attach {short_id(handle.run_id)}" for handle in runs[:NAMED_RUNS]]
    more = f"; and {len(runs) - NAMED_RUNS} more" if len(runs) > NAMED_RUNS else ""
    noun = "run goes on" if len(runs) == 1 else f"{len(runs)} runs go on"
    return [f"{noun}; {', '.join(named)}{more}"]
