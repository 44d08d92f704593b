"""The filter, the order and the columns of the list of runs."""

from pathlib import Path
from typing import Any

import pytest
from builders import WALL_START_NS
from home_views import listed, running

from gradscope.analysis.listing import RunRow
from gradscope.core.status import Status
from gradscope.core.text import display_width
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.runs.columns import BY_NAME, COLUMNS, USUAL, sorted_entries
from gradscope.tui.runs.filter import chosen, read_filter
from gradscope.tui.runs.layout import head, laid_out, line, widths_of
from gradscope.tui.runs.view import Entry, entry_of, running_entry

NOW = WALL_START_NS
DAY_NS = 86_400 * 10**9
OUT = Path("traces")


def run(number: int, status: Status = Status.DONE, **fields: Any) -> Entry:
    return entry_of(listed(OUT, number, status, **fields))


ENTRIES = [
    run(1, preset="vit-tiny", loss=0.5, step_ms=150.0, peak_bytes=2 * 1024**3, created_wall_ns=NOW - DAY_NS),
    run(2, Status.OOM, loss=None, step_ms=None, peak_bytes=None, model="llama", created_wall_ns=NOW - 3 * DAY_NS),
    run(3, optimizer="SGD", strategy="accumulate", accumulate=4, mode="grow", loss=3.0, step_ms=12_000.0),
    run(4, Status.FAILED, reason="boom", loss=2.0, peak_bytes=512 * 1024**2, strategy="checkpoint"),
]


def found(text: str, entries: list[Entry] = ENTRIES) -> list[int]:
    wanted = read_filter(text)
    assert wanted.problem == ""
    return [int(entry.row.run_id[-1]) for entry in chosen(entries, wanted, NOW)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [1, 2, 3, 4]),
        ("   ", [1, 2, 3, 4]),
        ("vit-tiny", [1]),
        ("VIT", [1, 3, 4]),
        ("llama", [2]),
        ("sgd accum", [3]),
        ("x4", [3]),
        ("000003", [3]),
        ("nothing", []),
        ("status:oom", [2]),
        ("status:o", [1, 2, 3]),
        ("STATUS:OOM", [2]),
        ("id:000002", [2]),
        ("run:000002", [2]),
        ("preset:vit", [1]),
        ("model:vit", [1, 3, 4]),
        ("optimizer=sgd", [3]),
        ("loss<2", [1]),
        ("loss<=2", [1, 4]),
        ("loss>=2", [3, 4]),
        ("loss=2", [4]),
        ("loss < 2", [1]),
        ("loss>.4 loss<1e0", [1]),
        ("peak>1GiB", [1]),
        ("peak > 1 GiB", [1]),
        ("peak<1g", [3, 4]),
        ("memory>600MB", [1]),
        ("step<200ms", [1, 4]),
        ("step<200", [1, 4]),
        ("step>1s", [3]),
        ("time>10s", [3]),
        ("age>2d", [2]),
        ("age<25h age>1h", [1]),
        ("-status:done", [2, 4]),
        ("-vit-tiny -oom", [3, 4]),
        ("-loss<2", [2, 3, 4]),
        ("status:", [1, 2, 3, 4]),
        ("loss<", [1, 2, 3, 4]),
        ("loss<  ", [1, 2, 3, 4]),
        ("-", [1, 2, 3, 4]),
        ("hf:gpt2", []),
        ("[/red]", []),
    ],
)
def test_what_is_found(text: str, numbers: list[int]) -> None:
    assert found(text) == numbers


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lss<2", "there is no lss to compare; did you mean loss?"),
        ("zzz>1", "there is no zzz to compare"),
        ("peak>much", "much is no value of peak; a number, with b, kib, mib, gib, tib, pib, kb, mb, gb"),
        ("age<2", "2 is no value of age; a number, with s, min, h, d, day, days, w"),
        ("status<2", "status is no number; write status:2"),
    ],
)
def test_what_is_not_understood_is_told_and_left_out(text: str, problem: str) -> None:
    wanted = read_filter(f"{text} vit-tiny")
    assert wanted.problem.startswith(problem)
    assert [entry.row.preset for entry in chosen(ENTRIES, wanted, NOW)] == ["vit-tiny"]


def test_running_is_a_status_too() -> None:
    entries = [running_entry(running(OUT)), *ENTRIES]
    assert len(chosen(entries, read_filter("status:running"), NOW)) == 1
    assert len(chosen(entries, read_filter("running"), NOW)) == 1


def test_any_text_is_a_filter() -> None:
    for text in ("<", ":", "=", "<=", "::", "a:b:c", "loss<<2", "[/", "\x1b[2J", "-:", "- -", "loss<nan", "\N{BELL}"):
        chosen(ENTRIES, read_filter(text), NOW)


def numbers(column: str, *, reverse: bool = False, entries: list[Entry] = ENTRIES) -> list[int]:
    ordered = sorted_entries(entries, BY_NAME[column], NOW, reverse=reverse)
    return [int(entry.row.run_id[-1], 16) for entry in ordered]


def test_runs_are_sorted_by_any_column_and_missing_ones_come_last() -> None:
    assert numbers("loss") == [1, 4, 3, 2]
    assert numbers("loss", reverse=True) == [3, 4, 1, 2]
    assert numbers("peak") == [1, 4, 3, 2]
    assert numbers("optimizer")[-1] == 3
    for column in COLUMNS:
        assert sorted(numbers(column.name)) == [1, 2, 3, 4]
        assert sorted(numbers(column.name, reverse=True)) == [1, 2, 3, 4]


def test_running_ones_are_the_newest() -> None:
    entries = [*ENTRIES, running_entry(running(OUT))]
    assert numbers("age", entries=entries)[0] == 10
    assert numbers("age", entries=entries, reverse=True)[-1] == 10


def test_a_loss_that_is_not_finite_is_not_the_best() -> None:
    entries = [run(1, loss=float("nan")), run(2, loss=1.0)]
    assert numbers("loss", entries=entries) == [2, 1]


def shown(width: int, column: str = "age") -> list[str]:
    return [one.name for one, _ in laid_out(widths_of(ENTRIES), width, BY_NAME[column]).places]


def test_columns_give_way_in_a_narrow_terminal() -> None:
    assert shown(160) == [column.name for column in COLUMNS if not column.extra]
    assert shown(80) == ["run", "preset", "optimizer", "strategy", "status", "loss", "step", "peak"]
    assert shown(72) == ["run", "preset", "optimizer", "strategy", "status", "step", "peak"]
    assert shown(60) == ["run", "preset", "strategy", "status", "step", "peak"]
    assert shown(45) == ["run", "preset", "strategy", "status"]
    assert shown(20) == ["run", "status"]


def test_the_column_that_runs_are_sorted_by_stays() -> None:
    assert "loss" in shown(45, "loss")
    assert "model" in shown(60, "model")


@pytest.mark.parametrize("width", [8, 20, 40, 61, 80, 120, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_lines_are_as_wide_as_the_terminal(width: int, glyphs: Any) -> None:
    strange = run(5, preset="[/red]\x1b[2J", optimizer="日本語の最適化", strategy="e\u0301" * 30)
    layout = laid_out(widths_of([*ENTRIES, strange]), width, USUAL)
    for entry in (*ENTRIES, strange, running_entry(running(OUT))):
        row = line(entry, layout, glyphs, NOW, highlighted=True, marked=True)
        text = "".join(span.text for span in row)
        assert "\x1b" not in text
        assert display_width(text) == width or width < 20
    titles = "".join(span.text for span in head(layout, glyphs, USUAL, up=True))
    assert display_width(titles) == width or width < 20


def test_a_mark_and_an_arrow_are_characters() -> None:
    layout = laid_out(widths_of(ENTRIES), 80, BY_NAME["loss"])
    assert (
        "".join(span.text for span in line(ENTRIES[0], layout, ASCII, NOW, highlighted=True, marked=True))[:2] == ">*"
    )
    assert " ^loss" in "".join(span.text for span in head(layout, ASCII, BY_NAME["loss"], up=True))
    assert " vloss" in "".join(span.text for span in head(layout, ASCII, BY_NAME["loss"], up=False))


def test_a_running_one_says_how_far_it_is_where_there_is_room() -> None:
    entry = running_entry(running(OUT))
    wide, narrow = (laid_out(widths_of([entry, *ENTRIES]), width, USUAL) for width in (160, 80))
    assert "measuring 12/60" in "".join(span.text for span in line(entry, wide, ASCII, NOW))
    assert "measuring 1" not in "".join(span.text for span in line(entry, narrow, ASCII, NOW))


def test_a_run_of_a_newer_format_says_so() -> None:
    row = RunRow(run_id="x", path="/x", preset="quick", status=Status.DONE, schema=9)
    assert entry_of(type(listed(OUT))(row)).reason.startswith("written by a newer gradscope (format 9)")
