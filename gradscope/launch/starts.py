"""Starting many runs one after the other: forked from one warm process where that is to be had, cold elsewhere."""

import contextlib
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from gradscope.errors import GradscopeError
from gradscope.launch.spawn import start_supervisor
from gradscope.launch.warm import KEEP, CellRequest, WarmLost, WarmProcess


class Starts:
    """Starts the runs of one command. They are ordinary runs, which go on when the command is gone.

    A context: at its end the warm process is gone, and its runs are not.
    """

    def __init__(self, *, warm: bool = sys.platform == "linux") -> None:
        """`warm`: whether to start a warm process, which needs Linux."""
        self._folder = tempfile.TemporaryDirectory(prefix="gradscope-", ignore_cleanup_errors=True) if warm else None
        self._warm = None if self._folder is None else WarmProcess(Path(self._folder.name) / "warm.log")

    def __enter__(self) -> "Starts":
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the warm process."""
        self._go_cold()

    @property
    def is_warm(self) -> bool:
        """Whether runs are forked."""
        return self._warm is not None

    def is_ready(self) -> bool:
        """Whether a run may be started; never waits. Where the warm process failed, runs start cold from then on."""
        if self._warm is not None:
            try:
                return self._warm.is_ready()
            except (WarmLost, GradscopeError):  # a cold run meets what is wrong too, and has it in its status
                self._go_cold()
        return True

    def descriptors(self) -> list[int]:
        """Return what can be read when it is ready, while it is not."""
        return [] if self._warm is None else self._warm.descriptors()

    def start(self, run_dir: Path) -> None:
        """Start a run's supervisor and wait until it has started the worker. Only when ready.

        Raises:
            GradscopeError: It did not come so far.
        """
        if self._warm is not None:
            try:
                link = self._warm.start(CellRequest(run_dir=str(run_dir.absolute())))
            except WarmLost:  # before there was a supervisor, or with it
                self._go_cold()
            else:
                with link, contextlib.suppress(OSError):  # it is over already
                    link.send(KEEP)
                return
        start_supervisor(run_dir)

    def _go_cold(self) -> None:
        if self._warm is not None:
            self._warm.close()
            self._warm = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
