"""A run directory as a reader sees it, whether the run is going on, over, or came from another machine."""

import os
from pathlib import Path

import msgspec

from gradscope.core.events import AnyEvent
from gradscope.core.samples import SampleLine
from gradscope.core.status import Status, StatusRecord
from gradscope.errors import signal_exit
from gradscope.rundir.files import read_json
from gradscope.rundir.host import boot_id, host_name, is_alive
from gradscope.rundir.layout import EVENTS, SAMPLES, STATUS, TRACE_GLOB, WORKER_LOG
from gradscope.rundir.manifest import Manifest, read_manifest
from gradscope.rundir.tail import JsonlTail

SIGKILL = 9
LOG_TAIL_BYTES = 256 * 1024


class RunHandle:
    """One run directory. Every call reads the disk anew; nothing is cached and nothing is locked."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - absolute without following links the user made

    def __repr__(self) -> str:
        return f"RunHandle({str(self.path)!r})"

    @property
    def run_id(self) -> str:
        """The run's id: the name of its folder."""
        return self.path.name

    @property
    def preset_name(self) -> str:
        """Name of the preset: the manifest's, or the parent folder's where there is no manifest."""
        manifest = self.manifest()
        name = None if manifest is None else manifest.preset.get("name")
        return name if isinstance(name, str) else self.path.parent.name

    def manifest(self) -> Manifest | None:
        """Return the manifest; `None` if it is missing or damaged."""
        return read_manifest(self.path)

    def recorded_status(self) -> StatusRecord | None:
        """Return `status.json` as it stands; `None` if it is missing or damaged."""
        return read_json(self.path / STATUS, StatusRecord)

    def status(self) -> StatusRecord:
        """Return the status as it is now: a run that is not over is checked against the processes it names.

        A final status stands. Otherwise: from another host, `unknown`; from before a restart of this one, or with its
        supervisor gone, `killed`.
        """
        record = self.recorded_status()
        if record is None:
            return self._without_record()
        resolved = resolve(record)
        if resolved is record:
            return record
        # the supervisor may have written its verdict and left between our two looks
        again = self.recorded_status()
        return resolved if again is None or again == record else resolve(again)

    def events(self) -> list[AnyEvent]:
        """Return all records the worker wrote."""
        return self.event_tail().read()

    def event_tail(self) -> JsonlTail[AnyEvent]:
        """Return a reader that gives the worker's records from the first, and new ones as they come."""
        return JsonlTail(self.path / EVENTS, AnyEvent)

    def samples(self) -> list[SampleLine]:
        """Return all the supervisor sampled."""
        return self.sample_tail().read()

    def sample_tail(self) -> JsonlTail[SampleLine]:
        """Return a reader that gives the samples from the first, and new ones as they come."""
        return JsonlTail(self.path / SAMPLES, SampleLine)

    def traces(self) -> list[Path]:
        """Return the profiler's traces, oldest first (by the time stamp in their names)."""

        def age(path: Path) -> tuple[int, str]:
            stamp = path.name.removesuffix(TRACE_GLOB[1:]).rpartition(".")[2]
            return (int(stamp) if stamp.isdecimal() else 0), path.name

        return sorted(self.path.glob(TRACE_GLOB), key=age)

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of the worker's output, as foreign text: escape sequences and all."""
        try:
            with (self.path / WORKER_LOG).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LOG_TAIL_BYTES))
                content = file.read(LOG_TAIL_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return content.decode(errors="replace").splitlines()[-lines:] if lines > 0 else []

    def _without_record(self) -> StatusRecord:
        manifest = self.manifest()
        return StatusRecord(
            status=Status.UNKNOWN,
            host="" if manifest is None else manifest.host,
            boot_id="" if manifest is None else manifest.boot_id,
            updated_wall_ns=0 if manifest is None else manifest.created_wall_ns,
            updated_monotonic_ns=0,
            reason=f"{STATUS} is missing or damaged",
        )


def is_running(record: StatusRecord) -> bool:
    """Whether a run goes on, as far as this machine can tell."""
    return not record.status.is_final and record.status is not Status.UNKNOWN


def resolve(record: StatusRecord) -> StatusRecord:
    """Return what a recorded status means here and now; the record itself where nothing contradicts it."""
    if record.status.is_final:
        return record
    if record.host != host_name():
        return msgspec.structs.replace(
            record,
            status=Status.UNKNOWN,
            reason=f"the run was {record.status} on {record.host or 'another machine'}, where the folder came from",
            hint="look at it on that machine",
        )
    if record.boot_id != boot_id():
        return _killed(record, "the machine was restarted before the run was over")
    if record.supervisor is None or not is_alive(record.supervisor):
        return _killed(record, f"its supervisor was ended from outside while the run was {record.status}")
    return record


def _killed(record: StatusRecord, reason: str) -> StatusRecord:
    return msgspec.structs.replace(
        record,
        status=Status.KILLED,
        reason=reason,
        hint="what it had written is still there",
        signal=SIGKILL,
        exit_code=signal_exit(SIGKILL),
    )
