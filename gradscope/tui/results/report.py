"""What a run directory says of a run that is over, read at once on a thread: also of a damaged or foreign folder."""

import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from gradscope.analysis.summary import load_summary
from gradscope.config.convert import preset_from_dict, preset_to_toml
from gradscope.core.paths import shown_path
from gradscope.core.status import SCHEMA_VERSION, Status, StatusRecord
from gradscope.core.summary import NO_TRACE, Summary
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.rundir.files import DAMAGED
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import (
    CONTROL,
    EVENTS,
    MANIFEST,
    MEMORY_FOLDER,
    SAMPLES,
    STATUS,
    SUMMARY,
    TRACE_GLOB,
    WORKER_LOG,
)
from gradscope.rundir.manifest import Manifest
from gradscope.trace.estimate import cost_of
from gradscope.trace.folder import ENDINGS, find_in_folder

LOG_LINES = 12
"""Last lines of the worker's output that are shown for a run that went wrong."""

MOST_FILES = 500
MOST_ENTRIES = 5000
"""Looked at: the folder may be anybody's."""

T = TypeVar("T")

KINDS = {
    MANIFEST: "what was asked for",
    EVENTS: "what the worker recorded, a line a step",
    CONTROL: "requests: stop, capture, snapshot",
    SAMPLES: "samples of card and host",
    STATUS: "how it stands",
    WORKER_LOG: "the worker's output",
    SUMMARY: "all numbers",
}
"""What the files of a run are."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the run."""

    path: Path
    name: str
    """Relative to the run's folder."""
    size_bytes: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """All there is without asking a trace."""

    path: Path
    run_id: str
    preset_name: str
    status: StatusRecord
    summary: Summary | None
    manifest: Manifest | None
    preset_toml: str | None
    """The resolved preset; `None` where there is no manifest, or one of another version."""
    traces: tuple[Path, ...]
    """One a window, oldest first."""
    trace_events: int
    """In all of them, about."""
    no_trace: tuple[str, ...]
    """Where there is none: why, and how to get one."""
    files: tuple[FileEntry, ...]
    log: tuple[str, ...]
    """The worker's last words, of a run that went wrong."""
    problems: tuple[str, ...]
    unreadable: str = ""
    """Why nothing of the folder can be read: it is gone, or closed to this user."""

    @property
    def is_run(self) -> bool:
        """Whether there is more than traces: something that a run wrote."""
        names = {file.name for file in self.files}
        return self.manifest is not None or bool(names & set(KINDS))

    @property
    def command(self) -> str | None:
        """The command line that asked for the run."""
        return shlex.join(self.manifest.argv) if self.manifest and self.manifest.argv else None

    @property
    def snapshots(self) -> tuple[Path, ...]:
        """CUDA memory snapshots."""
        return tuple(file.path for file in self.files if file.name.startswith(f"{MEMORY_FOLDER}/"))


def read_report(path: Path) -> RunReport:
    """Read a run directory, or a folder that holds nothing but traces; never raises for what it finds there."""
    handle = RunHandle(path)
    problems: list[str] = []
    summary: Summary | None = None
    try:
        summary = load_summary(handle.path)
        if summary.schema > SCHEMA_VERSION:
            problems.append(f"written by a newer gradscope (format {summary.schema}): some of it may be missing here")
    except (OSError, GradscopeError, ValueError, *DAMAGED) as error:
        problems.append(f"its numbers cannot be read: {error}")
    manifest = _or_none(handle.manifest, problems, MANIFEST)
    status = _or_none(handle.status, problems, STATUS) or _no_status()
    files = tuple(_files(handle.path, problems))
    if manifest is None and any(file.name in KINDS for file in files):
        problems.append(f"{MANIFEST} is missing or damaged: what was asked for is not known")
    unreadable = _why_unreadable(handle.path)
    if unreadable:
        problems.clear()  # the same again for each of its files
    traces = _traces(handle)
    return RunReport(
        path=handle.path,
        run_id=handle.run_id,
        preset_name=summary.identity.preset if summary else handle.path.parent.name,
        status=status,
        summary=summary,
        manifest=manifest,
        preset_toml=_preset_toml(manifest),
        traces=traces,
        trace_events=cost_of(traces).events,
        no_trace=() if traces else tuple(_why_no_trace(summary, manifest, handle.path, unreadable)),
        files=files,
        log=_last_words(handle) if status.status is not Status.DONE else (),
        problems=tuple(problems),
        unreadable=unreadable,
    )


def _why_unreadable(path: Path) -> str:
    """Return why nothing there can be read; empty where something can."""
    try:
        if path.is_file():
            return ""
        with os.scandir(path) as entries:
            next((entry.stat() for entry in entries), None)
    except FileNotFoundError:
        return f"the folder is gone: {visible(str(path))} was deleted or moved"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _last_words(handle: RunHandle) -> tuple[str, ...]:
    try:
        return tuple(handle.log_tail(LOG_LINES))
    except OSError:  # said of the other files
        return ()


def _or_none(read: Callable[[], T | None], problems: list[str], name: str) -> T | None:
    try:
        return read()
    except OSError as error:
        problems.append(f"cannot read {name}: {error.strerror}")
        return None


def _no_status() -> StatusRecord:
    reason = f"{STATUS} cannot be read"
    return StatusRecord(
        status=Status.UNKNOWN, host="", boot_id="", updated_wall_ns=0, updated_monotonic_ns=0, reason=reason
    )


def _preset_toml(manifest: Manifest | None) -> str | None:
    if manifest is None:
        return None
    try:
        return preset_to_toml(preset_from_dict(manifest.preset))
    except (GradscopeError, ValueError, TypeError):  # of another version: the manifest itself can still be read
        return None


def _traces(handle: RunHandle) -> tuple[Path, ...]:
    """Return the run's windows; in a folder that is no run's, whatever traces lie there."""
    try:
        if handle.path.is_file():
            return (handle.path,)
        found = handle.traces()
        if not found and not (handle.path / MANIFEST).exists():
            found = [path for path in find_in_folder(handle.path).paths if path.name != SUMMARY]
    except OSError:
        return ()
    return tuple(found)


def _why_no_trace(summary: Summary | None, manifest: Manifest | None, path: Path, unreadable: str) -> Iterator[str]:
    """Say why there is no trace, and how to get one."""
    if unreadable:
        yield from (unreadable, "")
        return
    reasons = []
    for window in summary.windows if summary else []:
        if window.error:
            reasons.append(f"window {window.window} failed: {window.error}")
        elif window.file:
            reasons.append(f"{window.file} was deleted since")
        elif not window.closed:
            reasons.append(f"the run ended inside window {window.window}")
    reasons += [remark.message for remark in (summary.remarks if summary else []) if remark.code == NO_TRACE]
    asked = _asked_for_a_trace(manifest)
    usual = "the run ended before its profiled updates" if asked else "this run recorded no trace: profile.steps was 0"
    yield visible("; ".join(reasons) or usual)
    name = summary.identity.preset if summary else "PRESET"
    out = shown_path(path.parent.parent)
    elsewhere = "" if str(out) == "traces" else f" --out {shlex.quote(str(out))}"
    command = f"gradscope run {shlex.quote(name)}{'' if asked else ' -s profile.steps=2'}{elsewhere}"
    if asked and manifest is not None and manifest.argv:
        command = shlex.join(manifest.argv)
    end = "let the run come to its end, the trace follows the budget: " if asked else ""
    yield visible(f"to get a trace: {end}{command}")


def _asked_for_a_trace(manifest: Manifest | None) -> bool:
    profile = manifest.preset.get("profile") if manifest is not None else None
    return isinstance(profile, dict) and bool(profile.get("steps"))


def _files(folder: Path, problems: list[str]) -> Iterator[FileEntry]:
    try:
        found = sorted(path for path in islice(folder.rglob("*"), MOST_ENTRIES) if path.is_file())
    except OSError as error:
        problems.append(f"cannot list the folder: {error.strerror}")
        return
    if len(found) > MOST_FILES:
        problems.append(f"the folder holds {len(found)} files, of which {MOST_FILES} are shown")
    for path in found[:MOST_FILES]:
        name = str(path.relative_to(folder))
        try:
            size_bytes = path.stat().st_size
        except OSError:  # deleted since
            continue
        yield FileEntry(path, name, size_bytes, _kind(path, name))


def _kind(path: Path, name: str) -> str:
    if path.match(TRACE_GLOB):
        return "trace: Perfetto, TensorBoard"
    if path.name.startswith("events.out.tfevents"):
        return "TensorBoard's scalars"
    if name.startswith(f"{MEMORY_FOLDER}/"):
        return "see pytorch.org/memory_viz"
    return KINDS.get(name, "may be a trace" if path.name.endswith(ENDINGS) else "")
