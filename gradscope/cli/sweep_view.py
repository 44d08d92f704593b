"""A sweep on stderr: one line that is rewritten in a terminal, a line a cell everywhere else."""

from collections import Counter
from collections.abc import Mapping, Sequence

from gradscope.cli.display import Display
from gradscope.config.grid import GridCell
from gradscope.config.labels import cell_labels
from gradscope.core.units import format_seconds
from gradscope.launch.cells import RunningCell
from gradscope.launch.plan import DONE, Outcome, Plan
from gradscope.launch.sweep import State, Watcher
from gradscope.rundir.cells import RESULTS, SKIPPED

NOT_RUN = "not run"


class SweepView(Watcher):
    """Writes down what happens in a sweep."""

    def __init__(self, plan: Plan, display: Display, *, resume: str) -> None:
        """`resume`: the command line that goes on with this sweep."""
        self._plan = plan
        self._display = display
        self._resume = resume
        self._labels = cell_labels(plan.cells)
        self._guests = ""

    def begin(self, *, retry_failed: bool) -> None:
        """Say what there is and what is to run."""
        total, left = len(self._plan.cells), len(self._plan.waiting)
        words = Counter(outcome.word for outcome in self._plan.outcomes.values())
        there = f"; there already: {_listed(words)}" if words else ""
        self._display.note(f"{self._plan.preset.name}: {cells_words(total)}, {left} to run{there}")
        failed = sum(number for word, number in words.items() if word != DONE)
        if failed and not retry_failed:
            self._display.note(f"{failed} that did not end well are kept as results; --retry-failed runs them again")
        for cell in self._plan.cells:
            if (skip := self._plan.skipped.get(cell.hash)) is not None:
                self._display.note(f"{SKIPPED}  {self._labels[cell.hash]}: {skip.reason}")
        if left:
            self._display.progress("importing torch")

    def started(self, state: State, running: RunningCell) -> None:
        """Show the new cell."""
        self.tick(state)

    def ended(self, state: State, cell: GridCell, outcome: Outcome) -> None:
        """Write a line for the cell; in a terminal only if it did not end well."""
        took = "" if outcome.seconds is None else f" in {format_seconds(outcome.seconds)}"
        reason = f": {outcome.record.reason}" if outcome.record.reason else ""
        line = (
            f"[{len(state.outcomes)}/{len(self._plan.cells)}] {outcome.word}  {self._labels[cell.hash]}{took}{reason}"
        )
        if outcome.word != DONE or not self._display.rewrites:
            self._display.note(line + ("" if self._display.rewrites else f"  ({_left(state)})"))

    def elsewhere(self, state: State, cells: Sequence[GridCell]) -> None:
        """Say what is waited for."""
        self._display.progress(f"waiting for {cells_words(len(cells))} that another sweep runs")

    def guests(self, state: State, cell: GridCell, found: Sequence[str], *, wait: bool) -> None:
        """Say who is there, once for each set of them."""
        names = ", ".join(found)
        if names != self._guests:
            self._guests = names
            what = "waiting until the card is free" if wait else "results are marked contaminated"
            self._display.note(f"other processes compute on the card: {names}; {what}")

    def tick(self, state: State) -> None:
        """Renew the line."""
        if not self._display.rewrites or not state.running:
            return
        words = Counter(outcome.word for outcome in state.outcomes.values())
        bad = sum(number for word, number in words.items() if word != DONE)
        parts = [f"{words[DONE]}/{len(self._plan.cells)} done", *([f"{bad} not"] if bad else []), _left(state)]
        now = [f"{self._labels[run.cell.hash]} {_stage(run)}" for run in state.running if not run.writing_up]
        self._display.progress(" · ".join([*parts, *now]))

    def stopping(self, state: State, *, kill: bool) -> None:
        """Say what a signal does."""
        word = "killing" if kill else "stopping"
        more = "" if kill else "; once more kills it"
        self._display.note(f"{word} the current cell{more}" if state.running else f"{word}")

    def interrupted(self) -> None:
        """Say how to go on after an error."""
        self._display.note(f"to go on: {self._resume}")

    def finish(self, state: State) -> None:
        """Say how to go on, where cells are left."""
        self._display.clear()
        skipped = self._plan.skipped
        left = [
            cell
            for cell in self._plan.cells
            if cell.hash not in skipped and not _is_result(state.outcomes.get(cell.hash))
        ]
        if left:
            self._display.note(
                f"{cells_words(len(left))} {'is' if len(left) == 1 else 'are'} left; to go on: {self._resume}"
            )


def counts(plan: Plan, outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    """Return how many cells came to what, `not run` for those that have not."""
    rest = {cell.hash: SKIPPED if cell.hash in plan.skipped else NOT_RUN for cell in plan.cells}
    found = Counter(outcomes[cell].word if cell in outcomes else word for cell, word in rest.items())
    return dict(found.most_common())


def counts_line(plan: Plan, outcomes: Mapping[str, Outcome]) -> str:
    """Return the counts as one line."""
    return f"{cells_words(len(plan.cells))}: {_listed(counts(plan, outcomes))}"


def cells_words(number: int) -> str:
    """Return `1 cell`, `2 cells`."""
    return f"{number} cell{'s' * (number != 1)}"


def _listed(words: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in words.items())


def _is_result(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.word in RESULTS


def _left(state: State) -> str:
    seconds = state.seconds_left()
    return "time left unknown" if seconds is None else f"{format_seconds(seconds)} left"


def _stage(running: RunningCell) -> str:
    record = running.handle.recorded_status()
    return "" if record is None else record.status.value
