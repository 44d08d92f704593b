"""A sweep: which of a grid's cells are still to run, and running them, each in processes of its own."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gradscope.config.grid import GridCell
from gradscope.config.resolve import without_grid
from gradscope.core.status import Status
from gradscope.errors import ExitCode, GradscopeError, signal_exit
from gradscope.launch.cells import RunningCell, start_cell
from gradscope.launch.grace import SECOND_SIGNAL_SECONDS
from gradscope.launch.plan import DONE, Outcome, Plan, is_result, outcome_of
from gradscope.launch.spawn import make_manifest
from gradscope.launch.stop import ask_to_stop
from gradscope.launch.wakeup import Wakeup
from gradscope.launch.warm import WarmLost, WarmProcess
from gradscope.rundir.cells import CELLS_FOLDER, cell_runs, cell_status, lock_cell, sweep_folder, write_skip
from gradscope.sampling.foreign import guests

WARM_LOG = "warm.log"

TICK_SECONDS = 0.25
ELSEWHERE_SECONDS = 1.0
"""Between two looks at cells that another sweep runs."""

GUESTS_SECONDS = 2.0
"""Between two looks at who else is on a card."""

MOST_LOST = 3
"""How often the warm process may be killed before a cell starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a sweep is run."""

    slots: Sequence[Mapping[str, str]] = ({},)
    """One cell at a time in each; environment variables that pin its cells to a device."""
    cell_limit_seconds: float | None = None
    fail_fast: bool = False
    guests: Callable[[Mapping[str, str], str], Sequence[str]] = guests
    """Says who else is on a card, given a cell's environment and device."""
    overlap: bool = True
    """Whether a cell starts while the one before is being written up."""


@dataclass(slots=True, kw_only=True)
class State:
    """A sweep under way, for those who show it."""

    plan: Plan
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Results by cell, those from before included."""
    running: list[RunningCell] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)
    """Cells that another sweep has locked."""
    ran: list[str] = field(default_factory=list)
    """Cells that this sweep ran, in the order of their ends."""
    stopped_by: int | None = None
    """The signal that ended the sweep."""
    slots: int = 1

    def seconds_left(self) -> float | None:
        """Return how long what is left takes if its cells take as long as others did; `None` before any is known."""
        known = [outcome.seconds for outcome in self.outcomes.values() if outcome.seconds is not None]
        left = len(self.plan.cells) - len(self.outcomes) - len(self.plan.skipped)
        if not known:
            return None
        mean = sum(known) / len(known)
        spent = sum(min(mean, time.monotonic() - cell.started_at) for cell in self.running)
        return max(0.0, left * mean - spent) / self.slots

    def exit_code(self) -> int:
        """Return what `gradscope sweep` leaves with."""
        words = {outcome.word for outcome in self.outcomes.values()}
        if self.stopped_by is not None:
            return signal_exit(self.stopped_by)
        if words <= {DONE}:
            over = len(self.outcomes) + len(self.plan.skipped)
            return ExitCode.DONE if over == len(self.plan.cells) else ExitCode.FAILED
        return ExitCode.STOPPED if words <= {DONE, Status.CANCELLED.value} else ExitCode.FAILED


class Watcher:
    """Is told what happens. The default says nothing."""

    def started(self, state: State, running: RunningCell) -> None:
        """A cell runs."""

    def ended(self, state: State, cell: GridCell, outcome: Outcome) -> None:
        """A cell is over."""

    def elsewhere(self, state: State, cells: Sequence[GridCell]) -> None:
        """Only cells that another sweep runs are left."""

    def guests(self, state: State, cell: GridCell, found: Sequence[str], *, wait: bool) -> None:
        """Other processes compute on the card that a cell is to have; with `wait`, it is asked again."""

    def tick(self, state: State) -> None:
        """Time goes by; called a few times a second."""

    def stopping(self, state: State, *, kill: bool) -> None:
        """A signal came."""


def occupied(found: Sequence[str]) -> GradscopeError:
    """Return the error of `on_foreign = "fail"`."""
    return GradscopeError(
        f"other processes compute on the card: {', '.join(found)}",
        'end them and run the same command again, or set sweep.on_foreign = "wait" or "warn" in the preset',
        exit_code=ExitCode.ENVIRONMENT,
    )


class Sweep:
    """Runs what is left of a plan."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        wakeup: Wakeup,
        watcher: Watcher,
        *,
        argv: Sequence[str] = (),
        after_cell: Callable[[], None] = lambda: None,
    ) -> None:
        """`after_cell` is called after each cell's end, to renew what is made of all results."""
        self.state = State(plan=plan, outcomes=dict(plan.outcomes), slots=len(options.slots))
        self._plan = plan
        self._options = options
        self._wakeup = wakeup
        self._watcher = watcher
        self._after_cell = after_cell
        self._facts = make_manifest("", without_grid(plan.preset), argv)
        self._waiting = list(plan.waiting)
        self._elsewhere: list[GridCell] = []
        self._seen = {cell: handle.run_id for cell, handle in cell_runs(plan.out, plan.preset.name).items()}
        self._look_due = 0.0
        self._guests_due = 0.0
        self._lost = 0
        self._trouble: GradscopeError | None = None
        self._asked_at = float("-inf")
        self._no_more = False
        """Whether no further cell is to be started."""
        folder = sweep_folder(plan.out, plan.preset.name) / CELLS_FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for cell in plan.cells:
                if cell.hash not in plan.outcomes:
                    write_skip(plan.out, plan.preset.name, cell.hash, plan.skipped.get(cell.hash))
        except OSError as error:
            raise GradscopeError(
                f"cannot write to {folder.parent}: {error.strerror}",
                "choose another output root with --out",
                exit_code=ExitCode.ENVIRONMENT,
            ) from error
        self._warm = WarmProcess(folder / WARM_LOG)

    def begin(self) -> None:
        """Start what takes seconds to be ready, if anything is to run; `run` does so too, but waits.

        Raises:
            GradscopeError: It cannot be started.
        """
        if self._waiting:
            self._warm.begin()

    def run(self) -> State:
        """Run all cells, or as many as it comes to; no process is left when it returns or raises.

        Raises:
            GradscopeError: The warm process cannot be started, the folder cannot be written, or somebody else is on
                a card and the preset says to end then.
        """
        try:
            while self._waiting or self._elsewhere or self.state.running:
                self._hear()
                if self._no_more and not self.state.running:
                    break
                self._fill()
                self._watcher.tick(self.state)
                self._wakeup.wait(TICK_SECONDS, self._descriptors())
                self._collect()
            if self._trouble is not None:
                raise self._trouble
        finally:
            self._warm.close()
            for running in self.state.running:  # an error of ours: closing the sockets ends their supervisors
                running.socket.close()
        return self.state

    def _hear(self) -> None:
        """Act on signals: the first stops the running cells, the second kills them."""
        for number in self._wakeup.take():
            now = time.monotonic()
            if now - self._asked_at < SECOND_SIGNAL_SECONDS:
                continue
            kill, self._asked_at = self.state.stopped_by is not None, now
            self.state.stopped_by = self.state.stopped_by or number
            self._watcher.stopping(self.state, kill=kill)
            self._stop(number, kill=kill)

    def _stop(self, number: int | None, *, kill: bool = False) -> None:
        self._no_more = True
        for running in self.state.running:
            with contextlib.suppress(GradscopeError):  # its folder is gone or full: its supervisor notices too
                ask_to_stop(running.handle, signal=number, kill=kill)

    def _descriptors(self) -> list[int]:
        """Return what is worth waking up for."""
        cells = [running.socket.fileno() for running in self.state.running]
        return cells if self._no_more or not self._waiting else [*cells, *self._warm.descriptors()]

    def _fill(self) -> None:
        """Start a cell in every free slot."""
        try:
            while not self._no_more and (slot := self._free_slot()) is not None:
                if not (self._waiting or self._elsewhere) or not self._warm.is_ready():
                    return
                cell = self._next()
                if cell is None:
                    return
                if not self._start(cell, slot):
                    return
        except WarmLost:
            self._lost += 1
            if self._lost >= MOST_LOST:
                self._end_with(
                    GradscopeError(
                        f"the warm process was killed {MOST_LOST} times in a row",
                        "see what ends it: a batch system's limit, or memory that is full",
                        exit_code=ExitCode.ENVIRONMENT,
                    )
                )

    def _end_with(self, error: GradscopeError) -> None:
        """Stop the running cells, and raise `error` when they are over."""
        self._trouble = self._trouble or error
        self._stop(None)

    def _free_slot(self) -> int | None:
        overlap = self._options.overlap and not self._options.fail_fast  # which waits for every verdict
        taken = {run.slot for run in self.state.running if not (run.writing_up and overlap)}
        writing = sum(run.writing_up for run in self.state.running)
        free = [slot for slot in range(len(self._options.slots)) if slot not in taken]
        return free[0] if free and writing <= len(self._options.slots) else None

    def _next(self) -> GridCell | None:
        """Return the next cell that is ours to try; of those that others run, now and then."""
        if self._waiting:
            return self._waiting.pop(0)
        now = time.monotonic()
        if not self._elsewhere or now < self._look_due:
            return None
        if not self.state.running:
            self._watcher.elsewhere(self.state, self._elsewhere)
        self._look_due = now + ELSEWHERE_SECONDS / len(self._elsewhere)
        return self._elsewhere.pop(0)

    def _start(self, cell: GridCell, slot: int) -> bool:
        """Start a cell, or learn that it need not or may not run now; return whether to go on with the next one.

        Raises:
            WarmLost: The warm process is gone; the cell waits again.
            GradscopeError: It cannot be started.
        """
        plan, options = self._plan, self._options
        lock = lock_cell(plan.out, plan.preset.name, cell.hash)
        if lock is None:
            self._elsewhere.append(cell)
            self.state.elsewhere.add(cell.hash)
            return True
        self.state.elsewhere.discard(cell.hash)
        newest = lock.newest()
        if newest is not None and newest.run_id != self._seen.get(cell.hash):
            outcome = outcome_of(newest)
            if outcome is not None and is_result(outcome, retry_failed=False):  # another sweep was faster
                lock.release()
                self._note(cell, outcome)
                return True
        if not self._may_start(cell, options.slots[slot]):
            lock.release()
            self._waiting.insert(0, cell)
            return False
        try:
            running = start_cell(
                self._warm,
                cell,
                lock,
                out=plan.out,
                facts=msgspec.structs.replace(self._facts, foretold_peak_bytes=plan.foretold.get(cell.hash)),
                slot=slot,
                env=options.slots[slot],
                time_limit_seconds=options.cell_limit_seconds,
            )
        except WarmLost:
            self._waiting.insert(0, cell)
            raise
        self._lost = 0
        self.state.running.append(running)
        self._watcher.started(self.state, running)
        return True

    def _may_start(self, cell: GridCell, pinned: Mapping[str, str]) -> bool:
        """Ask who else is on the cell's card, and do as the preset says about that."""
        sweep = self._plan.preset.sweep
        if time.monotonic() < self._guests_due:
            return False
        found = self._options.guests({**os.environ, **pinned}, cell.preset.run.device)
        if not found or sweep is None:
            return True
        if sweep.on_foreign == "fail":
            self._end_with(occupied(found))
            return False
        self._watcher.guests(self.state, cell, found, wait=sweep.on_foreign == "wait")
        if sweep.on_foreign == "wait":
            self._guests_due = time.monotonic() + GUESTS_SECONDS
            return False
        return True

    def _collect(self) -> None:
        """See off the cells that are over."""
        for running in list(self.state.running):
            if not running.listen():
                continue
            self.state.running.remove(running)
            record = running.end()
            seconds = time.monotonic() - running.started_at
            outcome = Outcome(cell_status(record), running.handle, record, seconds)
            self.state.ran.append(running.cell.hash)
            self._note(running.cell, outcome)
            self._after_cell()
            if self._options.fail_fast and outcome.word != DONE and not self._no_more:
                self._stop(None)

    def _note(self, cell: GridCell, outcome: Outcome) -> None:
        self.state.outcomes[cell.hash] = outcome
        self._watcher.ended(self.state, cell, outcome)
