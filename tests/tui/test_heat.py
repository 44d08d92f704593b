"""The heat map: numbers in shades that can be read without colour, symbols, marks, and any rectangle."""

import pytest

from gradscope.tui.charts.cells import plain
from gradscope.tui.charts.heat import STATES, Entry, HeatTable, corner_for, fit, heat, shades, symbol
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.sweep.table import number


def table(*rows: list[Entry | None], lower: bool = True, groups: list[int] | None = None) -> HeatTable:
    """Rows with labels `a`, `b`, ...; columns `x0`, `x1`, ..."""
    return HeatTable(
        down=["model"],
        labels=[[chr(97 + place)] for place in range(len(rows))],
        heads=[f"x{place}" for place in range(len(rows[0]))],
        entries=rows,
        groups=groups or [0] * len(rows),
        lower_is_better=lower,
    )


def entry(value: float, **marks: bool) -> Entry:
    return Entry(value, number(value), **marks)


def test_shades_rank_the_numbers_of_a_group_the_densest_is_the_best():
    found = table(
        [entry(1), entry(2), entry(3)], [entry(4), entry(1e9), Entry(state="oom", text="oom")], [entry(7), None, None],
        groups=[0, 0, 1],
    )  # fmt: skip
    assert shades(found) == {(0, 0): 4, (0, 1): 3, (0, 2): 2, (1, 0): 1, (1, 1): 0, (2, 0): 4}
    assert shades(table([entry(1), entry(2), entry(2)], lower=False)) == {(0, 0): 0, (0, 1): 4, (0, 2): 4}


def test_numbers_marks_and_symbols_stand_in_columns():
    found = table(
        [entry(1, best=True, on_front=True), entry(2, marked=True), Entry(state="waiting")],
        [entry(4), entry(3), Entry(state="oom", text="oom")],
        [Entry(state="running", text="measuring"), Entry(state="failed", text="failed"), None],
        groups=[0, 0, 1],
    )
    lines = [line.rstrip() for line in plain(heat(found, 42, 5, UNICODE, cursor=(1, 0))).splitlines()]
    assert lines == [
        "model         x0         x1         x2",
        "a       ██  1.00*+o▓▓  2.00          ·",
        "b      ▸··  4.00   ░░  3.00<  ✗ oom",
        "",
        "c       ▶ measuri… ! failed",
    ]


def test_in_ascii_nothing_is_lost():
    found = table([entry(1), entry(2)], [Entry(state="oom", text="oom"), Entry(state="running", text="warmup")])
    text = plain(heat(found, 34, 3, ASCII, cursor=(0, 0)))
    assert text.isascii()
    assert ">#### " in text
    assert "X oom" in text
    assert "> warmup" in text


def test_every_state_has_a_symbol_of_its_own():
    for glyphs in (UNICODE, ASCII):
        assert len({symbol(state, glyphs) for state in STATES if state not in ("waiting", "stopped")}) == 3


@pytest.mark.parametrize("width", [0, 1, 9, 20, 40, 78, 200])
@pytest.mark.parametrize("height", [0, 1, 2, 5, 30])
def test_it_fills_exactly_its_rectangle(width, height):
    found = table(*([entry(row * 7 + column + 1.0) for column in range(7)] for row in range(9)))
    rows = heat(
        found, width, height, UNICODE, cursor=(8, 6), corner=corner_for(fit(found, width, height), (8, 6), (0, 0))
    )
    assert [sum(len(span.text) for span in row) for row in rows] == [width] * height


def test_the_cursor_stays_in_sight_and_arrows_tell_of_columns_beyond():
    found = table(*([entry(row * 7 + column + 1.0) for column in range(7)] for row in range(9)))
    corner = corner_for(fit(found, 40, 5), (8, 5), (0, 0))
    assert corner == (5, 3)
    text = plain(heat(found, 40, 5, UNICODE, cursor=(8, 5), corner=corner))
    assert "← x3" in text
    assert "x5 →" in text
    assert "62.0" in text
    assert corner_for(fit(found, 40, 5), (6, 4), corner) == corner
    assert corner_for(fit(found, 40, 5), (0, 0), corner) == (0, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (0.1234, "0.123"), (1.0, "1.00"), (12.34, "12.3"), (123.4, "123"), (1234.5, "1234"),
        (99999.4, "99999"), (1.234e6, "1.2e6"), (-0.5, "-0.500"), (1e-7, "1.0e-7"), (-1.5e-12, "-2e-12"),
        (999.7, "1000"),
    ],
)  # fmt: skip
def test_numbers_take_at_most_six_cells(value, text):
    assert number(value) == text
