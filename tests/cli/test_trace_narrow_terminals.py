"""`gradscope trace` in a narrow terminal: nothing is wider than it, and what had no room is named."""

from pathlib import Path

import polars as pl
import pytest

from gradscope.cli import trace_layout
from gradscope.cli.trace_layout import Pen
from gradscope.cli.trace_table import as_table
from gradscope.core.text import display_width
from tests.command_line import gradscope_trace

CASES = Path(__file__).parent.parent / "cases" / "traces"
FILES = [
    *(CASES / "real" / name for name in ("nccl.json.gz", "rank0_of_many.json.gz", "rocm_mi250.json.gz")),
    *(CASES / name for name in ("base_gpu.json", "p16_memory.json", "p15_lost_kernel.json", "p03_windows_path.json")),
]


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("width", [30, 40, 60])
def test_no_line_is_wider_than_the_terminal(
    path: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradscope.cli.display.columns_of", lambda _stream: width)
    for arguments in ((), ("--by", "shape"), ("--compare", CASES / "base_gpu.json")):
        assert gradscope_trace(path, *arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines
        assert [line for line in lines if display_width(line) > width] == []


def test_the_last_columns_give_way_and_are_named() -> None:
    rows = [("aten::convolution_backward", "12", "1.00 ms", "33.3 %", "2.00 ms")]
    pen = Pen(width=40, glyphs=trace_layout.UNICODE)
    assert pen.rows("operators", ("calls", "self host", "share", "host"), rows) == [
        "operators       calls  self host   share",
        "  aten::…kward     12    1.00 ms  33.3 %",
        "  no room for host",
    ]
    assert pen.rows(
        "a title that is longer than names", ("calls", "self host", "share"), [row[:-1] for row in rows]
    ) == [
        "a title that is longer than names",
        "                calls  self host   share",
        "  aten::…kward     12    1.00 ms  33.3 %",
    ]


def test_of_a_comparison_the_difference_gives_way_last() -> None:
    rows = [("operators on the CPU", "0.400 ms", "0.500 ms", "+0.100 ms", "3 > 4")]
    heads = ("other", "this", "difference", "calls")
    assert Pen(width=40).rows("what ran", heads, rows, kept="difference") == [
        "what ran               other  difference",
        "  operator…the CPU  0.400 ms   +0.100 ms",
        "  no room for this, calls",
    ]
    assert Pen(width=30).rows("what ran", heads, rows, kept="difference") == [
        "what ran            difference",
        "  operator…the CPU   +0.100 ms",
        "  no room for other, this,",
        "  calls",
    ]


def test_bars_give_way_first() -> None:
    rows = [("operators on the CPU", "#####", "60.6 %", "135 ms")]
    assert Pen(width=40).rows("overview", ("", "share", "a step"), rows, left=2) == [
        "overview                   share  a step",
        "  operators on the CPU    60.6 %  135 ms",
    ]


def test_an_answer_to_a_query_fits_its_terminal_and_is_whole_elsewhere() -> None:
    answer = pl.DataFrame({"name": ["a" * 30 + "b" * 30], "n": [1234567], "cat": ["kernel"]})
    assert as_table(answer, 40).splitlines() == [
        "name                           n  cat",
        "-----------------------  -------  ------",
        "aaaaaaaaaaa…bbbbbbbbbbb  1234567  kernel",
    ]
    assert as_table(answer, None).splitlines()[2] == f"{'a' * 30}{'b' * 30}  1234567  kernel"
