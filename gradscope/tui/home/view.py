"""What the home screen shows, as one frozen snapshot."""

from dataclasses import dataclass
from pathlib import Path

from gradscope.analysis.expect import Outlook
from gradscope.analysis.listing import RunRow
from gradscope.analysis.machine import Machine
from gradscope.analysis.progress import Standing
from gradscope.analysis.run_list import ListedRun
from gradscope.config.schema import Preset


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRun:
    """A run that is going on."""

    path: Path
    run_id: str
    preset: str
    optimizer: str | None
    strategy: str
    standing: Standing
    loss: float | None
    elsewhere: bool
    """Whether it writes to another output root."""
    row: RunRow | None = None
    """The same as a row of a list of runs, with what is known by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetItem:
    """A preset, or the file of one that cannot be used."""

    name: str
    path: Path
    local: bool
    """Whether it is the user's own, in `./presets`."""
    preset: Preset | None = None
    cells: int | None = None
    """Runs of its grid."""
    message: str = ""
    """What is wrong with it."""
    hint: str = ""
    outlook: Outlook | None = None
    """`None` until the machine has been looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """Everything on the home screen."""

    running: tuple[RunningRun, ...] = ()
    presets: tuple[PresetItem, ...] = ()
    recent: tuple[ListedRun, ...] = ()
    total: int = 0
    """Runs below the output root."""
    machine: Machine | None = None
    """`None` until it has been looked at."""
    problem: str = ""
    """Why there is no list of presets."""
    unreadable: str = ""
    """What of the output root cannot be read."""

    @property
    def is_new_here(self) -> bool:
        """Whether nothing was ever run here."""
        return self.total == 0 and not self.running and not self.unreadable


FIRST = "quick"
"""The preset that stands on top, and is highlighted on an empty machine."""

START, GRIDS, BROKEN = "start here", "grids", "cannot be used"
"""Groups of presets beside those of a model."""


def group_of(item: PresetItem) -> str:
    """Return the group that a preset stands in: its model's name, or one of those above."""
    if item.preset is None:
        return BROKEN
    if item.cells is not None:
        return GRIDS
    return START if item.name == FIRST else item.preset.model.name
