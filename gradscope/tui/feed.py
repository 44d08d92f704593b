"""What screens read runs through: a feed yields frozen snapshots of one run, whether it is running or over."""

from collections.abc import Callable
from typing import Protocol

from gradscope.tui.view import RunView


def never() -> bool:
    """Read to the end."""
    return False


class Feed(Protocol):
    """One run, read again and again. Called on one thread, and never on that of the screen: it may take a while."""

    def read(self, enough: Callable[[], bool] = never) -> RunView:
        """Return the run as it is now; the very same view if nothing has changed since the last call.

        Args:
            enough: Asked now and then; True ends the call early, with what has been read by then (`RunView.partial`).
        """
