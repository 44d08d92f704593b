"""What the run screen is made of, without an app: tables, tabs, meanings, the report of any folder, the summary."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gradscope.core.events import Stage
from gradscope.core.status import Status
from gradscope.core.summary import Memory, Summary, Time
from gradscope.rundir.files import write_json
from gradscope.rundir.layout import EVENTS, MANIFEST, STATUS, SUMMARY
from gradscope.tui.charts.cells import plain
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.results import meanings
from gradscope.tui.results.lines import Line
from gradscope.tui.results.meanings import MEANINGS
from gradscope.tui.results.memory import resampled
from gradscope.tui.results.report import read_report
from gradscope.tui.results.summary_lines import TraceState, summary_lines
from gradscope.tui.results.table import Column, head, layout, line, matching, sorted_rows
from gradscope.tui.results.tabs import TABS, tab_bar
from tests.builders import RUN_ID, finished_events, preset_dict, run_directory

DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
MIB = 1024 * 1024
ROWS = [("aten::mm", 3, None), ("aten::add", 1, 20), ("Aten::MUL", 2, 10)]
COLUMNS = [
    Column("name", 40, lambda row: row[0].lower(), lambda row: row[0], grows=True, ascending=True),
    Column("calls", 6, lambda row: row[1]),
    Column("bytes", 8, lambda row: row[2]),
]


def texts(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in one.spans).rstrip() for one in lines]


def summary_of(path: Path, *, size: tuple[int, int] = (78, 20), trace: TraceState | None = None) -> list[str]:
    return texts(summary_lines(read_report(path), trace or TraceState(text="no trace"), size, UNICODE))


# meanings


def test_meanings_name_fields_of_the_summary_that_the_document_explains() -> None:
    fields = msgspec.json.schema(Summary)["$defs"]
    named = set(re.findall(r"`([a-z_0-9]+)`", DOCUMENT))
    for key in MEANINGS:
        if key.startswith("trace."):
            continue
        record, place = fields["Summary"], None
        for part in key.split("."):
            record = record if place is None else fields[place]
            assert part in record["properties"], key
            found = record["properties"][part]
            options = found.get("anyOf", [found])
            place = next((one["$ref"].rpartition("/")[2] for one in options if "$ref" in one), place)
        assert key.rpartition(".")[2] in named, f"{key} is not in docs/metrics.md"


def test_meanings_are_short() -> None:
    assert [key for key, meaning in MEANINGS.items() if not 20 < len(meaning.text) <= 230] == []


def test_every_number_of_the_summary_has_a_meaning(tmp_path: Path) -> None:
    report = read_report(run_directory(tmp_path))
    for height in (20, 60):
        lines = summary_lines(report, TraceState(text="no trace"), (78, height), UNICODE)
        assert [one.text for one in lines if one.text and one.meaning not in meanings.MEANINGS] == []


# tables


def test_rows_without_a_value_come_last_whatever_the_order() -> None:
    assert [row[1] for row in sorted_rows(ROWS, COLUMNS[2])] == [1, 2, 3]
    assert [row[1] for row in sorted_rows(ROWS, COLUMNS[2], reverse=True)] == [2, 1, 3]
    assert [row[0] for row in sorted_rows(ROWS, COLUMNS[0])] == ["aten::add", "aten::mm", "Aten::MUL"]


def test_all_words_must_be_in_a_name_whatever_their_case() -> None:
    assert [row[1] for row in matching(ROWS, COLUMNS, "ATEN m")] == [3, 2]
    assert matching(ROWS, COLUMNS, "  ") == ROWS


def test_columns_without_room_are_left_out_except_the_sorted_one() -> None:
    assert [column.title for column, _ in layout(COLUMNS, 60)] == ["name", "calls", "bytes"]
    assert [column.title for column, _ in layout(COLUMNS, 27)] == ["name", "calls"]
    assert [column.title for column, _ in layout(COLUMNS, 27, kept=2)] == ["name", "bytes"]


@pytest.mark.parametrize("width", [1, 12, 27, 60, 200])
def test_lines_of_a_table_have_exactly_the_width(width: int) -> None:
    places = layout(COLUMNS, width)
    assert len(plain([head(places, width, UNICODE, COLUMNS[1], up=False)])) == width
    assert len(plain([line(("\x1b[2J" + "n" * 99, 1, None), places, width, ASCII)])) == width


def test_a_long_name_loses_its_middle_and_a_missing_number_is_said() -> None:
    text = plain([line(("start" + "x" * 99 + "end", 1, None), layout(COLUMNS, 40), 40, UNICODE)])
    assert re.match(r"startx+…x+end\s+1\s+n/a$", text)


# tabs


def test_all_tabs_stand_in_one_line_of_80_cells_and_the_active_one_in_any() -> None:
    assert plain([tab_bar("files", 80)]).split() == plain([tab_bar("summary", 80)]).split()
    for width in (40, 60, 80, 160):
        for tab in TABS:
            text = plain([tab_bar(tab.name, width)])
            assert len(text) == width
            assert f"{tab.key} {tab.short}" in text or f"{tab.key} {tab.name}" in text


def test_tab_keys_are_distinct() -> None:
    assert len({tab.key for tab in TABS}) == len(TABS)


# the report


def test_the_summary_answers_in_order(tmp_path: Path) -> None:
    labels = [text[:18].strip() for text in summary_of(run_directory(tmp_path))]
    order = ["did it work", "loss", "step time", "peak memory", "energy", "where time went", "where memory went"]
    order += ["what to do", "is it right"]
    assert [label for label in labels if label in order] == order


def test_a_killed_run_without_a_summary_shows_what_it_had(tmp_path: Path) -> None:
    path = run_directory(tmp_path, "lost", events=finished_events(until=Stage.MEASURE))
    text = "\n".join(summary_of(path))
    assert "killed" in text
    assert "why" in text
    assert "4 steps measured after 2 of warm-up" in text
    assert "25 ms median" in text.replace("25.0", "25")


@pytest.mark.parametrize("state", [Status.FAILED, Status.OOM])
def test_a_run_that_went_wrong_says_why_first(tmp_path: Path, state: Status) -> None:
    path = run_directory(
        tmp_path, state, reason="no room [/red] for 5.1 GiB", events=finished_events(until=Stage.WARMUP)
    )
    (path / "worker.log").write_text("Traceback\ntorch.OutOfMemoryError: \x1b[2J CUDA out of memory\n")
    lines = summary_of(path)
    assert lines[0].startswith(f"did it work       {state.value}")
    assert "no room [/red] for 5.1 GiB" in "\n".join(lines[:4])
    assert any("\\e[2J CUDA out of memory" in text for text in lines)


def test_why_there_is_no_trace_is_said_with_a_remedy(tmp_path: Path) -> None:
    path = run_directory(tmp_path, events=finished_events(trace=f"{RUN_ID}-w1.1.pt.trace.json.gz"))
    report = read_report(path)
    assert report.traces == ()
    assert "was deleted since" in report.no_trace[0]
    assert report.no_trace[1].startswith("to get a trace: ")


def test_a_run_that_was_stopped_before_its_trace_is_told_to_run_on(tmp_path: Path) -> None:
    path = run_directory(
        tmp_path,
        Status.CANCELLED,
        events=finished_events(until=Stage.MEASURE),
        preset=preset_dict(profile={"steps": 2}),
    )
    reason, remedy = read_report(path).no_trace
    assert reason == "the run ended before its profiled updates, which follow the budget"
    assert remedy.startswith("to get a trace: let the run come to its end, the trace follows the budget: gradscope run")
    assert "profile.steps" not in remedy


def test_a_folder_of_traces_is_no_run_but_can_be_asked(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"traceEvents": []}')
    report = read_report(tmp_path)
    assert not report.is_run
    assert [path.name for path in report.traces] == ["x.json"]
    assert "no run of gradscope" in summary_of(tmp_path)[0]


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    report = read_report(tmp_path / "gone")
    assert report.unreadable.startswith("the folder is gone")
    assert report.traces == ()


@pytest.mark.parametrize("name", [MANIFEST, EVENTS, STATUS, SUMMARY])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00", b"[" * 5000, b'{"schema": 99}'])
def test_damaged_files_are_no_error(tmp_path: Path, name: str, content: bytes) -> None:
    path = run_directory(tmp_path)
    (path / name).write_bytes(content)
    assert summary_of(path)


def test_a_newer_summary_is_told(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    summary = read_report(path).summary
    assert summary is not None
    write_json(path / SUMMARY, msgspec.structs.replace(summary, schema=99))
    assert any("newer gradscope" in problem for problem in read_report(path).problems)


def test_files_are_told_what_they_are(tmp_path: Path) -> None:
    kinds = {file.name: file.kind for file in read_report(run_directory(tmp_path)).files}
    assert kinds[EVENTS] == "what the worker recorded, a line a step"


# the memory curve


def test_a_peak_survives_the_drawing_of_a_curve() -> None:
    times, values = list(range(1000)), [10] * 1000
    values[777] = 99
    assert max(value for value in resampled(times, values, 40) if value is not None) == 99
    assert resampled([0, 100], [5, 7], 4) == [5, 5, 5, 7]


def memory_lines(tmp_path: Path, height: int, **memory: int | None) -> list[str]:
    """Return the lines about memory of a run with these numbers and no other ones."""
    report = read_report(run_directory(Path(tempfile.mkdtemp(dir=tmp_path))))
    assert report.summary is not None
    summary = msgspec.structs.replace(report.summary, memory=Memory(**memory))
    lines = summary_lines(replace(report, summary=summary), TraceState(), (80, height), UNICODE)
    texts = ["".join(span.text for span in line.spans).rstrip() for line in lines]
    first = next(number for number, text in enumerate(texts) if text.startswith("where memory went"))
    return texts[first : next(number for number, text in enumerate(texts) if text.startswith("what to do"))]


@pytest.mark.parametrize("height", [24, 48])
def test_saved_activations_stand_in_where_the_peak_was_not_measured(tmp_path: Path, height: int) -> None:
    lines = memory_lines(tmp_path, height, parameters_bytes=32 * MIB, saved_activations_bytes=64 * MIB)
    assert "saved 64.0 MiB" in "\n".join(lines)


@pytest.mark.parametrize("height", [24, 48])
def test_parts_without_activations_are_not_drawn_as_the_whole(tmp_path: Path, height: int) -> None:
    lines = memory_lines(tmp_path, height, parameters_bytes=32 * MIB)
    assert lines[0] == "where memory went without activations, which were not measured"
    assert "█" * 10 not in "\n".join(lines)
    lines = memory_lines(tmp_path, height, parameters_bytes=32 * MIB, allocated_peak_bytes=128 * MIB)
    assert 14 <= lines[0].count(UNICODE.fills[0]) <= 17  # a quarter of the room


@pytest.mark.parametrize("height", [24, 48])
def test_categories_above_the_peak_are_said_to_be_of_several_moments(tmp_path: Path, height: int) -> None:
    sizes = {"parameters_bytes": 32 * MIB, "peak_activations_bytes": 64 * MIB}
    said = "each at its own largest, not at one moment"
    assert said in "\n".join(memory_lines(tmp_path, height, allocated_peak_bytes=90 * MIB, **sizes))
    assert said not in "\n".join(memory_lines(tmp_path, height, allocated_peak_bytes=96 * MIB, **sizes))


def test_recomputation_is_shown_inside_backward(tmp_path: Path) -> None:
    report = read_report(run_directory(tmp_path))
    assert report.summary is not None
    shares = {"forward": 0.4, "backward": 0.6, "recompute": 0.3}
    summary = msgspec.structs.replace(report.summary, time=Time(phase_share=shares))
    lines = summary_lines(replace(report, summary=summary), TraceState(), (80, 24), UNICODE)
    texts = ["".join(span.text for span in line.spans).rstrip() for line in lines]
    place = next(number for number, text in enumerate(texts) if text.startswith("where time went"))
    assert "backward 60.0 %, of it" in texts[place + 1]
    assert texts[place + 1].index("recompute 30.0 %") < texts[place + 1].index("forward 40.0 %")
    drawn = {role: len(span.text) for span in lines[place].spans if (role := span.style) in shares}
    assert drawn["backward"] == pytest.approx(drawn["recompute"], abs=1)
