"""Reading what the screen of runs shows. Blocking; called on one thread at a time."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gradscope.analysis.run_list import Listed, ListedRun, RunList
from gradscope.core.status import Status
from gradscope.tui.home.running import RunningRuns
from gradscope.tui.runs.view import Entry, RunsView, entry_of, running_entry

FIRST_LOOK = 100
"""Runs that are read at first: more than a screen shows, and there at once."""

ALL = 1_000_000

LIST_SECONDS = 2.0
"""Between looks at all folders; running runs are followed at every call."""


class RunsSource(Protocol):
    """What the screen reads from."""

    def read(self, *, anew: bool = False) -> RunsView:
        """Return what there is now; `anew`: something was just deleted."""


class RunsReader:
    """Reads all runs of an output root, and running ones wherever they are; what has not changed is kept."""

    def __init__(self, out: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._list = RunList(out)
        self._running = RunningRuns(out)
        self._now = now
        self._listed: Listed | None = None
        self._listed_at = 0.0
        self._complete = False
        self._entries: dict[str, tuple[ListedRun, Entry]] = {}

    def read(self, *, anew: bool = False) -> RunsView:
        """Return what there is now; the first call returns the newest only."""
        now, listed = self._now(), self._listed
        if listed is None or anew or not self._complete or now - self._listed_at >= LIST_SECONDS:
            listed = self._look(now)
        going = self._running.read(listed.going)
        if any(run.row is not None and _is_over(run.row.status) for run in going):
            listed = self._look(now)
            going = self._running.read(listed.going)
        going = tuple(run for run in going if run.row is None or not _is_over(run.row.status))
        self._entries = {run.row.path: self._known(run) for run in listed.runs}
        over = tuple(entry for _, entry in self._entries.values())
        return RunsView((*map(running_entry, going), *over), listed.total, self._complete, listed.problem)

    def _look(self, now: float) -> Listed:
        limit = FIRST_LOOK if self._listed is None else ALL
        self._listed = self._list.read(limit)
        self._listed_at = now
        self._complete = limit == ALL or len(self._listed.runs) < limit
        return self._listed

    def _known(self, run: ListedRun) -> tuple[ListedRun, Entry]:
        before = self._entries.get(run.row.path)
        return before if before is not None and before[0] is run else (run, entry_of(run))


def _is_over(status: Status) -> bool:
    return status.is_final or status is Status.UNKNOWN
