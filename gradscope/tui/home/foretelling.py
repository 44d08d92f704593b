"""Foretelling a preset's memory from a screen: in a process of its own, waited for on a thread, one at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol

from textual.binding import Binding, BindingType
from textual.message import Message

from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset
from gradscope.core.estimate import Estimate
from gradscope.core.units import format_bytes
from gradscope.errors import GradscopeError
from gradscope.launch.estimate import Estimator, Room, room_for
from gradscope.launch.spawn import launch
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.launching import Launcher, LaunchingScreen

FORETELLING = "foretell"
"""Group of the workers that wait for estimates."""

NAMES = {"optimizer": "optimizer state"}

MOST_PARTS = 3
"""Categories that are named, the largest first."""


class MemoryEstimator(Protocol):
    """Foretells one preset, as `gradscope.launch.estimate.Estimator` does."""

    def __enter__(self) -> Any:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its process."""

    def estimate(self, preset: Preset) -> Estimate:
        """Foretell the memory of one update."""

    def cancel(self) -> None:
        """End the estimate that is waited for."""


@dataclass(frozen=True, slots=True)
class Foretelling:
    """What is known of a preset's memory; neither an estimate nor an error while it is being estimated."""

    preset: Preset
    estimate: Estimate | None = None
    room: Room | None = None
    error: str = ""

    @property
    def fits(self) -> bool | None:
        """Whether the peak is within the room; `None` where one of them is not known."""
        if self.estimate is None or self.room is None:
            return None
        return self.estimate.peak_bytes <= self.room.size_bytes

    @property
    def role(self) -> str:
        """How its text is drawn."""
        if self.estimate is None:
            return "warn" if self.error else "axis"
        return {True: "good", False: "warn", None: ""}[self.fits]


def foretold_text(found: Foretelling, glyphs: Glyphs) -> str:
    """Say what is known: the peak, where it is, what it is made of, and whether it fits."""
    estimate, room = found.estimate, found.room
    if estimate is None:
        if found.error:
            return f"no estimate: {' '.join(found.error.split())}"
        return f"foretelling its memory {glyphs.ellipsis} escape stops that"
    parts = sorted(((size, name) for name, size in estimate.at_peak_bytes.items() if size > 0), reverse=True)
    made_of = ", ".join(f"{NAMES.get(name, name)} {format_bytes(size)}" for size, name in parts[:MOST_PARTS])
    text = f"foretold {format_bytes(estimate.peak_bytes)} at the peak of {estimate.peak_phase}"
    text += f": {made_of}" if made_of else ""
    if room is None:
        return text
    return f"{text}; {'fits' if found.fits else f'{glyphs.failed} does not fit'} {format_bytes(room.size_bytes)}"


class ForetellingScreen(LaunchingScreen):
    """A screen that can foretell the memory of the preset that its keys act on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", show=False, id="leave", tooltip="Stop foretelling, or go back"),
    ]

    @dataclass
    class Foretold(Message):
        """An estimate is over."""

        found: Foretelling
        estimator: MemoryEstimator

    def __init__(self, launcher: Launcher = launch, estimator: Callable[[], MemoryEstimator] = Estimator) -> None:
        """`estimator` makes what foretells one preset."""
        super().__init__(launcher)
        self._make_estimator = estimator
        self._estimator: MemoryEstimator | None = None
        self._foretelling: Foretelling | None = None

    def foretold(self, preset: Preset | None) -> Foretelling | None:
        """Return what is known of exactly this preset."""
        found = self._foretelling
        return found if found is not None and found.preset == preset else None

    def foretell(self, preset: Preset) -> None:
        """Foretell a preset, unless that is under way or done; what is foretold of another one ends."""
        known = self.foretold(preset)
        if known is not None and not known.error:
            return
        self.stop_foretelling()
        try:
            estimator = self._make_estimator()
        except OSError as error:
            self.front.report_error(f"memory cannot be foretold: {error.strerror or error}")
            return
        self._estimator, self._foretelling = estimator, Foretelling(preset)
        self.foretelling_changed()
        self.run_worker(self._waiting_for(estimator, preset), thread=True, group=FORETELLING)

    def stop_foretelling(self) -> bool:
        """End the estimate under way; return whether there was one."""
        estimator, self._estimator = self._estimator, None
        if estimator is None:
            return False
        estimator.cancel()
        self._foretelling = None
        return True

    def foretelling_changed(self) -> None:
        """Show what is known now."""

    def action_leave(self) -> None:
        """Stop the estimate, else go back."""
        if self.stop_foretelling():
            self.foretelling_changed()
        else:
            self.front.go_back()

    def on_unmount(self) -> None:
        """Leave no process behind."""
        self.stop_foretelling()

    def on_foretelling_screen_foretold(self, event: Foretold) -> None:
        """Show what was found, unless it was stopped meanwhile."""
        event.stop()
        if event.estimator is self._estimator:
            self._estimator, self._foretelling = None, event.found
            self.foretelling_changed()

    def _waiting_for(self, estimator: MemoryEstimator, preset: Preset) -> Callable[[], None]:
        def work() -> None:
            found = Foretelling(preset, error="an error nobody foresaw")
            try:
                with estimator:
                    estimate = estimator.estimate(without_grid(preset))
                found = Foretelling(preset, estimate, room_for(estimate))
            except GradscopeError as error:
                found = Foretelling(preset, error=error.message)
            finally:
                self.post_message(self.Foretold(found, estimator))

        return work
