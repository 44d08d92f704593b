"""`gradscope trace`: what its options refuse, and what they leave alone."""

import os
from pathlib import Path

import pytest

from tests.command_line import gradscope_trace
from tests.trace_builder import chrome_event, write_chrome

pytestmark = pytest.mark.usefixtures("own_folder")


CASES = Path(__file__).parent.parent / "cases" / "traces"
TRACE = CASES / "base_gpu.json"


@pytest.mark.parametrize("question", [("--to", "csv"), ("--sql", "select 1", "--to", "json"), ("--cut-steps", "0:99")])
def test_only_a_regular_file_is_ever_replaced(tmp_path: Path, question: tuple[str, ...]) -> None:
    pipe, link, folder, nowhere = (tmp_path / name for name in ("pipe", "link", "folder", "nowhere"))
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    folder.mkdir()
    nowhere.symlink_to(tmp_path / "missing")
    for out in (pipe, link, folder, nowhere):
        assert gradscope_trace(TRACE, *question, "--out", out, "--force") == 2
    assert pipe.is_fifo()
    assert nowhere.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "state") == [
        "folder",
        "link",
        "nowhere",
        "pipe",
    ]


@pytest.mark.parametrize("question", [("--to", "csv"), ("--sql", "select 1", "--to", "json"), ("--cut-steps", "0:99")])
def test_the_trace_itself_is_never_replaced(tmp_path: Path, question: tuple[str, ...]) -> None:
    trace, link = tmp_path / "a.json", tmp_path / "link.json"
    trace.write_bytes(TRACE.read_bytes())
    link.hardlink_to(trace)
    for out in (trace, link):
        assert gradscope_trace(trace, *question, "--out", out, "--force") == 2
    assert trace.read_bytes() == TRACE.read_bytes()


def test_more_rows_than_there_can_be_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(TRACE, "--top", "99999999999999999999") == 2
    assert "--top" in capsys.readouterr().err


def test_of_one_step_each_section_says_what_it_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(TRACE, "--step", "1") == 0
    text = capsys.readouterr().out
    assert "device 0: busy 40.0 % of the step, 0.400 ms" in text
    heads = [line for line in text.splitlines() if line.startswith(("kernels", "idle", "findings"))]
    assert [head.split("  ")[0] for head in heads] == [
        "kernels, step 1",
        "idle devices, all steps",
        "findings, all steps",
    ]


def test_tables_are_of_the_step_or_said_not_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("steps", "devices"):
        assert gradscope_trace(TRACE, "--step", "1", "--view", name, "--to", "csv") == 0
        said = capsys.readouterr()
        assert [line.split(",")[0] for line in said.out.splitlines()] == ["number", "1"]
        assert "all steps" not in said.err
    assert gradscope_trace(TRACE, "--step", "1", "--sql", "select count(*) from events") == 0
    assert "of all steps, not of step 1 alone: events" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ("--cut-steps", "0:1", "--out", "cut.json", "--to", "csv"),
        ("--cut-steps", "0:1", "--out", "cut.json", "--json"),
        ("--cut-steps", "0:1", "--out", "cut.json", "--sql", "select 1"),
        ("--compare", TRACE, "--to", "csv"),
        ("--to", "csv", "--top", "3"),
    ],
)
def test_what_would_be_ignored_is_refused(options: tuple[str | Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(TRACE, *options) == 2
    said = capsys.readouterr()
    assert not said.out
    assert str(options[0]) in said.err
    assert not Path("cut.json").exists()


def test_a_folder_tells_what_it_did_not_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "traces"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.1.pt.trace.json", "b.json", "deep/c.json.gz"):
        (folder / name).write_bytes(TRACE.read_bytes())
    assert gradscope_trace(folder) == 0
    text = capsys.readouterr().out
    assert "a.1.pt.trace.json" in text
    assert "2 more files of this folder may be traces, not taken" in text


def test_a_rank_that_cannot_be_read_is_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    broken = folder / "b.1.pt.trace.json"
    broken.write_text("no trace")
    for name in ("a.1.pt.trace.json", "c.1.pt.trace.json"):
        (folder / name).write_bytes(TRACE.read_bytes())
    assert gradscope_trace(folder) == 0
    text = capsys.readouterr().out
    assert "one of 2 in this folder" in text
    assert "not loaded: b.1.pt.trace.json" in text
    (folder / "a.1.pt.trace.json").unlink()
    assert gradscope_trace(folder) == 0
    (folder / "c.1.pt.trace.json").write_text("")
    assert gradscope_trace(folder) == 2


def test_a_search_ends_in_a_folder_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradscope.trace.folder.MOST_ENTRIES", 5)
    folder = tmp_path / "traces"
    for number in range(10):
        (folder / f"{number}").mkdir(parents=True)
        (folder / f"{number}" / "a.1.pt.trace.json").write_bytes(TRACE.read_bytes())
    assert gradscope_trace(folder) == 2
    assert "too much to search" in capsys.readouterr().err
    (folder / "b.1.pt.trace.json").write_bytes(TRACE.read_bytes())
    assert gradscope_trace(folder) == 0
    assert "10 folders below this one not searched" in capsys.readouterr().out


def test_a_bare_list_of_events_is_not_said_to_have_no_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(CASES / "p05_array.json") == 0
    text = capsys.readouterr().out
    assert "bare list of events" in text
    assert "no steps" not in text


def test_a_step_that_is_marked_twice_is_told_as_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marks = [chrome_event("ProfilerStep#4", "user_annotation", ts, dur) for ts, dur in ((0, 100), (500, 300))]
    path = write_chrome(tmp_path / "twice.json", [*marks, chrome_event("aten::mm", "cpu_op", 600, 40)])
    assert gradscope_trace(path, "--step", "4", "--view", "overview") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines if line.strip().startswith(("all", "operators"))] == [
        ["0.040", "ms"],
        ["0.400", "ms"],
    ]
