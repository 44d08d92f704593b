"""What the screen of runs shows, as frozen snapshots."""

from dataclasses import dataclass, field
from pathlib import Path

from gradscope.analysis.listing import RunRow, strategy_words
from gradscope.analysis.run_list import ListedRun
from gradscope.core.status import SCHEMA_VERSION, Status
from gradscope.tui.home.view import RunningRun


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of the list."""

    row: RunRow
    reason: str = ""
    """Why it did not finish, or what is wrong with its folder."""
    hint: str = ""
    running: RunningRun | None = None
    words: str = field(init=False, compare=False)
    """What words of a filter are looked for in, in small letters."""

    def __post_init__(self) -> None:
        row = self.row
        parts = (
            row.preset,
            row.model,
            row.optimizer,
            self.strategy,
            row.device,
            row.precision,
            self.status,
            row.run_id,
        )
        object.__setattr__(self, "words", " ".join(part for part in parts if part).casefold())

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(self.row.path)

    @property
    def strategy(self) -> str | None:
        """The strategy with its micro-batches; `None` if it is not known."""
        row = self.row
        return None if row.strategy is None else strategy_words(row.strategy, row.accumulate, row.mode)

    @property
    def status(self) -> str:
        """The status in a word; `running` stands in a filter for all that are."""
        return self.row.status.value if self.running is None else f"running {self.row.status.value}"


@dataclass(frozen=True, slots=True)
class RunsView:
    """All that is there."""

    entries: tuple[Entry, ...] = ()
    """Running ones first, then the newest first."""
    total: int = 0
    """Runs below the output root."""
    complete: bool = False
    """Whether all of them were read by now."""
    unreadable: str = ""
    """What of the output root cannot be read."""

    @property
    def running(self) -> int:
        """How many are running."""
        return sum(entry.running is not None for entry in self.entries)


def entry_of(listed: ListedRun) -> Entry:
    """Return a run that is over as an entry; one of a newer format says so."""
    reason, hint = listed.reason, listed.hint
    if listed.row.schema > SCHEMA_VERSION:
        newer = f"written by a newer gradscope (format {listed.row.schema}): some of it may be missing here"
        reason = newer
    return Entry(listed.row, reason, hint)


def running_entry(run: RunningRun) -> Entry:
    """Return a running run as an entry."""
    row = run.row or RunRow(
        run_id=run.run_id, path=str(run.path), preset=run.preset, optimizer=run.optimizer, status=Status.MEASURING
    )
    return Entry(row, running=run)
