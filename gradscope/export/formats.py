"""The formats that a run can be exported to: a registry that the command line and the app both list."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gradscope.errors import ExitCode, GradscopeError
from gradscope.export import markdown
from gradscope.export.chrome import export_trace, mended
from gradscope.export.columns import SAMPLE_COLUMNS, STEP_COLUMNS, Row, as_columns, sample_rows, step_rows
from gradscope.export.gathered import Gathered, gather, summary_of
from gradscope.export.place import Writer, is_folder, write_file, write_files
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.rundir.layout import TRACE_GLOB

if TYPE_CHECKING:
    import polars as pl

FOLDER = "export"
"""Below a run directory: where its exports go unless the user says otherwise."""

TRACE_SUFFIX = TRACE_GLOB.removeprefix("*")
EXPORTED_TRACE_SUFFIX = ".trace.json.gz"
"""Not torch-tb-profiler's: in a folder below the run's, TensorBoard would show the same trace twice."""

Say = Callable[[str], None]


def silent(_note: str) -> None:
    """Say nothing."""


class Export(Protocol):
    """Writes a run."""

    def __call__(self, run_dir: Path, target: Path, *, force: bool = False, note: Say = silent) -> list[Path]:
        """Write a run to a file or folder, whole or not at all.

        Args:
            run_dir: The run, in whatever state it is.
            target: A folder if it is one, or if its name has no ending and nothing is there; else a file.
            force: Whether files that are there may be replaced.
            note: Told what the user should know.

        Returns:
            The files that were written.

        Raises:
            GradscopeError: The run has nothing of this kind, or the target may not be written.
            OSError: It cannot be written.
        """


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    summary: str
    """One line."""
    suffix: str
    """Of its files; empty where it is a folder of several."""
    write: Export
    text: Callable[[Path], bytes] | None = None
    """Returns a run as text for stdout; `None` where it is no text."""
    takes_traces: bool = False
    """Whether `write` takes a trace file in place of a run."""


def state_note(source: Path) -> str | None:
    """Return a note if a run is going on, so that an export is of a part of it; `None` otherwise, and for a trace."""
    if source.is_file() or not is_running(status := RunHandle(source).status()):
        return None
    return f"the run is {status.status.value}: this is what there is so far"


@dataclass(frozen=True, slots=True)
class _Telling:
    """A writer that says first if the run is going on."""

    write: Export

    def __call__(self, run_dir: Path, target: Path, *, force: bool = False, note: Say = silent) -> list[Path]:
        """Do as `Export` says."""
        if (going_on := state_note(run_dir)) is not None:
            note(going_on)
        return self.write(run_dir, target, force=force, note=note)


def tell(run: Gathered, note: Say) -> None:
    """Say what may be missing."""
    if run.unread:
        lines = "1 line" if run.unread == 1 else f"{run.unread} lines"
        note(f"{lines} of the run's files could not be read and are left out")
    if run.record.missing:
        note(f"{run.record.missing} records of the worker are missing")
    if not run.steps:
        note("the run has no steps: their table is empty")


def step_frame(run: Gathered) -> "pl.DataFrame":
    """Return the table of steps."""
    return _frame(step_rows(run), STEP_COLUMNS)


def sample_frame(run: Gathered) -> "pl.DataFrame":
    """Return the table of samples."""
    return _frame(sample_rows(run), SAMPLE_COLUMNS)


def _frame(rows: Iterable[Row], kinds: dict[str, str]) -> "pl.DataFrame":
    import polars as pl

    types = {
        "integer": pl.Int64(),
        "real": pl.Float64(),
        "text": pl.String(),
        "truth": pl.Boolean(),
        "reals": pl.List(pl.Float64),
        "texts": pl.List(pl.String),
    }
    schema = {name: types[kind] for name, kind in kinds.items()}
    return pl.DataFrame(as_columns(rows, kinds), schema=schema)


def _write_tables(kind: str, run_dir: Path, target: Path, *, force: bool = False, note: Say = silent) -> list[Path]:
    from gradscope.trace.table_export import to_bytes

    run = gather(run_dir)
    tell(run, note)

    def steps(path: Path) -> None:
        path.write_bytes(to_bytes(step_frame(run), kind))

    def samples(path: Path) -> None:
        path.write_bytes(to_bytes(sample_frame(run), kind))

    if is_folder(target):
        name = RunHandle(run_dir).run_id
        files = {f"{name}-steps.{kind}": steps, f"{name}-samples.{kind}": samples}
        return write_files(target, files, force=force, keep=run_dir)
    return write_file(target, steps, force=force, keep=run_dir)


def csv_text(run_dir: Path) -> bytes:
    """Return the table of steps as CSV."""
    from gradscope.trace.table_export import to_bytes

    return to_bytes(step_frame(gather(run_dir)), "csv")


def json_text(run_dir: Path) -> bytes:
    """Return the summary as JSON."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(summary_of(run_dir)), indent=2) + b"\n"


def markdown_text(run_dir: Path) -> bytes:
    """Return the summary as Markdown."""
    return markdown.render(summary_of(run_dir)).encode()


def _write_one(
    text: Callable[[Path], bytes],
    suffix: str,
    run_dir: Path,
    target: Path,
    *,
    force: bool = False,
    note: Say = silent,
) -> list[Path]:
    """Write what is one text, to a file of the user's choice or one named after the run."""
    del note

    def write(path: Path) -> None:
        path.write_bytes(text(run_dir))

    if is_folder(target):
        return write_files(target, {f"{RunHandle(run_dir).run_id}{suffix}": write}, force=force, keep=run_dir)
    return write_file(target, write, force=force, keep=run_dir)


def _write_chrome(run_dir: Path, target: Path, *, force: bool = False, note: Say = silent) -> list[Path]:
    traces = _traces(run_dir)
    if not traces:
        handle = RunHandle(run_dir)
        now = "; `gradscope capture` takes one now" if is_running(handle.status()) else ""
        raise GradscopeError(
            f"run {handle.run_id} has no trace",
            f"profile.steps asks for one, of the updates that follow the budget{now}",
        )
    if is_folder(target):
        names = [_exported_name(path) for path in traces]
        return write_files(target, _trace_writers(run_dir, traces, names, note), force=force, keep=run_dir)
    if len(traces) > 1:
        note(f"the run has {len(traces)} traces: this is the last one, a folder takes all")
    writer = _trace_writers(run_dir, traces[-1:], [target.name], note)[target.name]
    return write_file(target, writer, force=force, keep=run_dir)


def _traces(source: Path) -> list[Path]:
    return [source] if source.is_file() else RunHandle(source).traces()


def _exported_name(path: Path) -> str:
    for suffix in (TRACE_SUFFIX, TRACE_SUFFIX.removesuffix(".gz"), ".json.gz", ".json"):
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix) + EXPORTED_TRACE_SUFFIX
    return path.name + EXPORTED_TRACE_SUFFIX


def _trace_writers(source: Path, traces: list[Path], names: list[str], note: Say) -> dict[str, Writer]:
    """Return what writes each trace, enriched if it is a run's."""
    handle = None if source.is_file() else RunHandle(source)
    events, samples = ([], []) if handle is None else (handle.events(), handle.samples())

    def write(trace: Path, path: Path) -> None:
        if repairs := export_trace(trace, path, events, samples):
            note(mended(trace.name, repairs))

    return {name: partial(write, trace) for name, trace in zip(names, traces, strict=True)}


def _write_tensorboard(run_dir: Path, target: Path, *, force: bool = False, note: Say = silent) -> list[Path]:
    """Write a log folder: in it one folder a run, with its scalars and its traces."""
    from gradscope.core.events import WorkerStarted
    from gradscope.export.tensorboard import write_run
    from gradscope.rundir.layout import tensorboard_file

    if target.exists() and not target.is_dir():
        raise GradscopeError(f"{target} is no folder", "TensorBoard shows folders: name one")
    handle = RunHandle(run_dir)
    started = next((event for event in handle.events() if isinstance(event, WorkerStarted)), None)
    if started is None:
        raise GradscopeError(
            f"run {handle.run_id} has nothing to show: its training process never started", exit_code=ExitCode.FAILED
        )

    def scalars(path: Path) -> None:
        write_run(run_dir, path.parent, summary_of(run_dir))

    traces = handle.traces()
    names = [f"{handle.run_id}/{path.name}" for path in traces]
    files: dict[str, Writer] = {f"{handle.run_id}/{tensorboard_file(started.wall_ns)}": scalars}
    files |= _trace_writers(run_dir, traces, names, note)
    return write_files(target, files, force=force, keep=run_dir)


ALL = (
    Format(
        "chrome",
        "traces for Perfetto, repaired, with memory, load and power",
        EXPORTED_TRACE_SUFFIX,
        _Telling(_write_chrome),
        takes_traces=True,
    ),
    Format("tensorboard", "a log folder with scalars, metrics and traces", "", _Telling(_write_tensorboard)),
    Format(
        "csv",
        "one row a step, with the samples that cover it",
        ".csv",
        _Telling(partial(_write_tables, "csv")),
        csv_text,
    ),
    Format(
        "parquet",
        "the tables of csv, typed",
        ".parquet",
        _Telling(partial(_write_tables, "parquet")),
    ),
    Format(
        "json", "the summary, as in summary.json", ".json", _Telling(partial(_write_one, json_text, ".json")), json_text
    ),
    Format(
        "markdown",
        "the summary as tables, to paste into an issue",
        ".md",
        _Telling(partial(_write_one, markdown_text, ".md")),
        markdown_text,
    ),
)

FORMATS: dict[str, Format] = {one.name: one for one in ALL}
"""In the order of `gradscope export --help`."""
