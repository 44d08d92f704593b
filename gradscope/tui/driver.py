"""How the app talks to its terminal: textual's driver, made to end when the terminal is gone."""

import os
import select
import threading
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from gradscope.tui.outlet import GONE, Outlet
from gradscope.tui.terminal import POOR_FONTS, size_of

CLEAR = "\x1b[0m\x1b[2J\x1b[H"
"""Before the alternate screen is left: where there is none, the app's last picture would stay in the way."""


class TerminalDriver(LinuxDriver):
    """Writes through an `Outlet`, tells when the terminal hangs up, and bears input that is no UTF-8."""

    outlet: Outlet
    lost: Callable[[], None]
    """Called on a thread when the terminal is gone."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = self.outlet  # type: ignore[assignment]  # it has all that textual's output thread calls
        self._suspended = False
        self._plain = os.environ.get("TERM", "") in POOR_FONTS
        threading.Thread(target=self._watch, name="terminal-watch", daemon=True).start()

    def _watch(self) -> None:
        """Wait for the terminal to hang up, which no signal may tell: only the session's leader gets one."""
        poll = select.poll()
        poll.register(self.fileno, 0)
        while not any(happened & GONE for _, happened in poll.poll()):
            pass
        self.lost()

    def _sigtstp_application(self, *happened: object) -> None:
        self._suspended = True
        super()._sigtstp_application(*happened)

    def _sigcont_application(self, *happened: object) -> None:
        """Come back from the background. Without this, SIGCONT alone, which a hang-up brings, would start anew."""
        if self._suspended:
            self._suspended = False
            super()._sigcont_application(*happened)

    def _get_terminal_size(self) -> tuple[int, int]:
        return size_of(self.fileno)

    def _run_input_thread(self) -> None:
        while not self.exit_event.is_set():
            try:
                self.run_input_thread()
            except UnicodeDecodeError:  # pasted Latin-1: what was read with it is lost, nothing else
                continue
            except OSError:  # the terminal is gone
                self.lost()
                return

    def _enable_mouse_support(self) -> None:
        """Ask for clicks and the wheel, not for every motion: that is traffic over SSH, and nothing here hovers."""
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1006h")

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000l\x1b[?1006l")

    def _enable_mouse_pixels(self) -> None:
        """Stay with cells."""

    def _request_terminal_sync_mode_support(self) -> None:
        if not self._plain:  # such a console prints the end of the question
            super()._request_terminal_sync_mode_support()

    def _query_in_band_window_resize(self) -> None:
        if not self._plain:
            super()._query_in_band_window_resize()

    def stop_application_mode(self) -> None:
        """Leave the terminal as it was."""
        self.write(CLEAR)
        super().stop_application_mode()


def driver_to(outlet: Outlet, lost: Callable[[], None]) -> type[TerminalDriver]:
    """Return the driver's class for one terminal; textual makes the object itself."""
    return type("Driver", (TerminalDriver,), {"outlet": outlet, "lost": staticmethod(lost)})
