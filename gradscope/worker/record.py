"""The worker's pen: numbered, stamped records in `events.jsonl`, and the rule by which step records thin out."""

import threading
import time
from collections.abc import Sequence
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
        self._append(kind, [fields])

    def emit_steps(self, steps: Sequence[dict[str, Any]]) -> None:
        """Append the records of some steps, given as fields of `Step`, in one write; past the limit only one in ten.

        Raises:
            RecordError: They could not be written.
        """
        if not self._thinning and self._writer.size_bytes >= self._thin_after_bytes:
            self._thinning = True
            message = f"past {self._thin_after_bytes / 1e6:.0f} MB, one step in {THIN_TO_ONE_IN} is recorded"
            self.emit(Note, code="events_thinned", message=message, step=steps[0]["step"])
        if self._thinning:
            steps = [{**fields, "covers": THIN_TO_ONE_IN} for fields in steps if fields["step"] % THIN_TO_ONE_IN == 0]
        self._append(Step, steps)

    def _append(self, kind: type[Event], records: Sequence[dict[str, Any]]) -> None:
        with self._lock:
            now_ns = time.monotonic_ns()
            events = [kind(seq=self._seq + number, t_ns=now_ns, **fields) for number, fields in enumerate(records)]
            try:
                self._writer.append(*events)
            except OSError as error:
                raise RecordError(error) from error
            self._seq += len(events)
