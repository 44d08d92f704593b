"""A summary as Markdown: tables that GitHub takes, and nothing foreign that it would obey."""

from pathlib import Path

import pytest

from gradscope.core.status import Status
from gradscope.core.summary import Remark, Summary
from gradscope.export.formats import markdown_text
from gradscope.export.gathered import summary_of
from gradscope.export.markdown import LONGEST, code, render
from tests.builders import RUN_ID, preset_dict, run_directory


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@somebody #12 <b> *x* [a](b)", "`@somebody #12 <b> *x* [a](b)`"),
        ("a|b", "`a\\|b`"),
        ("two\nlines\x1b[2J", "`two\\nlines\\e[2J`"),
        ("a `b` c", "``a `b` c``"),
        ("```", "```` ``` ````"),
        (" ", ""),
    ],
)
def test_foreign_text_stands_in_code(text: str, shown: str) -> None:
    assert code(text) == shown


def test_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(code("x" * 10_000)) == LONGEST + 2
    monkeypatch.setenv("HOME", "/home/me")
    assert code("/home/me/traces") == "`~/traces`"


def test_a_run_as_tables(tmp_path: Path) -> None:
    text = markdown_text(run_directory(tmp_path)).decode()
    assert text.startswith(
        "### `quick` · `vit tiny` · `adam` · `standard`: done\n\n4 steps measured after 2 of warm-up"
    )
    assert "| step time | 25.0 ms median, p95 38.5 ms, IQR 15.0 ms, n 4 |\n" in text
    assert "| GPU busy | n/a `the run is on the CPU` |\n" in text
    assert "| backward | 40.0 % | 10.0 ms | 15.4 ms |\n" in text
    assert "| activations | 29.9 % | 6.84 KiB |\n" in text
    assert "Gradient audit: passed, error 0.0e+00 of at most 1e-06\n" in text
    assert f"| run | `{RUN_ID}` |\n| command | `gradscope run quick` |\n" in text


def test_every_table_has_as_many_cells_in_each_row(tmp_path: Path) -> None:
    run = run_directory(tmp_path, preset=preset_dict(optimizer={"name": "a|b"}))
    for block in markdown_text(run).decode().split("\n\n"):
        rows = [line.replace("\\|", "").count("|") for line in block.splitlines() if line.startswith("|")]
        assert len(set(rows)) <= 1


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    text = markdown_text(run_directory(tmp_path, Status.FAILED, events=[], reason="@all: *boom*\n# head")).decode()
    assert "failed: `@all: *boom*\\n# head`" in text
    assert "\n#" not in text


def with_remarks(summary: Summary, count: int) -> Summary:
    import msgspec

    remarks = [Remark(code="x", message=f"remark {number} " + "long " * 1000) for number in range(count)]
    return msgspec.structs.replace(summary, remarks=remarks)


def test_it_fits_into_an_issue(tmp_path: Path) -> None:
    text = render(with_remarks(summary_of(run_directory(tmp_path)), 500))
    assert "- and 480 more notes\n" in text
    assert len(text) < 20_000
