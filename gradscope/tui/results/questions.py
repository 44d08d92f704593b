"""What the run screen asks of a trace, each answer as plain data. Runs on a thread; polars is imported here only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscope.core.units import format_bytes, format_count
from gradscope.errors import ExitCode, GradscopeError
from gradscope.tui.results.asked import (
    Alive,
    Gap,
    IdleKind,
    IdleReport,
    KernelRow,
    MemoryCurve,
    MemoryReport,
    OperatorDetail,
    OperatorRow,
    Overview,
    StepRow,
    StepsReport,
)
from gradscope.tui.results.lanes import Lanes

if TYPE_CHECKING:
    from gradscope.trace.answers import Answers
    from gradscope.trace.findings import Findings

Check = Callable[[str], None]
"""Told what is being done; raises `Stopped` when the user has stopped it."""

GROUPINGS = ("name", "name+shape", "stack")
MOST_ROWS = 20_000
"""Rows of a table that are handed to the screen, the largest first."""
CURVE_POINTS = 4_000
SHOWN_STEP_NAMES = "ProfilerStep"


class Stopped(Exception):  # noqa: N818 - no error: the user asked for it
    """The user has stopped the analysis."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask of a trace."""

    name: str
    """One of `QUESTIONS`."""
    about: Any = None
    """What it is about, such as a step's number."""


class TraceReader:
    """One run's trace, loaded when it is first asked. Used on one thread at a time."""

    def __init__(self, paths: tuple[Path, ...], *, run_id: str, force: bool = False) -> None:
        self.paths = paths
        self._run_id = run_id
        self._force = force
        self._answers: Answers | None = None
        self.kept: dict[str, Any] = {}
        """Frames that several questions need."""

    def answer(self, question: Question, check: Check) -> Any:
        """Work out one answer.

        Raises:
            Stopped: By the user.
            GradscopeError: The file is no trace, or too large for this machine.
        """
        answers = self._loaded(check)
        check(DOING[question.name])
        return QUESTIONS[question.name](self, answers, question.about)

    def _loaded(self, check: Check) -> "Answers":
        if self._answers is None:
            from gradscope.trace.answers import Answers
            from gradscope.trace.estimate import cost_of
            from gradscope.trace.target import Target, load

            check("looking at the trace")
            cost = cost_of(self.paths)
            self._require(cost.memory_bytes)
            reading = ["reading the trace"]

            def progress(text: str) -> None:
                reading[0] = text.replace("loading", "reading")
                check(reading[0])

            def watch(events: int) -> None:
                share = "" if not cost.events else f" {min(99, round(100 * events / cost.events))} %"
                check(f"{reading[0]}:{share} of about {format_count(cost.events)} events")

            kind = "windows" if len(self.paths) > 1 else "file"
            target = Target(kind, list(self.paths), run_id=self._run_id)
            loaded = load(target, with_stacks=True, progress=progress, watch=watch)
            self._answers = Answers(loaded, 0)
        return self._answers

    def _require(self, need_bytes: int) -> None:
        from gradscope.sampling.cgroup import memory_groups
        from gradscope.trace.room import available_bytes

        free_bytes = available_bytes(memory_groups())
        if need_bytes > free_bytes and not self._force:
            raise GradscopeError(
                f"the trace takes about {format_bytes(need_bytes)} of memory, {format_bytes(free_bytes)} are free",
                "w chooses one window; gradscope trace FILE --cut-steps A:B --out SMALL.pt.trace.json.gz cuts it",
                exit_code=ExitCode.ENVIRONMENT,
            )


def _overview(reader: TraceReader, answers: "Answers", about: Any) -> Overview:
    from gradscope.trace.answers import is_usable

    trace = answers.trace
    numbers = answers.steps.table["number"].to_list()
    return Overview(
        events=trace.events.height,
        usable=is_usable(trace),
        has_device=answers.has_device,
        steps=tuple(numbers),
        notes=tuple(note.message for note in answers.notes if note.code != "no_device_events"),
    )


def _findings(reader: TraceReader, answers: "Answers", about: Any) -> "Findings":
    return answers.findings


def _operators(reader: TraceReader, answers: "Answers", grouping: str) -> list[OperatorRow]:
    import polars as pl

    table = _grouped(reader, answers, grouping)
    table = table.filter(~pl.col("name").str.starts_with(SHOWN_STEP_NAMES).fill_null(value=False)).head(MOST_ROWS)
    return list(_operator_rows(table, answers.host_time_ns))


def _grouped(reader: TraceReader, answers: "Answers", grouping: str) -> Any:
    from gradscope.trace.operators import operators

    key = f"operators by {grouping}"
    if key not in reader.kept:
        reader.kept[key] = operators(answers.trace, grouping, nested=answers.nested)  # type: ignore[arg-type]
    return reader.kept[key]


def _operator_rows(table: Any, whole_ns: int) -> Iterator[OperatorRow]:
    for row in table.iter_rows(named=True):
        yield OperatorRow(
            name=row["name"] or "(no name)",
            kind=row["kind"],
            shapes=row.get("shapes"),
            stack=None if "stack" not in row else tuple(row["stack"] or ()),
            calls=row["calls"],
            self_host_ns=row["self_host_ns"],
            host_ns=row["host_ns"],
            share=None if not whole_ns else row["self_host_ns"] / whole_ns,
            self_device_ns=row["self_device_ns"],
            device_ns=row["device_ns"],
            self_memory_bytes=_sum(row["self_memory_bytes"], row["self_device_memory_bytes"]),
            flops=row["flops"],
        )


def _sum(*values: int | None) -> int | None:
    there = [value for value in values if value is not None]
    return sum(there) if there else None


def _detail(reader: TraceReader, answers: "Answers", about: tuple[str, str]) -> OperatorDetail:
    import polars as pl

    name, kind = about
    mine = (pl.col("name") == name) & (pl.col("kind") == kind)
    by_name, by_shape, by_stack = (
        list(_operator_rows(_grouped(reader, answers, grouping).filter(mine).head(MOST_ROWS), answers.host_time_ns))
        for grouping in GROUPINGS
    )
    kernels = [row for row in _kernels(reader, answers, None) if name in row.launched_by]
    stacked = [row for row in by_stack if row.stack]
    return OperatorDetail(by_name[0] if by_name else None, by_shape, stacked, kernels)


def _kernels(reader: TraceReader, answers: "Answers", about: Any) -> list[KernelRow]:
    if not answers.has_device:
        return []
    table = answers.kernels.head(MOST_ROWS)
    whole = int(answers.kernels["total_ns"].sum() or 0)
    return [
        KernelRow(
            name=row["name"] or "(no name)",
            kind=row["kind"],
            calls=row["calls"],
            total_ns=row["total_ns"],
            share=row["total_ns"] / whole if whole else None,
            mean_ns=row["mean_ns"],
            max_ns=row["max_ns"],
            occupancy_pct=row["occupancy_pct"],
            tensor_cores=row["tensor_cores"],
            launched_by=tuple(row["launched_by"]),
        )
        for row in table.iter_rows(named=True)
    ]


def _steps(reader: TraceReader, answers: "Answers", about: Any) -> StepsReport:
    from gradscope.trace.steps import PARTS

    found = answers.steps
    rows = [
        StepRow(
            number=row["number"],
            window=row["window"],
            dur_ns=row["dur_ns"],
            parts={part: row[f"{part}_ns"] for part in PARTS},
            busy_pct=row["gpu_busy_pct"],
            kernels=row["kernels"],
            lost_kernels=row["lost_kernels"],
            complete=row["complete"],
        )
        for row in found.table.iter_rows(named=True)
    ]
    phases = {row["phase"]: row["host_pct"] for row in answers.phases.totals.iter_rows(named=True)}
    whole = found.mean or (found.whole.row(0, named=True) if found.whole.height else None)
    mean = None if whole is None else {part: float(whole[f"{part}_ns"]) for part in PARTS if f"{part}_ns" in whole}
    return StepsReport(
        rows=rows,
        known=found.count is not None,
        has_device=found.has_device_events,
        mean=mean,
        of_steps=found.complete_count,
        phases=phases,
    )


def _idle(reader: TraceReader, answers: "Answers", about: Any) -> IdleReport:
    if not answers.has_device:
        return IdleReport(has_device=False, kinds=[], longest=[], delay_us=None)
    found = answers.idle
    kinds = [IdleKind(**row) for row in found.by_kind.iter_rows(named=True)]
    longest = [
        Gap(
            device=row["device"],
            step=row["number"],
            start_ns=row["start_ns"],
            dur_ns=row["dur_ns"],
            kind=row["kind"],
            before=row["before"],
            after=row["after"],
            host_op=row["host_op"],
            host_pct=row["host_pct"],
        )
        for row in found.longest.iter_rows(named=True)
    ]
    delay = found.launch_delays["delay_ns"].median()
    return IdleReport(
        has_device=True, kinds=kinds, longest=longest, delay_us=delay / 1e3 if isinstance(delay, float) else None
    )


def _memory(reader: TraceReader, answers: "Answers", about: Any) -> MemoryReport:
    found = answers.memory
    curves = []
    for device in found.devices:
        start, times, values = _thinned(device.curve)
        curves.append(
            MemoryCurve(
                device=device.device,
                start_ns=start,
                times_ns=times,
                allocated_bytes=values,
                peak_bytes=device.peak_bytes,
                peak_ts_ns=device.peak_ts_ns,
                peak_step=device.peak_step,
                reserved_peak_bytes=device.reserved_peak_bytes,
                basis=device.basis,
                older_bytes=device.older_at_peak_bytes,
                alive=_alive(device.alive_at_peak),
                never_freed=_alive(device.never_freed),
                allocations_per_step=device.allocations_per_step,
                turnover=device.turnover,
            )
        )
    return MemoryReport(curves, found.missing)


def _alive(table: Any) -> list[Alive]:
    return [
        Alive(row["asked_by"] or row["operator"], row["operator"], row["bytes"], row["count"])
        for row in table.head(MOST_ROWS).iter_rows(named=True)
    ]


def _thinned(curve: Any) -> tuple[int, list[int], list[int]]:
    """Return at most `CURVE_POINTS` highest readings in the order of time: no peak is lost."""
    times, values = curve["ts_ns"].to_list(), curve["allocated_bytes"].to_list()
    every = -(-len(times) // CURVE_POINTS) or 1
    kept = [
        max(range(first, min(first + every, len(times))), key=values.__getitem__)
        for first in range(0, len(times), every)
    ]
    return (times[0] if times else 0), [times[place] for place in kept], [values[place] for place in kept]


def _timeline(reader: TraceReader, answers: "Answers", about: tuple[int | None, bool]) -> Lanes:
    from gradscope.tui.results.lanes_of import lanes_of

    step, python = about
    return lanes_of(answers, step, python=python)


QUESTIONS: dict[str, Callable[[TraceReader, "Answers", Any], Any]] = {
    "overview": _overview,
    "findings": _findings,
    "operators": _operators,
    "detail": _detail,
    "kernels": _kernels,
    "steps": _steps,
    "idle": _idle,
    "memory": _memory,
    "timeline": _timeline,
}

DOING = {
    "overview": "looking at the trace",
    "findings": "asking all rules",
    "operators": "summing operators",
    "detail": "summing one operator's calls",
    "kernels": "summing kernels",
    "steps": "splitting steps",
    "idle": "looking for gaps",
    "memory": "following blocks of memory",
    "timeline": "laying out a step",
}
"""What the user reads meanwhile."""
