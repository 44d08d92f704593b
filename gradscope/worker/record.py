"""The worker's pen: numbered, stamped records in `events.jsonl`, and the rule by which step records thin out."""

import threading
import time
from pathlib import Path
from typing import Any

from gradscope.core.events import Event, Note, Step
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.layout import EVENTS

THIN_AFTER_BYTES = 200_000_000
"""Size of the file past which step records thin out."""

THIN_TO_ONE_IN = 10
"""Then every tenth step is recorded, standing for ten (`covers`)."""


class RecordError(GradscopeError):
    """`events.jsonl` cannot be written, so a run cannot go on; never what ended training if something else did."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"{EVENTS} cannot be written: {error.strerror}",
            "free some space there, or choose another output root with --out",
            exit_code=ExitCode.FAILED,
        )


class EventLog:
    """Appends events; safe to use from several threads."""

    def __init__(self, run_dir: Path, *, thin_after_bytes: int = THIN_AFTER_BYTES) -> None:
        try:
            self._writer = JsonlWriter(run_dir / EVENTS)
        except OSError as error:
            raise RecordError(error) from error
        self._lock = threading.Lock()
        self._seq = 0
        self._thin_after_bytes = thin_after_bytes
        self._thinning = False

    def emit(self, kind: type[Event], **fields: Any) -> None:
        """Append one record of `kind`.

        Raises:
            RecordError: It could not be written (a full disk, say).
        """
        if kind is Step:
            covers = self._covers(fields["step"])
            if covers == 0:
                return
            fields["covers"] = covers
        with self._lock:
            try:
                self._writer.append(kind(seq=self._seq, t_ns=time.monotonic_ns(), **fields))
            except OSError as error:
                raise RecordError(error) from error
            self._seq += 1

    def _covers(self, step: int) -> int:
        """Return how many steps the record of `step` stands for; 0 if it is left out."""
        if not self._thinning:
            if self._writer.size_bytes < self._thin_after_bytes:
                return 1
            self._thinning = True
            self.emit(
                Note,
                code="events_thinned",
                message=f"past {self._thin_after_bytes / 1e6:.0f} MB, one step in {THIN_TO_ONE_IN} is recorded",
                step=step,
            )
        return THIN_TO_ONE_IN if step % THIN_TO_ONE_IN == 0 else 0
