"""`gradscope trace`: what a person, a script and a viewer get from a trace file, a run, or a folder of ranks."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gradscope.cli import trace_target
from gradscope.core.text import display_width
from tests.builders import run_directory
from tests.command_line import gradscope_trace

pytestmark = pytest.mark.usefixtures("own_folder")

CASES = Path(__file__).parent.parent / "cases" / "traces"
REAL = CASES / "real"
ESCAPES = ("\x1b", "\x07", "\x9b", "\x01")


def text_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert gradscope_trace(*arguments) == 0
    return capsys.readouterr().out


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not strict JSON")

    return json.loads(text_of(capsys, *arguments), parse_constant=refuse)


def test_a_trace_of_a_gpu_is_told_section_by_section(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, CASES / "base_gpu.json")
    sections = [block.split()[0].rstrip(",:") for block in text.split("\n\n")]
    assert sections == [
        "base_gpu.json",
        "overview",
        "phases:",
        "operators",
        "kernels",
        "steps",
        "idle",
        "memory:",
        "findings",
    ] or (
        [name.rstrip(":") for name in sections]
        == ["base_gpu.json", "overview", "phases", "operators", "kernels", "steps", "idle", "memory", "findings"]
    )
    assert "device 0: busy 40.0 % of the steps' time" in text


def test_a_cpu_trace_speaks_of_no_device_instead_of_zero_percent(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, CASES / "base.json")
    assert "kernels: no device events in this trace" in text
    assert "idle: no device events in this trace" in text
    assert "busy" not in text


@pytest.mark.parametrize(
    "name", ["nccl.json.gz", "rank0_of_many.json.gz", "cuda_alexnet.json.gz", "rocm_mi250.json.gz"]
)
@pytest.mark.parametrize("unicode", [True, False])
def test_real_traces_fit_80_columns_and_12_lines_a_section(
    name: str, unicode: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradscope.cli.trace_layout import ASCII, UNICODE, Pen

    monkeypatch.setattr(
        "gradscope.cli.trace_layout.make_pen", lambda _width, top, **_: Pen(80, UNICODE if unicode else ASCII, top)
    )
    text = text_of(capsys, REAL / name)
    assert max(map(display_width, text.splitlines())) <= 80
    for block in text.split("\n\n"):
        if not block.startswith("findings"):
            assert len(block.splitlines()) <= 12, block
    if not unicode:
        assert text.isascii()


def test_of_a_file_that_breaks_off_nothing_is_said_as_if_it_were_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress((REAL / "rank0_of_many.json.gz").read_bytes())[:100_000])
    text = " ".join(text_of(capsys, path).split())
    assert "steps unknown · no device events in what is left of this trace recorded" in text
    assert "steps: unknown, no ProfilerStep marks in what is left of this trace" in text
    assert "CPU only" not in text
    assert "prof.step()" not in text
    assert gradscope_trace(path, "--cut-steps", "0", "--out", tmp_path / "o.json") == 2
    assert "the file breaks off: it may have held some" in capsys.readouterr().err


def test_titles_say_what_a_sum_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\nphases, sum of 2 steps, by " in text_of(capsys, REAL / "rank0_of_many.json.gz", "--view", "phases")
    one = text_of(capsys, REAL / "rank0_of_many.json.gz", "--view", "phases", "--step", "551")
    assert "\nphases of step 551, by " in one


def test_a_section_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, CASES / "p14_no_steps.json", "--view", "windows")
    assert text.endswith("\nwindows: no profiled steps in this trace\n")


def test_which_table_is_written_is_said_where_none_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(CASES / "base.json", "--to", "csv") == 0
    assert capsys.readouterr().err == "the table is operators; --view names another one\n"
    assert gradscope_trace(CASES / "base.json", "--to", "csv", "--view", "steps") == 0
    assert capsys.readouterr().err == ""


def test_views_are_chosen_and_rows_counted(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, REAL / "nccl.json.gz", "--view", "kernels", "--top", "2")
    assert "overview" not in text
    lines = text.split("\n\n")[1].splitlines()
    assert lines[0].startswith("kernels")
    assert len(lines) == 4
    assert lines[-1].endswith("more kernels; --top shows more")


def test_one_step_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, CASES / "base.json", "--step", "1", "--view", "operators", "--json")
    assert {row["name"]: row["calls"] for row in found["operators"]}["aten::mm"] == 1
    assert gradscope_trace(CASES / "base.json", "--step", "7") == 2
    assert "it has steps 0 to 2" in capsys.readouterr().err


@pytest.mark.parametrize("by", ["name", "shape", "stack"])
def test_operators_are_grouped(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, REAL / "rank0_of_many.json.gz", "--by", by, "--view", "operators", "--json")
    keys = [(row["name"], row["kind"], str(row.get("shapes")), str(row.get("stack"))) for row in found["operators"]]
    assert len(keys) == len(set(keys)) > 0


def test_names_are_never_obeyed_by_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = json.loads((CASES / "base_gpu.json").read_text())
    for event in trace["traceEvents"]:
        if not event["name"].startswith("ProfilerStep"):
            event["name"] += "\x1b]0;X\x07\x1b[2J\x9b[/red]"
    trace["deviceProperties"] = [{"id": 0, "name": "\x1b[31mcard"}]
    path = tmp_path / "a\x1b[2J.json"
    path.write_text(json.dumps(trace))
    for arguments in ((), ("--json",), ("--to", "json"), ("--sql", "select name from events"), ("--compare", path)):
        out = text_of(capsys, path, *arguments)
        assert not any(escape in out for escape in ESCAPES), arguments


def test_what_was_mended_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, CASES / "p01_control_char.json")
    assert "notes\n" in text
    assert json_of(capsys, CASES / "p01_control_char.json", "--json")["notes"]


def test_no_usable_events_is_a_note_and_no_trace_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("p07_no_events.json", "p07_metadata_only.json"):
        assert "no usable events in this trace" in text_of(capsys, CASES / name)
        assert json_of(capsys, CASES / name, "--json")["usable"] is False
    for name in ("p07_zero_bytes.json", "p07_empty_object.json", "p13_gzip_of_nothing.json.gz", "expected.json"):
        assert gradscope_trace(CASES / name) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("gradscope: ")


def test_json_is_strict_where_the_trace_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, CASES / "p04_bare_nan.json", "--json")
    assert found["schema"] == 1
    assert found["overview"]["devices"][0]["in_steps_pct"] == pytest.approx(40)
    assert set(found) >= {
        "overview",
        "phases",
        "operators",
        "kernels",
        "modules",
        "steps",
        "idle",
        "memory",
        "findings",
    }


def test_steps_unknown_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, CASES / "p14_no_steps.json")
    assert "steps unknown" in text
    assert "overview of the whole trace" in text
    assert json_of(capsys, CASES / "p14_no_steps.json", "--json")["steps"]["count"] is None


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_tables_are_written(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"operators.{kind}"
    assert gradscope_trace(CASES / "base.json", "--to", kind, "--view", "operators", "--out", out) == 0
    readers = {"csv": pl.read_csv, "json": pl.read_json, "parquet": pl.read_parquet}
    table = readers[kind](out)
    assert dict(zip(table["name"], table["calls"], strict=True))["aten::relu"] == 3
    assert gradscope_trace(CASES / "base.json", "--to", kind, "--out", out) == 2
    assert "exists" in capsys.readouterr().err
    assert gradscope_trace(CASES / "base.json", "--to", kind, "--out", out, "--force") == 0


@pytest.mark.parametrize(
    "name", ["events", "kernels", "steps", "phases", "idle", "launches", "memory", "peak", "findings"]
)
def test_every_table_can_be_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert text_of(capsys, REAL / "nccl.json.gz", "--to", "csv", "--view", name)


def test_sql_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    query = "select name, sum(dur_ns) as total from events where cat = 'cpu_op' group by name order by total desc"
    assert text_of(capsys, CASES / "base.json", "--sql", query).splitlines()[2].split() == ["aten::mm", "600000"]
    rows = json_of(capsys, CASES / "base.json", "--sql", query, "--json")
    assert rows == [{"name": "aten::mm", "total": 600000}, {"name": "aten::relu", "total": 300000}]
    joined = "select o.calls from operators o where o.name like 'aten::m%'"
    assert json_of(capsys, CASES / "base.json", "--sql", joined, "--json") == [{"calls": 3}]


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("selec", "they are events, operators, "),
        ("select nme from events", "did you mean name?"),
        ("select * from operator", "did you mean operators?"),
        ("", "they are events, operators, "),
        ("select 1; select 2", "they are events, operators, "),
        ("select name from events where (", "polars"),
    ],
)
def test_a_wrong_query_is_one_message(query: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(CASES / "base.json", "--sql", query) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gradscope: the query ")
    assert hint in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--view", "nothing"),
        ("--to", "xlsx"),
        ("--to", "csv", "--view", "overview"),
        ("--by", "colour"),
        ("--cut-steps", "1:2"),
        ("--cut-steps", "2:1", "--out", "x.json"),
        ("--cut-steps", "a", "--out", "x.json"),
        ("--out", "x.csv"),
        ("--sql", "select 1", "--compare", "x"),
        ("--to", "csv", "--json"),
        ("--rank", "1"),
        ("--window", "2"),
        ("--compare", "nowhere"),
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(CASES / "base.json", *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gradscope: ")
    assert "Traceback" not in said.err


def test_two_ranks_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("rank0_of_many.json.gz", "rank1_of_many.json.gz"):
        shutil.copy(REAL / name, tmp_path)
    text = text_of(capsys, tmp_path)
    assert "\nranks " in text
    assert "rank 0, one of 2 in this folder" in text
    other = json_of(capsys, tmp_path, "--rank", "1", "--json")
    assert other["rank"] == 1
    assert [row["rank"] for row in other["ranks"]["ranks"]] == [0, 1]
    assert gradscope_trace(tmp_path, "--rank", "5") == 2
    assert "the ranks are 0, 1" in capsys.readouterr().err


def test_rankless_files_of_a_folder_are_numbered_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for worker in ("hostA_1", "hostB_2"):
        shutil.copy(CASES / "p06_no_rank.json", tmp_path / f"{worker}.1700000000000.pt.trace.json")
    found = json_of(capsys, tmp_path, "--json")
    assert found["steps"]["count"] == 3
    assert [row["rank"] for row in found["ranks"]["ranks"]] == [0, 1]
    assert "rank_guessed" in {note["code"] for note in found["notes"]}


def windows_run(tmp_path: Path) -> Path:
    """Make a run with two windows of BASE: steps 0 to 2, and 6 to 8 a second later."""
    run_dir = run_directory(tmp_path / "traces")
    base = json.loads((CASES / "base.json").read_text())
    for number, (first, name) in enumerate(((0, "w1.1700000000000"), (6, "w2.1700000001000"))):
        events = [dict(event) for event in base["traceEvents"]]
        for event in events:
            event["ts"] += 1e6 * number
            if event["name"].startswith("ProfilerStep#"):
                event["name"] = f"ProfilerStep#{int(event['name'][13:]) + first}"
        with gzip.open(run_dir / f"{run_dir.name}-{name}.pt.trace.json.gz", "wt") as file:
            json.dump({**base, "traceEvents": events}, file)
    return run_dir


def test_a_run_is_all_its_windows_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = windows_run(tmp_path)
    for name in ("last", run_dir.name, str(run_dir)):
        found = json_of(capsys, name, "--json")
        assert [row["number"] for row in found["steps"]["table"]] == [0, 1, 2, 6, 7, 8]
        assert found["run_id"] == run_dir.name
    text = text_of(capsys)
    assert "all 2 windows of run" in text
    assert "3 steps" in next(line for line in text.splitlines() if "steps 6 to 8" in line)
    second = json_of(capsys, "--window", "2", "--json")
    assert [row["number"] for row in second["steps"]["table"]] == [6, 7, 8]


def test_a_run_without_a_trace_and_a_folder_of_runs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = run_directory(tmp_path / "traces")
    assert gradscope_trace(run_dir) == 2
    assert "has no trace" in capsys.readouterr().err
    windows_run(tmp_path / "more")
    assert gradscope_trace(tmp_path / "more" / "traces") == 2
    assert "holds runs" in capsys.readouterr().err


def test_a_comparison_explains_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, REAL / "rank1_of_many.json.gz", "--compare", REAL / "rank0_of_many.json.gz", "--json")
    assert sum(part["difference_ms"] for part in found["parts"]) == pytest.approx(found["difference_ms"])
    text = text_of(capsys, REAL / "rank1_of_many.json.gz", "--compare", REAL / "rank0_of_many.json.gz")
    assert "a step takes 619 ms instead of 615 ms (+0.7 %)" in text
    assert max(map(display_width, text.splitlines())) <= 80


def test_what_a_large_file_costs_is_said_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_target, "LARGE_BYTES", 100)
    assert gradscope_trace(CASES / "base.json") == 0
    said = capsys.readouterr()
    assert "of memory to load" in said.err
    assert gradscope_trace(CASES / "base.json", "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_what_memory_does_not_hold_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_target, "LARGE_BYTES", 100)
    monkeypatch.setattr(trace_target, "available_bytes", lambda: 1000)
    assert gradscope_trace(CASES / "base.json") == 6
    said = capsys.readouterr()
    assert "--cut-steps" in said.err
    assert said.out == ""
    assert gradscope_trace(CASES / "base.json", "--force") == 0


def test_the_documentation_names_every_view_and_table() -> None:
    from gradscope.cli.trace import VIEW_HELP
    from gradscope.cli.trace_json import PARTS
    from gradscope.cli.trace_report import VIEWS
    from gradscope.trace.answers import TABLES

    text = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []
    assert [name for name in VIEWS if f"**{name}" not in text and name != "windows"] == []
    assert set(PARTS) <= set(VIEWS)
    assert [name for name in VIEWS if name not in VIEW_HELP] == []


def test_overlapping_ranges_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, CASES / "p09_overlap.json")
    assert text.count("past the end of one that began before") == 1


def test_a_rank_in_which_nothing_ran_stands_in_the_table_of_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, case in (("a", "base.json"), ("b", "p07_no_events.json")):
        shutil.copy(CASES / case, tmp_path / f"{name}.1.pt.trace.json")
    lines = text_of(capsys, tmp_path, "--view", "ranks").splitlines()
    assert next(line for line in lines if "rank 1" in line and "n/a" in line).split() == ["rank", "1", *["n/a"] * 7]


def test_a_terminal_without_unicode_gets_lines_that_fit(tmp_path: Path) -> None:
    from gradscope.cli.trace_layout import ASCII, Pen
    from gradscope.cli.trace_report import VIEWS, render
    from gradscope.trace.answers import Answers
    from gradscope.trace.target import Target, load

    path = tmp_path / "\u00fc.json"
    path.write_text((CASES / "base_gpu.json").read_text().replace("aten::mm", "\U0001f600" * 30))
    text = render(Answers(load(Target("file", [path])), 0), Pen(80, ASCII), list(VIEWS))
    assert text.isascii()
    assert "\\U0001f600" in text
    assert max(map(len, text.splitlines())) <= 80
