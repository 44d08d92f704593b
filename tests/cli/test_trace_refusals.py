"""`gradscope trace`: what it says of what it was given wrongly, with one exit code for one kind of fault."""

import errno
import io
import json
import sys
from pathlib import Path

import pytest

from tests.command_line import gradscope_trace

CASES = Path(__file__).parent.parent / "cases" / "traces"
TRACE = CASES / "base.json"
OUT = ("--out", "cut.json")

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize(
    "options",
    [
        *(("--cut-steps", "0:1", other, value, *OUT) for other, value in (("--view", "steps"), ("--by", "shape"))),
        *(("--cut-steps", "0:1", other, value, *OUT) for other, value in (("--step", "1"), ("--rank", "0"))),
        ("--compare", TRACE, "--view", "steps"),
        ("--compare", TRACE, "--by", "shape"),
        ("--compare", TRACE, "--step", "1"),
        ("--sql", "select 1", "--view", "steps"),
        ("--json", "--top", "3"),
    ],
    ids=lambda options: " ".join(map(str, options)).replace(str(TRACE), "OTHER"),
)
def test_options_that_would_mean_nothing_are_refused(
    options: tuple[str | Path, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gradscope_trace(TRACE, *options) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "do not go together" in said.err
    assert len(said.err.splitlines()) == 2
    assert not Path("cut.json").exists()


def test_by_is_refused_where_no_operators_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(TRACE, "--by", "shape", "--view", "steps") == 2
    assert "--view operators" in capsys.readouterr().err
    assert gradscope_trace(TRACE, "--by", "shape", "--view", "steps,operators") == 0


def test_top_is_how_many_rows_of_an_answer_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope_trace(TRACE, "--sql", "select name from events", "--top", "2") == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2 + 2
    assert "more rows are not shown" in said.err


def test_notes_of_the_other_trace_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "a.1.pt.trace.json").write_bytes((CASES / "p01_control_char.json").read_bytes())
    (folder / "b.json").write_bytes(TRACE.read_bytes())
    assert gradscope_trace(TRACE, "--compare", folder) == 0
    text = capsys.readouterr().out
    assert "notes on this" not in text
    notes = text.split("notes on other\n")[1]
    assert "1 event repaired: raw control characters" in notes
    assert "1 more file of this folder may be traces" in notes
    assert gradscope_trace(TRACE, "--compare", folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    codes = {side: [note["code"] for note in notes] for side, notes in found["notes"].items()}
    assert codes == {
        "this": ["no_device_events"],
        "other": ["traces_left_out", "control_character", "no_device_events"],
    }


@pytest.mark.parametrize("name", ["x.json", "x.json.gz", "no/x", "no/x.pt.trace.json"])
def test_a_file_that_is_missing_is_no_run_that_is_missing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((name,), (TRACE, "--compare", name)):
        assert gradscope_trace(*arguments) == 2
        assert capsys.readouterr().err.startswith(f"gradscope: there is no file {name}\n")
    assert gradscope_trace("x") == 2
    assert "no file" not in capsys.readouterr().err


def test_a_folder_without_a_trace_is_told_by_its_own_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    assert gradscope_trace(folder) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gradscope: no trace lies in {folder}: settings.json is no trace")


@pytest.mark.parametrize(
    "question", [("--to", "csv"), ("--sql", "select 1", "--to", "json"), ("--cut-steps", "0:1")], ids=lambda one: one[0]
)
@pytest.mark.parametrize("out", ["nodir/x.json", ".", "there.json"])
def test_a_file_that_cannot_be_written_has_one_exit_code(out: str, question: tuple[str, ...]) -> None:
    Path("there.json").write_text("mine")
    assert gradscope_trace(TRACE, *question, "--out", out) == 2
    assert Path("there.json").read_text() == "mine"


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what it was sent."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_terminal_gets_no_escape_of_a_name_and_a_file_gets_the_truth(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text(TRACE.read_text().replace("aten::mm", "aten\\u001b[2Jmm"))
    terminal = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert gradscope_trace(path, "--to", kind, "--view", "operators") == 0
    terminal.flush()
    sent = terminal.buffer.getvalue()  # type: ignore[attr-defined]
    assert b"\x1b" not in sent
    assert b"[2Jmm" in sent
    assert gradscope_trace(path, "--to", "csv", "--view", "operators", "--out", "x.csv") == 0
    assert b"aten\x1b[2Jmm" in Path("x.csv").read_bytes()


def test_what_cannot_be_found_or_read_is_named_as_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gradscope_trace("") == 2
    assert "the name of the trace is empty" in capsys.readouterr().err
    link = tmp_path / "dangling"
    link.symlink_to("nowhere")
    for path in (link, link.relative_to(tmp_path)):
        monkeypatch.chdir(tmp_path)
        assert gradscope_trace(path) == 2
        assert f"{path} is a link to nowhere, which is not there" in capsys.readouterr().err

    def refuse(self: Path, *_: object, **__: object) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(self / "manifest.json"))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert gradscope_trace(tmp_path) == 2
    assert capsys.readouterr().err.startswith(f"gradscope: cannot read {tmp_path}: Permission denied\n")
