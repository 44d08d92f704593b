"""A report in its forms: within 80 columns, foreign text that stays text, and a page that asks nobody for anything."""

import csv
import html.parser
import io
import itertools
import json
import re
from pathlib import Path

import polars as pl
import pytest

from gradscope.analysis.curves import Curve
from gradscope.analysis.grid_report import GridReport, report
from gradscope.analysis.results import Row, columns
from gradscope.config.schema import AuditSettings, Preset
from gradscope.core.text import display_width
from gradscope.errors import GradscopeError
from gradscope.export import report_csv, report_html, report_markdown, report_text
from gradscope.export.results import frame, write_frame
from tests.made_grid import claim, grid, row

FOREIGN = "</script><b>x</b>|`@a`[l](u)\x1b[31m"


def told(rows: list | None = None, **fields: object) -> GridReport:
    preset = Preset(name="grid", audit=AuditSettings(), claim=[claim()])
    return report("grid", grid() if rows is None else rows, preset, **fields)


def block(text: str, title: str) -> list[str]:
    """The lines of a section, its title left out."""
    part = next(part for part in text.split("\n\n") if part.startswith(title))
    return [line.strip() for line in part.splitlines()[1:]]


def test_the_first_screen_says_what_to_choose_and_why() -> None:
    text = report_text.render(told(), unicode=True)
    head = text.splitlines()
    assert head[0] == "grid: 12 runs (2 models x 2 optimizers x 3 strategies): 12 done"
    assert "held equal within each model: updates" in head
    assert "4 times the samples an update" in text
    lines = block(text, "which to choose")
    assert [re.sub(r"\s+", " ", line) for line in lines[2:10]] == [
        "vit",
        "adam standard 1 100 ms 80.0 MiB lowest loss, fastest",
        "adam checkpoint 1 150 ms 40.0 MiB memory -50 %, time +50 %",
        "adam accumulate 0.5 400 ms 88.0 MiB loss -50 %, 4x samples",
        "llama",
        "sgd standard 4 200 ms 400 MiB lowest loss, fastest",
        "sgd checkpoint 4 240 ms 100 MiB memory -75 %, time +20 %",
        "adam accumulate 2.5 800 ms 800 MiB loss -38 %, 4x samples",
    ]


def test_the_best_is_called_the_fastest_only_where_the_table_shows_nothing_faster() -> None:
    def why(*rows: Row) -> str:
        return (
            block(report_text.render(told(list(rows)), 160, unicode=True), "which to choose")[2].split("  ")[-1].strip()
        )

    best = row("vit", "sgd", loss=1.0, peak_mib=40)
    assert why(best, row("vit", "adam", loss=2.0, step_ms=120.0, peak_mib=50)) == "lowest loss, fastest, least memory"
    far = row("vit", "adam", loss=2.0, step_ms=50.0, peak_mib=30)
    assert why(best, far) == "lowest loss, fastest within 5 %, least memory within 5 %"
    near = row("vit", "adam", loss=1.04, step_ms=97.0, peak_mib=39)
    assert why(best, near) == "lowest loss"


def test_disturbed_runs_are_told_and_their_times_marked() -> None:
    text = report_text.render(told(grid(vit_adam_standard={"values": {"waited_pct": 60.0}})), unicode=True)
    assert "1 of 12 runs were disturbed by others on the machine" in text
    best = next(line for line in block(text, "which to choose") if line.startswith("adam standard"))
    assert best.split() == ["adam", "standard", "1", "~100", "ms", "80.0", "MiB", "lowest", "loss"]


def test_effects_and_claims_are_told_with_their_figures() -> None:
    text = report_text.render(told(), unicode=True)
    effect = block(text, "what the strategy does, against standard")
    checkpoint = next(line for line in effect if line.startswith("vit"))
    assert re.split(r"\s{2,}", checkpoint)[:3] == ["vit", "checkpoint", "0 %"]
    assert "+34 % (" in checkpoint  # sqrt(1.2 * 1.5) = 1.342
    assert "-50 %" in checkpoint
    claims = " ".join(block(text, "claims: 1 undecided"))
    assert "checkpointing costs at most 30 %" in claims
    assert "noise: median ratio 1.35, claimed at most 1.3" in claims


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = grid(vit_sgd_standard={"status": "oom", "reason": "memory was full " * 20})
    rows += [row("llama", "adam", seed=seed) for seed in (1, 2)]
    text = report_text.render(told(rows, against=["step"]), width, unicode=True)
    assert [line for line in text.splitlines() if display_width(line) > width] == []
    assert "oom" in text
    assert "cells without a result" in text
    assert "spread of last loss over repeats" in text


def test_text_is_ascii_where_the_terminal_has_no_more() -> None:
    rows = [*grid(), row(seed=1, loss=3.0)]
    text = report_text.render(told(rows), unicode=False)
    assert text.isascii()
    assert "+-20.0 % (2)" in text  # 2 and 3: half of 1 over 2.5


def test_foreign_text_stays_text() -> None:
    rows = [row("vit", FOREIGN), row("vit", FOREIGN, "checkpoint", status="failed", reason=FOREIGN)]
    found = told(rows)
    assert "\x1b" not in report_text.render(found, unicode=True)
    marked = report_markdown.render(found)
    assert "\x1b" not in marked
    assert "<b>" not in marked
    assert "&lt;b&gt;x&lt;/b&gt;\\|\\`&#64;a\\`\\[l\\](u)" in marked
    page = report_html.render(found, {rows[0].cell: Curve(step=[1], samples=[8], seconds=[1.0], loss=[2.0])})
    body = page.replace(report_html._library(), "")
    assert "<b>" not in body
    assert "\x1b" not in body
    assert body.count("</script>") == 3


def test_markdown_tables_have_as_many_cells_in_each_row() -> None:
    lines = report_markdown.render(told()).splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 30
    for before, after in itertools.pairwise(lines):
        if before.startswith("|") and after.startswith("|"):
            assert before.count(" | ") == after.count(" | ")


def test_csv_holds_the_pivot_tables() -> None:
    rows = grid(vit_sgd_checkpoint={"status": "oom"})
    lines = list(csv.reader(io.StringIO(report_csv.render(told(rows)))))
    assert lines[:3] == [
        ["metric", "model", "strategy", "sgd", "adam"],
        ["loss_last", "vit", "standard", "2.0", "1.0"],
        ["loss_last", "vit", "checkpoint", "oom", "1.0"],
    ]
    assert {line[0] for line in lines[1:]} == {"loss_last", "step_time_ms", "peak_memory_bytes", "loss_at_samples"}
    assert len(lines) == 1 + 4 * 6


class Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "action", "data", "poster")]


def test_a_page_holds_everything_it_needs_and_is_below_6_mb(tmp_path: Path) -> None:
    curve = Curve(step=list(range(2000)), samples=list(range(2000)), seconds=[0.1] * 2000, loss=[1.23456789] * 2000)
    rows = [*grid(), *(row(seed=seed) for seed in range(1, 300))]
    found = told(rows)
    path = report_html.write_page(found, {one.cell: curve for one in rows}, tmp_path / "page.html")
    page = path.read_text()
    assert len(page.encode()) < 6_000_000
    links = Links()
    links.feed(page)
    assert links.found == []
    assert "default-src 'none'" in page
    assert "which to choose" in page
    text = page.partition('id="data">')[2].partition("</script>")[0]
    data = json.loads(text)
    assert [one["metric"] for one in data["heat"]][:2] == ["loss_last", "step_time_ms"]
    assert data["heat"][0]["texts"][0] == ["2", "1"]
    assert data["heat"][0]["shades"][:3] == [[1.0, 0.5], [1.0, 0.5], [0.5, 0.0]]  # of 0.5 to 2, by their logs
    assert data["memory"][0]["parts"]["parameters"] == 4 * 1024 * 1024
    assert len(data["curves"][0]["loss"]) < 2000
    with pytest.raises(GradscopeError, match="exists"):
        report_html.write_page(found, {}, path, replace=False)


def test_results_are_a_table_of_the_runs_there_are(tmp_path: Path) -> None:
    rows = grid(vit_sgd_standard={"status": "missing"}, vit_adam_standard={"status": "failed", "exit_code": 1})
    found = frame(rows)
    assert found.columns == columns(rows)
    assert found.height == 11
    assert found["memory.accumulate"].dtype == pl.Int64
    assert found["optimizer.lr"].dtype == pl.Float64
    assert found["peak_memory_bytes"].dtype == pl.Int64
    assert found.filter(pl.col("status") == "failed")["exit_code"].to_list() == [1]
    again = pl.read_parquet(write_frame(found, tmp_path / "results.parquet"))
    assert again.equals(found)
    text = write_frame(found, tmp_path / "results.csv").read_text().splitlines()
    assert text[0].startswith("cell,run_id,path,status,exit_code,reason,model.name,")
    assert len(text) == 12
    assert list(tmp_path.glob(".*")) == []
