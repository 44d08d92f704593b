"""What charts look like, cell by cell."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.tui.charts.axis import framed, inner_size, joined, step_ticks, x_axis, y_axis
from gradscope.tui.charts.bars import Part, bar, bars, legend, meter, shares
from gradscope.tui.charts.cells import Span, plain
from gradscope.tui.charts.lines import Curve, dots_per_cell, lines
from gradscope.tui.charts.scale import Scale, scale_for
from gradscope.tui.charts.spread import Mark, Spread, spread_over
from gradscope.tui.charts.stacked import Layer, Level, stacked
from gradscope.tui.glyphs import ASCII, UNICODE

FOUR = Scale(0, 4)


def drawn(rows):
    return plain(rows).split("\n")


def styles(rows):
    return [[(span.text, span.style) for span in row] for row in rows]


# stacked columns


def test_each_layer_has_a_fill_of_its_own_and_the_top_cell_is_partial():
    layers = [Layer("parameters", [1, 1, None], 0), Layer("activations", [2, 2.5, None], 2)]
    assert drawn(stacked(layers, FOUR, 3, 4, UNICODE)) == [" ▄ ", "▒▒ ", "▒▒ ", "██ "]


def test_without_unicode_cells_are_whole():
    layers = [Layer("parameters", [1], 0), Layer("activations", [2.4], 2)]
    assert drawn(stacked(layers, FOUR, 1, 4, ASCII)) == [" ", "=", "=", "#"]


def test_a_cell_shows_the_layer_that_has_its_middle():
    layers = [Layer("parameters", [1.4, 1.6], 0), Layer("gradients", [0.6, 0.4], 1)]
    assert drawn(stacked(layers, FOUR, 2, 4, UNICODE)) == ["  ", "  ", "▓█", "██"]


def test_profiled_columns_are_hatched_and_warm_up_is_dimmed():
    layers = [Layer("forward", [1, 1, 1], 2)]
    rows = stacked(layers, Scale(0, 1), 3, 1, UNICODE, marks=(Mark.WARMUP, Mark.MEASURED, Mark.PROFILED))
    assert styles(rows) == [[("▒", "dim forward"), ("▒╱", "forward")]]  # noqa: RUF001


def test_what_is_above_the_axis_is_said_to_be():
    assert drawn(stacked([Layer("forward", [9, 4], 0)], FOUR, 2, 2, UNICODE)) == ["↑█", "██"]


def test_a_limit_and_levels_stand_behind_the_stack():
    layers = [Layer("parameters", [3, 1, None], 0)]
    rows = stacked(layers, FOUR, 3, 4, UNICODE, levels=[Level("reserved", [3.5, 2, None])], limit=2.5)
    assert drawn(rows) == ["▁  ", "█▁╌", "█  ", "██ "]
    assert drawn(stacked(layers, FOUR, 3, 4, ASCII, limit=9)) == ["   ", "#  ", "#  ", "## "]


def test_a_cursor_is_a_line_through_the_plot():
    rows = stacked([Layer("parameters", [4, 4], 0)], FOUR, 2, 2, UNICODE, cursor=1)
    assert styles(rows) == [[("█", "parameters"), ("│", "cursor")]] * 2


# curves


def test_a_curve_joins_its_values_and_leaves_gaps():
    rising = lines([Curve("loss", [0, 4, 4, None, 0, 0])], FOUR, 3, 1, UNICODE)
    assert drawn(rising) == ["⡜⠁⣀"]
    assert drawn(lines([Curve("loss", [0, 4, None, 2])], FOUR, 4, 3, ASCII)) == [" *  ", " * *", "*   "]


def test_curves_of_several_runs_carry_their_names():
    curves = [Curve("curve_0", [0, 0], "a"), Curve("curve_1", [4, 4], "b")]
    assert drawn(lines(curves, FOUR, 2, 2, UNICODE)) == ["⠉b", "⣀a"]
    ascii_curves = [Curve("curve_0", [0], "a"), Curve("curve_1", [4], "b")]
    assert drawn(lines(ascii_curves, FOUR, 2, 2, ASCII)) == ["+b", "*a"]


def test_where_curves_meet_their_dots_are_joined():
    rows = lines([Curve("curve_0", [0, 0]), Curve("curve_1", [4, 0])], FOUR, 1, 1, UNICODE)
    assert drawn(rows) == [chr(0x2800 + 0x40 + 0x80 + 0x01 + 0x02 + 0x20)]


def test_a_curve_beyond_the_axis_runs_along_its_edge():
    assert drawn(lines([Curve("loss", [9, 9, -9, -9])], FOUR, 4, 2, ASCII)) == ["**  ", "  **"]
    assert drawn(lines([Curve("loss", [9, 9, -9, -9])], FOUR, 2, 1, UNICODE)) == ["⠙⣄"]


# axes


def test_a_frame_labels_values_and_steps():
    scale = Scale(0, 400, "ms")
    width, height = inner_size(48, 5)
    assert (width, height) == (40, 4)
    area = stacked([Layer("forward", [200.0] * 20, 0)], scale, width, height, UNICODE)
    assert drawn(framed(area, scale, UNICODE, width=48, spread=Spread(1, 40, 40))) == [
        " 400 ms┤                                        ",
        "       │                                        ",
        "    200┤████████████████████                    ",
        "       │████████████████████                    ",
        "      0┤1──────────────────20────────────── step",
    ]


def test_in_a_narrow_frame_units_give_way():
    scale = Scale(0, 1.5 * 1024**3, "bytes")
    assert drawn(y_axis(scale, 3, 5, ASCII)) == [" 1.5+", "    |", "    |", "   0+"]
    assert drawn(y_axis(scale, 9, 8, ASCII))[0] == "1.5 GiB+"
    assert drawn(y_axis(scale, 9, 7, ASCII))[0] == "   1.5+"
    assert inner_size(39, 5) == (34, 4)
    assert inner_size(8, 1) == (8, 0)
    assert inner_size(0, 0) == (0, 0)


def test_the_line_of_steps_marks_warm_up_and_profiled_columns():
    marks = (Mark.WARMUP,) * 4 + (Mark.MEASURED,) * 20
    profiled = (False,) * 20 + (True,) * 4
    row = x_axis(40, UNICODE, spread=Spread(1, 40, 40), marks=marks, profiled=profiled)
    assert plain([row]) == "1┄┄┄───────────────20╱╱╱─────────── step"  # noqa: RUF001
    assert plain([x_axis(12, ASCII, caption="")]) == "-" * 12


def test_step_numbers_are_round():
    assert step_ticks(spread_over(120, 60, expected=120), 4) == [1, 50, 100]
    assert step_ticks(Spread(1, 100_000, 70), 3) == [1, 50_000, 100_000]
    assert step_ticks(Spread(1, 3, 70), 5) == [1, 2, 3]


def test_a_step_with_several_columns_is_labelled_at_its_first():
    assert plain([x_axis(60, UNICODE, spread=Spread(1, 3, 60))]).index("2") == 20


# bars


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "    "), (0.5, "██  "), (1, "████"), (7, "████"), (0.53, "██▏ "), (None, "    ")],
)
def test_a_bar_is_drawn_to_an_eighth_of_a_cell(share, text):
    assert plain([bar(share, 4, UNICODE, "cpu")]) == text


def test_a_meter_gives_up_its_bar_before_its_figure():
    assert plain([meter("cpu", 0.5, "50 %", 18, ASCII, role="cpu")]) == "cpu ####      50 %"
    assert plain([meter("cpu", 0.5, "50 %", 8, ASCII, role="cpu")]) == "cpu 50 %"
    assert plain([meter("memory", None, "n/a", 6, UNICODE)]) == "memor…"


def test_shares_fill_the_bar_and_the_legend_names_them():
    parts = [Part("data", 1, "data", 0, "1 ms"), Part("h2d", None, "h2d", 1), Part("forward", 3, "forward", 2, "3 ms")]
    assert styles([shares(parts, 8, UNICODE)]) == [[("██", "data"), ("▒▒▒▒▒▒", "forward")]]
    assert plain([shares(parts, 8, ASCII, total=8)]) == "#===    "
    assert plain([shares([], 4, ASCII)]) == "    "
    assert plain([legend(parts, 40, ASCII)]) == "# data 1 ms  % h2d  = forward 3 ms      "
    assert plain([legend(parts, 12, ASCII)]) == "# data 1 ms "


def test_bars_stand_below_each_other():
    parts = [Part("forward", 131, "forward", 2, "131 ms"), Part("data", None, "data", 0, "n/a")]
    assert drawn(bars(parts, 30, 3, ASCII)) == [
        "forward =============== 131 ms",
        "data                       n/a",
        " " * 30,
    ]


def test_rows_side_by_side_merge_equal_styles():
    assert joined((Span("a", "x"),), (Span("b", "x"), Span(""), Span("c"))) == (Span("ab", "x"), Span("c"))


# always exactly the size that was asked for

values = st.lists(st.none() | st.floats(-1e12, 1e12) | st.just(float("inf")) | st.just(float("nan")), max_size=30)
sizes = st.integers(0, 25)
glyph_sets = st.sampled_from((UNICODE, ASCII))
scales = st.builds(
    scale_for,
    st.floats(-10, 1e6),
    st.floats(1, 1e9),
    st.sampled_from(("bytes", "ms", "number")),
    log=st.booleans(),
)
columns = st.none() | st.integers(-3, 40)
mark_lists = st.lists(st.sampled_from(Mark), max_size=30)


def assert_exact(rows, width, height):
    assert len(rows) == height
    for row in rows:
        assert sum(len(span.text) for span in row) == width
        assert all(before.style != after.style for before, after in pairwise(row))


@given(
    first=values,
    second=values,
    level=values,
    width=sizes,
    height=sizes,
    glyphs=glyph_sets,
    marks=mark_lists,
    limit=st.none() | st.floats(-5, 1e9),
    cursor=columns,
)
def test_a_stack_is_as_large_as_asked_for(*, first, second, level, width, height, glyphs, marks, limit, cursor):
    scale = scale_for(0, 1e6, "bytes")
    rows = stacked(
        [Layer("parameters", first, 0), Layer("other", second, 9)],
        scale,
        width,
        height,
        glyphs,
        marks=marks,
        levels=[Level("reserved", level)],
        limit=limit,
        cursor=cursor,
    )
    assert_exact(rows, width, height)


@given(
    first=values,
    second=values,
    scale=scales,
    width=sizes,
    height=sizes,
    glyphs=glyph_sets,
    limit=st.none() | st.floats(-5, 1e9),
    cursor=columns,
)
def test_curves_are_as_large_as_asked_for(*, first, second, scale, width, height, glyphs, limit, cursor):
    curves = [Curve("curve_0", first, "a"), Curve("curve_1", second)]
    rows = lines(curves, scale, width, height, glyphs, limit=limit, cursor=cursor)
    assert_exact(rows, width, height)
    assert dots_per_cell(glyphs) in (1, 2)


@given(
    scale=scales,
    width=st.integers(0, 60),
    height=st.integers(1, 20),
    glyphs=glyph_sets,
    marks=mark_lists,
    steps=st.integers(1, 10**7),
)
def test_a_frame_is_as_large_as_asked_for(*, scale, width, height, glyphs, marks, steps):
    inner_width, inner_height = inner_size(width, height)
    area = stacked([], scale, inner_width, inner_height, glyphs)
    spread = spread_over(steps, inner_width)
    profiled = [mark is Mark.PROFILED for mark in marks]
    rows = framed(area, scale, glyphs, width=width, spread=spread, marks=marks, profiled=profiled)
    assert_exact(rows, width, height)
    if glyphs is ASCII:
        assert plain(rows).isascii()


texts = st.tuples(st.text("abc", max_size=9), st.none() | st.floats(-1e3, 1e9), st.text("12", max_size=6))


@given(st.lists(texts, max_size=6), sizes, sizes, glyph_sets)
def test_bars_are_as_large_as_asked_for(given_parts, width, height, glyphs):
    parts = [Part(label, value, "data", index, text) for index, (label, value, text) in enumerate(given_parts)]
    assert_exact(bars(parts, width, height, glyphs), width, height)
    for label, value, text in given_parts or [("", None, "")]:
        assert_exact([meter(label, value, text, width, glyphs, role="data")], width, 1)
    assert_exact([shares(parts, width, glyphs), legend(parts, width, glyphs)], width, 2)
