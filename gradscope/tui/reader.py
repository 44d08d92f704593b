"""Everything of one run directory as it is read: files in, a frozen view out."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from gradscope.analysis.fold import RunRecord, update
from gradscope.analysis.progress import Progress, worth_saying
from gradscope.analysis.resources import own_card
from gradscope.config.convert import preset_from_dict
from gradscope.config.schema import Preset
from gradscope.core.events import AnyEvent, MemoryMeasured, Note, Step
from gradscope.core.samples import Sample, SampleLine, SamplerNote, SamplerStarted
from gradscope.core.status import SCHEMA_VERSION, Status, StatusRecord
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.rundir.handle import is_running
from gradscope.rundir.layout import EVENTS, MANIFEST, SAMPLES, STATUS, WORKER_LOG
from gradscope.rundir.manifest import Manifest
from gradscope.rundir.tail import JsonlTail
from gradscope.rundir.watch import WatchedRun
from gradscope.tui.log_tail import LogTail
from gradscope.tui.tables import SampleTables, StepTable
from gradscope.tui.view import Remark, RunView, Window

BREATH_SECONDS = 0.001
"""Pause after every `BREATH_BATCHES` of a large file, so that the screen's thread gets its turn."""

BREATH_BATCHES = 8

MOST_REMARKS = 500

T = TypeVar("T")


class RunReader:
    """One run. A folder in which another one turns up takes a new reader."""

    def __init__(self, path: Path) -> None:
        self._files = WatchedRun(path)
        self._events = self._files.event_tail()
        self._samples = self._files.sample_tail()
        self._log = LogTail(path / WORKER_LOG)
        self._manifest: Manifest | None = None
        self._preset: Preset | None = None
        self._status: StatusRecord | None = None
        self._errors: dict[str, str] = {}
        self._partial = False
        self._record = RunRecord()
        self._progress = Progress(None)
        self._steps = StepTable()
        self._tables = SampleTables()
        self._sampler: SamplerStarted | None = None
        self._categories: MemoryMeasured | None = None
        self._allocator: MemoryMeasured | None = None
        self._remarks: deque[Remark] = deque(maxlen=MOST_REMARKS)

    def read(self, enough: Callable[[], bool]) -> bool:
        """Take in what is new; False if what lies there now is another run, or the same one written anew."""
        self._errors.clear()
        self._partial = False
        with self._reporting(MANIFEST):
            if not self._take_manifest(self._files.manifest()):
                return False
        with self._reporting(STATUS):  # before the events: a run that is over has written all of them
            self._status = self._files.status()
        with self._reporting(EVENTS):
            if not self._drain(self._events, self._take_events, enough):
                return False
        with self._reporting(SAMPLES):
            if not self._drain(self._samples, self._take_samples, enough):
                return False
        with self._reporting(WORKER_LOG):
            self._log.read()
        return True

    def view(self, *, revision: int, gone: bool, now_monotonic_ns: int) -> RunView:
        """Return what is known.

        Args:
            revision: The view's.
            gone: Whether the folder is not there any more.
            now_monotonic_ns: For how long nothing has come.
        """
        record, status = self._record, self._status_now(gone)
        running = is_running(status)
        standing = self._progress.standing(status.status)
        cards = self._tables.cards()
        own = own_card(record.started, cards)
        return RunView(
            revision=revision,
            path=self._files.path,
            run_id=self._files.run_id,
            preset_name=self._preset_name(),
            preset=self._preset,
            status=status,
            running=running,
            doing=standing.doing,
            stage=standing.stage,
            stage_done=standing.stage_done,
            stage_planned=standing.stage_planned,
            share_done=standing.share_done,
            seconds_left=standing.seconds_left,
            silent_seconds=_silent_seconds(record.last_t_ns, now_monotonic_ns) if running else None,
            started=record.started,
            built=record.built,
            steps=self._steps.columns(),
            host=self._tables.host(),
            core_busy_pct=self._tables.core_busy_pct,
            gpus=cards,
            sampler=self._sampler,
            throttle_reasons=self._tables.throttle.get(own or "", ()),
            own_gpu=own,
            categories=self._categories,
            allocator=self._allocator,
            windows=tuple(Window(window.started, window.ended) for window in record.windows),
            audit=record.audit,
            failure=record.failure,
            median_step_ms=self._steps.median_ms(),
            measured=self._steps.measured(record.totals),
            remarks=(*self._remarks, *(Remark(visible(note)) for note in status.notes)),
            log=self._log.lines,
            problems=tuple(self._problems(gone, status)),
            partial=self._partial,
        )

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        """Turn trouble with a file into a problem of the run."""
        try:
            yield
        except FileNotFoundError:
            pass  # removed between two looks: the next one tells
        except OSError as error:
            self._errors[name] = f"cannot read {name}: {error.strerror}"

    def _take_manifest(self, manifest: Manifest | None) -> bool:
        if manifest is None or manifest is self._manifest or manifest == self._manifest:
            return True
        if self._manifest is not None or self._record.last_seq >= 0:
            return False
        self._manifest = manifest
        try:
            self._preset = preset_from_dict(manifest.preset)
        except GradscopeError:
            self._preset = None  # of another version: said in `problems`
        self._progress = Progress(self._preset)
        return True

    def _drain(self, tail: JsonlTail[T], take: Callable[[Sequence[T]], None], enough: Callable[[], bool]) -> bool:
        """Hand over what is new in a file; False if it begins anew."""
        if self._partial:
            return True
        with closing(tail.batches()) as batches:
            for number, batch in enumerate(batches, start=1):
                if tail.restarts:
                    return False
                if number % BREATH_BATCHES == 0:
                    time.sleep(BREATH_SECONDS)
                take(batch)
                if enough():
                    self._partial = True
                    break
        return not tail.restarts

    def _take_events(self, events: Sequence[AnyEvent]) -> None:
        record = self._record
        new = update(record, events)
        self._steps.take([event for event in new if isinstance(event, Step)])
        for event in new:
            self._progress.take(event)
            if not isinstance(event, Step) and (text := worth_saying(event)) is not None:
                self._remarks.append(Remark(text, event.step if isinstance(event, Note) else None))
        for measured in record.memory:
            if measured.source == "hooks":
                self._categories = measured
            else:
                self._allocator = measured
        for steps in record.steps.values():  # the columns hold them: the records would take ten times the memory
            steps.clear()
        record.memory.clear()
        record.notes.clear()

    def _take_samples(self, lines: Sequence[SampleLine]) -> None:
        for line in lines:
            if isinstance(line, SamplerStarted):
                self._sampler = line
            elif isinstance(line, SamplerNote):
                self._remarks.append(Remark(visible(line.message)))
        self._tables.take(line for line in lines if isinstance(line, Sample))

    def _preset_name(self) -> str:
        name = None if self._manifest is None else self._manifest.preset.get("name")
        return name if isinstance(name, str) else self._files.path.parent.name

    def _status_now(self, gone: bool) -> StatusRecord:
        status = self._status or StatusRecord(
            status=Status.UNKNOWN,
            host="",
            boot_id="",
            updated_wall_ns=0,
            updated_monotonic_ns=0,
            reason="there is no run directory" if gone else f"{STATUS} cannot be read",
        )
        if not gone or not is_running(status):
            return status
        return msgspec.structs.replace(
            status, status=Status.UNKNOWN, reason=f"its directory vanished while it was {status.status}"
        )

    def _problems(self, gone: bool, status: StatusRecord) -> Iterator[str]:
        record = self._record
        if gone:
            yield f"the run directory is gone: {visible(str(self._files.path))}"
        yield from self._errors.values()
        schemas = [found.schema for found in (record.started, self._sampler) if found is not None]
        newest = max([self._files.newest_schema, *schemas])
        if newest > SCHEMA_VERSION:
            yield (
                f"written by a newer gradscope (format {newest}, this one knows {SCHEMA_VERSION}): "
                "some of it may be missing or wrong here"
            )
        elif not gone and self._manifest is None:
            yield f"{MANIFEST} is missing or damaged"
        elif self._manifest is not None and self._preset is None:
            yield f"the preset in {MANIFEST} is not of this version"
        damaged = {EVENTS: self._steps.damaged, SAMPLES: self._tables.damaged}
        for name, tail in ((EVENTS, self._events), (SAMPLES, self._samples)):
            if lines := tail.malformed + damaged[name]:
                yield f"{_lines(lines)} of {name} damaged and left out"
            if tail.unknown:
                yield f"{_lines(tail.unknown)} of {name} of a kind that this version does not know"
        if record.missing > self._events.malformed + self._events.unknown:
            yield f"{record.missing} records of the worker could not be read"
        if status.status.is_final and self._events.torn:
            yield f"{EVENTS} ends within a line"


def _silent_seconds(last_t_ns: int | None, now_ns: int) -> float | None:
    """Return for how long nothing has come, in whole seconds, so that a view holds for a while."""
    return None if last_t_ns is None else float(max(0, now_ns - last_t_ns) // 1_000_000_000)


def _lines(count: int) -> str:
    return "one line" if count == 1 else f"{count} lines"
