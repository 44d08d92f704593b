"""Everything gradscope can be asked of a trace, asked of one file: answers that hold together, or one clear error."""

import json
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gradscope.cli.trace_json import document
from gradscope.cli.trace_layout import ASCII, UNICODE, Pen
from gradscope.cli.trace_report import VIEWS, render
from gradscope.core.text import display_width, visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace.answers import TABLES, Answers
from gradscope.trace.compare import compare
from gradscope.trace.cut import cut_trace
from gradscope.trace.frames import EVENT_SCHEMA, Trace
from gradscope.trace.load import load_trace
from gradscope.trace.ranks import join_windows
from gradscope.trace.sql import query
from gradscope.trace.steps import steps
from gradscope.trace.table_export import FORMATS, safe_json, to_bytes
from gradscope.trace.target import Loaded, Target, load
from tests.command_line import gradscope_trace

PARTS = ("compute", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
OF_ONE_STEP = ["overview", "operators", "kernels", "modules", "steps"]
QUERIES = (
    "select count(*) as n from events",
    "select name, sum(dur_ns) as total from events group by name order by total desc limit 3",
    "select o.name, k.calls from operators o left join kernels k on o.name = k.name",
    "select number, dur_ns from steps where dur_ns > 0",
)


def check_load(path: Path) -> Trace | None:
    """Load a file and hold what must hold of any trace; None if it was refused as it should be."""
    try:
        trace = load_trace(path, with_stacks=True, processes=1)
    except GradscopeError as error:
        check_error(error)
        return None
    check_frame(trace)
    return trace


def check_error(error: GradscopeError) -> None:
    """Hold that an error is the user's, on one line."""
    if error.exit_code is not ExitCode.USAGE or "\n" in error.message:
        raise AssertionError(f"no clear error: {error.message!r}") from error


def check_frame(trace: Trace) -> None:
    """Hold what must hold of the events of any trace."""
    events = trace.events
    assert dict(events.schema) == EVENT_SCHEMA
    required = events.select(pl.col("index", "ph", "ts_ns", "pid", "tid").null_count()).row(0)
    assert required == (0, 0, 0, 0, 0)
    slices = events.filter(pl.col("ph") == "X")
    assert slices.get_column("dur_ns").null_count() == 0
    assert (slices.get_column("dur_ns") >= 0).all()
    assert not events.select(pl.col("ph").is_in(["M", "B", "E"]).any()).item()
    assert events.get_column("index").is_sorted()
    assert all(note.message == visible(note.message) and note.count > 0 for note in trace.notes)


def ask_everything(path: Path, folder: Path, turn: int) -> bool:
    """Ask one file everything; whether it was a trace.

    Args:
        path: The file.
        folder: For what is written; of this call alone.
        turn: Any number: glyphs, formats, groupings and neighbours take turns by it.

    Raises:
        AssertionError: An answer contradicts another, or an error is not clear.
        Exception: Whatever the answers raised, which none should.
    """
    target = Target("file", [path])
    try:
        loaded = load(target, with_stacks=True)
    except GradscopeError as error:
        check_error(error)
        with pytest.raises(GradscopeError):
            cut_trace(path, folder / "cut.json", 0, 1, force=True)
        return False
    check_frame(loaded.traces[0])
    answers = Answers(loaded, 0)
    check_text(answers, Pen(80, ASCII if turn % 2 else UNICODE, 5, detailed=turn % 3 > 0), list(VIEWS))
    check_json(document(answers))
    check_tables(answers, list(FORMATS)[turn % len(FORMATS)])
    check_sums(answers)
    numbers = answers.steps.table["number"].to_list()
    check_cut(path, folder / ("cut.json.gz" if turn % 2 else "cut.json"), numbers)
    (check_by_shape, check_by_stack, check_comparison, check_ranks, check_windows)[turn % 5](answers)
    return True


def check_text(answers: Answers, pen: Pen, views: list[str] | None) -> None:
    """Hold that every section fits, and that no name reaches the terminal as it is."""
    text = render(answers, pen, views)
    assert text == visible(text, keep="\n")
    wide = [line for line in text.splitlines() if display_width(line) > pen.width]
    assert not wide, wide
    assert pen.glyphs is UNICODE or text.isascii()


def check_json(plain: dict[str, Any]) -> None:
    """Hold that a document is strict JSON without what a terminal obeys."""
    text = safe_json(plain).decode()
    assert text == visible(text)
    json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not strict JSON")


def check_tables(answers: Answers, kind: str) -> None:
    """Write every table in a format, and ask in SQL."""
    for name in TABLES:
        table = answers.table(name)
        content = to_bytes(table, kind)
        if kind == "json":
            assert len(json.loads(content, parse_constant=_refuse)) == table.height
    found = [query({name: lambda name=name: answers.table(name) for name in TABLES}, text) for text in QUERIES]
    assert found[0].item() == answers.trace.events.height


def check_sums(answers: Answers) -> None:
    """Hold what the numbers owe each other."""
    table = answers.steps.table
    assert (table.select(pl.sum_horizontal(f"{part}_ns" for part in PARTS)).to_series() == table["dur_ns"]).all()
    assert (table.select(pl.min_horizontal(f"{part}_ns" for part in PARTS)).to_series() >= 0).all()
    for frame, column in ((table, "gpu_busy_pct"), (answers.steps.totals, "in_steps_pct")):
        assert frame[column].drop_nulls().is_between(0, 100 + 1e-9).all()
    operators, kernels = answers.operators, answers.kernels
    assert (operators["calls"] > 0).all()
    assert (operators["self_host_ns"] >= 0).all()
    assert (operators["self_host_ns"] <= operators["host_ns"]).all()
    assert (kernels["min_ns"] <= kernels["max_ns"]).all()
    assert (answers.idle.gaps["dur_ns"] >= 0).all()
    for finding in answers.findings.found:
        assert finding.saving_pct is None or 0 <= finding.saving_pct <= 100 + 1e-9, finding


def check_by_shape(answers: Answers) -> None:
    """Group by shape, in the first step."""
    first = next(iter(answers.steps.table["number"]), None)
    grouped = Answers(answers.loaded, 0, "name+shape", first)
    check_text(grouped, Pen(80), OF_ONE_STEP)
    check_json(document(grouped, OF_ONE_STEP))


def check_by_stack(answers: Answers) -> None:
    """Group by stack."""
    grouped = Answers(answers.loaded, 0, "stack")
    check_text(grouped, Pen(80), ["operators"])
    check_json(document(grouped, ["operators"]))


def check_comparison(answers: Answers) -> None:
    """Compare the trace with itself."""
    trace, path = answers.trace, answers.loaded.paths[0]
    same = compare(trace, trace)
    assert same.difference_ms in (None, 0)
    for column in ("operators", "kernels", "phases", "parts"):
        assert (getattr(same, column)["difference_ms"].fill_null(0) == 0).all()
    check_lines(printed(path, "--compare", path).splitlines())
    json.loads(printed(path, "--compare", path, "--json"), parse_constant=_refuse)


def check_ranks(answers: Answers) -> None:
    """Take the trace twice, as two ranks."""
    trace, path = answers.trace, answers.loaded.paths[0]
    both = Answers(Loaded(Target("ranks", [path, path]), [trace, trace], [path, path], [0, 1]), 1)
    check_lines(VIEWS["ranks"](both, Pen()))
    check_json(document(both, ["ranks"]))


def check_windows(answers: Answers) -> None:
    """Take the trace twice, as two windows of one run."""
    joined = steps(join_windows([answers.trace, answers.trace]))
    assert joined.count is None or joined.count >= (answers.steps.count or 0)


def printed(*arguments: str | Path) -> str:
    """Run the command itself, and return what it writes to stdout."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()):
        assert gradscope_trace(*arguments) == 0
    return out.getvalue()


def check_lines(lines: Iterable[str]) -> None:
    """Hold that lines are printable and fit."""
    assert all(line == visible(line) and display_width(line) <= 80 for line in lines)


def check_cut(path: Path, out: Path, numbers: list[int]) -> None:
    """Cut the trace to its first step, which gives a trace with just that one."""
    first = numbers[0] if numbers else 0
    try:
        done = cut_trace(path, out, first, first, force=True)
    except GradscopeError as error:
        check_error(error)
        if numbers:
            raise AssertionError("a step that is shown cannot be cut out") from error
        return
    again = load_trace(out, processes=1)
    check_frame(again)
    if numbers:
        assert done.steps == [first]
        assert set(steps(again).table["number"]) == {first}
