"""`gradscope export`: where it writes, what it refuses, and what is left when writing fails."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gradscope.analysis.summary import load_summary
from gradscope.core.status import Status
from gradscope.export import formats
from gradscope.export.columns import STEP_COLUMNS
from gradscope.export.formats import FORMATS
from gradscope.rundir.layout import EVENTS, SUMMARY, trace_name
from tests.builders import RUN_ID, WALL_START_NS, finished_events, run_directory
from tests.command_line import gradscope

pytestmark = pytest.mark.usefixtures("own_folder")

NAME = trace_name(RUN_ID, 1, WALL_START_NS)
SLICE = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 2_600_000.0, "dur": 5}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = run_directory(tmp_path / "traces", events=finished_events(trace=NAME))
    document = {"baseTimeNanoseconds": WALL_START_NS, "traceEvents": [SLICE]}
    (path / NAME).write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def events_in(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    found = json.loads(gzip.decompress(content) if path.name.endswith(".gz") else content)["traceEvents"]
    assert isinstance(found, list)
    return found


WRITTEN = {
    "chrome": [f"{RUN_ID}-w1.{WALL_START_NS // 1_000_000}.trace.json.gz"],
    "tensorboard": [f"{RUN_ID}/events.out.tfevents.1800000000.gradscope", f"{RUN_ID}/{NAME}"],
    "csv": [f"{RUN_ID}-steps.csv", f"{RUN_ID}-samples.csv"],
    "parquet": [f"{RUN_ID}-steps.parquet", f"{RUN_ID}-samples.parquet"],
    "json": [f"{RUN_ID}.json"],
    "markdown": [f"{RUN_ID}.md"],
}


@pytest.mark.parametrize("name", FORMATS)
def test_files_go_into_the_runs_export_folder_and_are_named(
    name: str, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run_dir)
    assert gradscope("export", "--to", name) == 0
    written = [str(run_dir / "export" / file) for file in WRITTEN[name]]
    assert capsys.readouterr().out.splitlines() == written
    added = contents(run_dir).keys() - before.keys()
    assert added == {f"export/{file}" for file in WRITTEN[name]}
    assert {file: contents(run_dir)[file] for file in before} == before


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_replaced_unless_forced(name: str, run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = run_dir / "export" / WRITTEN[name][-1]
    target.parent.mkdir(parents=True)
    target.write_text("mine")
    assert gradscope("export", "--to", name) == 2
    assert "exists\n  --force replaces it" in capsys.readouterr().err
    assert contents(run_dir / "export") == {WRITTEN[name][-1]: b"mine"}
    assert gradscope("export", "--to", name, "--force") == 0
    assert target.read_bytes() != b"mine"


def test_a_name_with_an_ending_is_a_file(run_dir: Path, tmp_path: Path) -> None:
    assert gradscope("export", RUN_ID, "--to", "csv", "--out", "my.table") == 0
    assert (tmp_path / "my.table").read_text().partition("\n")[0] == ",".join(STEP_COLUMNS)
    assert gradscope("export", "--to", "chrome", "--out", "plain.json") == 0
    names = [event["name"] for event in events_in(tmp_path / "plain.json")]
    assert names == ["a", "memory by category, bytes (carried over from step 2)"]


def test_json_is_the_summary(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("export", "--to", "json", "--out", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["time"]["step_ms"]["median"] == load_summary(run_dir).time.step_ms.median == 25  # type: ignore[union-attr]
    assert found["energy"]["joules"] is None


@pytest.mark.parametrize("name", ["csv", "json", "markdown"])
def test_text_goes_to_stdout(name: str, run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert gradscope("export", "--to", name, "--out", "-") == 0
    said = capsysbinary.readouterr()
    assert (said.out, said.err) == (FORMATS[name].text(run_dir), b"")  # type: ignore[misc]
    assert not (run_dir / "export").exists()


@pytest.mark.parametrize("name", ["chrome", "tensorboard", "parquet"])
def test_what_is_no_text_does_not(name: str, run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("export", "--to", name, "--out", "-") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{name} is no text for stdout" in said.err


def test_a_running_run_gives_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path / "traces", Status.MEASURING)
    assert gradscope("export", "--to", "csv", "--out", "steps.csv") == 0
    assert "the run is measuring: this is what there is so far" in capsys.readouterr().err
    assert len((tmp_path / "steps.csv").read_text().splitlines()) == 1 + 6
    assert gradscope("export", "--to", "csv", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert not (run / SUMMARY).exists()


@pytest.mark.parametrize("state", ["bare", "lost", "failed", "starting"])
def test_a_run_in_any_state_is_a_table_and_a_text(state: str, tmp_path: Path) -> None:
    run_directory(tmp_path / "traces", state)
    for name in ("csv", "parquet", "json", "markdown"):
        assert gradscope("export", "--to", name) == 0


def test_a_run_without_what_a_format_shows_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory(tmp_path / "traces", "bare")
    assert gradscope("export", "--to", "chrome") == 2
    assert f"run {RUN_ID} has no trace" in capsys.readouterr().err
    assert gradscope("export", "--to", "tensorboard") == 1
    assert "its training process never started" in capsys.readouterr().err
    assert not (run / "export").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--to", "html"], "there is no format 'html'"),
        (["--to", "csv", "--out", ""], "the name of a file is empty"),
        (["--to", "csv", "--out", "nowhere/steps.csv"], "there is no folder nowhere"),
        (["--to", "csv", "--out", "nowhere/steps"], "there is no folder nowhere"),
        (["--to", "json", "--out", "run/summary.json", "--force"], "which is never changed"),
        (["--to", "chrome", "--out", f"run/{NAME}", "--force"], "which is never changed"),
        (["--to", "csv", "--out", "run"], "which is never changed"),
        (["--to", "json", "--out", "pipe", "--force"], "pipe is no regular file"),
        (["--to", "tensorboard", "--out", "pipe"], "pipe is no folder"),
        (["nobody", "--to", "csv"], "no run 'nobody'"),
        (["plain.json", "--to", "csv"], "plain.json is a file, and csv is of runs"),
        (["plain.json", "--to", "chrome"], "plain.json is no run, so it has no folder"),
        (["plain.json", "--to", "chrome", "--out", "plain.json", "--force"], "is the trace itself"),
    ],
)
def test_refused(
    arguments: list[str], reason: str, run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").symlink_to(run_dir)
    (tmp_path / "plain.json").write_text('{"traceEvents": []}')
    os.mkfifo(tmp_path / "pipe")
    before = contents(tmp_path)
    assert gradscope("export", *arguments) == 2
    assert reason in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("cut", [None, -30])
def test_a_foreign_trace_is_repaired(cut: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [SLICE, SLICE | {"name": "b"}, {"ph": "M", "name": "process_name", "args": {"name": "python"}}]
    content = json.dumps({"traceEvents": [*events, SLICE | {"name": "last"}]}).replace('"b"', '"b\x01"').encode()
    (tmp_path / "foreign.json").write_bytes(gzip.compress(content[:cut]))
    assert gradscope("export", "foreign.json", "--to", "chrome", "--out", "sound.json") == 0
    names = [event["name"] for event in events_in(tmp_path / "sound.json")]
    assert names == ["a", "b\x01", "process_name"] + (["last"] if cut is None else [])
    assert all({"ph", "ts", "pid", "tid"} <= event.keys() for event in events_in(tmp_path / "sound.json"))
    assert "foreign.json was mended: " in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_when_writing_fails(
    error: BaseException, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_run: Any) -> Any:
        raise error

    monkeypatch.setattr(formats, "sample_frame", fail)  # the second of two files
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / f"{RUN_ID}-steps.csv").write_text("old")
    before = contents(tmp_path)
    for out in ("old", "new"):
        assert gradscope("export", "--to", "csv", "--out", out, "--force") != 0
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "traces"]


def test_control_characters_in_a_runs_name_do_not_reach_the_terminal(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "odd\x1b[2J\udc80"
    odd.mkdir()
    (odd / EVENTS).write_bytes((run_dir / EVENTS).read_bytes())
    for name in ("csv", "json", "markdown"):
        assert gradscope("export", odd, "--to", name) == 0
    assert "\x1b" not in capsys.readouterr().out
