"""What becomes of an error that nobody caught: a panel over what still works, or the end of the app in one line."""

import traceback
from dataclasses import dataclass
from typing import Any

from textual._context import active_message_pump
from textual.app import App
from textual.dom import NoScreen
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import WorkerFailed

MOST_OF_ONE_KIND = 3
"""After this many errors at one place the app ends: it does not recover."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error, and what it took along."""

    error: BaseException
    screen: Screen[Any] | None
    """The screen that cannot go on; `None` where nothing is damaged."""


class Faults:
    """Judges errors. A message handler that failed leaves its widget dead, so that its screen has to go."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def judge(self, app: App[Any], error: BaseException, *, harmless: bool) -> Fault | None:
        """Return what to do about an error; `None` where the app cannot go on.

        Args:
            app: The app, before anything is done about the error.
            error: As textual hands it over.
            harmless: Nothing is damaged but what was asked for.
        """
        if isinstance(error, WorkerFailed):
            error, harmless = error.error, True
        place = _place(error)
        self._seen[place] = self._seen.get(place, 0) + 1
        if self._seen[place] > MOST_OF_ONE_KIND or not app.screen_stack:
            return None
        return Fault(error, None if harmless else screen_at_fault())


def screen_at_fault() -> Screen[Any] | None:
    """Return the screen whose widget was handling something; `None` if it was the app itself."""
    pump = active_message_pump.get(None)
    if isinstance(pump, Screen):
        return pump
    if isinstance(pump, Widget):
        try:
            return pump.screen
        except NoScreen:  # it was removed meanwhile: nothing to close
            return None
    return None


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__} {where}"
