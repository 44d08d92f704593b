"""The timeline as a pure function: strands, the drawing, zooming, panning, and what is under the cursor."""

import pytest

from gradscope.tui.charts.cells import plain
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.results.lanes import (
    Lane,
    Lanes,
    draw,
    exact,
    label_width,
    neighbour,
    panned,
    plot_width,
    round_step,
    strands,
    time_unit,
    whole,
    with_cursor,
    with_row,
    zoomed,
)

NAMES = ("gradscope: forward", "aten::mm", "aten::add", "kernel")


def lanes(*host, device=(), end=1000) -> Lanes:
    """Lanes of one thread and one stream, slices as (start, end, index of the name) in ns."""
    made = [Lane("main", False, strands(host))]
    if device:
        made.append(Lane("stream 7", True, strands(device)))
    count = sum(len(strand) for lane in made for strand in lane.strands)
    return Lanes(3, (3, 4), 0, end, NAMES, tuple(made), count)


ONE = lanes((0, 1000, 0), (100, 500, 1), (500, 900, 2), device=[(600, 1000, 3)])


def test_nested_slices_get_strands_of_their_own() -> None:
    found = strands([(0, 100, 0), (10, 50, 1), (20, 30, 2), (60, 90, 1), (100, 110, 0)])
    assert [list(strand.starts) for strand in found] == [[0, 100], [10, 60], [20]]


def test_slices_of_a_strand_never_overlap() -> None:
    overlapping = [(0, 10, 0), (8, 15, 1), (12, 20, 2), (14, 16, 0), (30, 40, 1)]
    for strand in strands(overlapping):
        assert all(end <= start for end, start in zip(strand.ends, list(strand.starts)[1:], strict=False))
    assert sum(map(len, strands(overlapping))) == len(overlapping)


@pytest.mark.parametrize(
    ("width", "height", "glyphs"), [(80, 12, UNICODE), (20, 4, ASCII), (9, 2, ASCII), (1, 1, UNICODE)]
)
def test_a_drawing_has_exactly_the_cells_it_was_asked_for(width, height, glyphs) -> None:
    rows = draw(ONE, whole(ONE), width, height, glyphs)
    assert [sum(len(span.text) for span in row) for row in rows] == [width] * height


def test_slices_lie_where_their_times_are() -> None:
    width = 8 + 40 + 2  # a cell is 25 ns
    assert label_width(width) + 42 == width
    text = plain(
        draw(lanes((0, 1050, 0), (105, 525, 1), end=1050), whole(lanes(end=1050)), width, 4, ASCII)
    ).splitlines()
    assert text[1] == "main    |gradscope: forward" + " " * (width - 27)
    assert text[2].index("aten::mm") == 8 + 4 + 1  # 105 ns, behind the edge
    assert text[3].strip() == ""


def test_the_line_of_times_counts_from_the_step() -> None:
    first = plain(draw(ONE, whole(ONE), 80, 3, ASCII)).splitlines()[0]
    assert first.startswith("step 3")
    assert "+0 ns" in first
    assert "+500 ns" in first


def test_many_short_slices_in_a_cell_show_how_much_they_cover() -> None:
    half = lanes(*((start, start + 1, 1) for start in range(0, 1000, 2)))
    text = plain(draw(half, whole(half), 80, 2, UNICODE)).splitlines()[1][label_width(80) :]
    assert text[0] == " "  # the call under the cursor, in reverse
    assert set(text[1:]) <= {"▒", "▓"}


def test_a_hundred_thousand_slices_are_drawn_with_two_searches_a_cell() -> None:
    many = lanes(*((start, start + 6, 1 + start % 2) for start in range(0, 1_000_000, 10)), end=1_000_000)
    assert many.count == 100_000
    rows = draw(many, whole(many), 160, 40, UNICODE)
    assert len(rows) == 40
    assert "▓" in plain(rows)  # six tenths


def test_what_is_under_the_cursor_is_exact() -> None:
    assert ONE.at(1, 499) == 0
    assert ONE.at(1, 950) is None
    call = ONE.slice(1, 1)
    assert (call.name, call.start_ns, call.dur_ns) == ("aten::add", 500, 400)
    assert exact(1_234_567_891) == "1 234.567891"


def test_zooming_keeps_the_cursor_in_place_and_stays_within_the_step() -> None:
    view = with_cursor(ONE, whole(ONE), 300)
    near = zoomed(ONE, view, 0.5)
    assert near.span_ns == 500
    assert (near.cursor_ns - near.start_ns) / near.span_ns == pytest.approx(0.3)
    assert zoomed(ONE, near, 8).span_ns == 1000
    assert zoomed(ONE, near, 1e-9).span_ns == 50


def test_panning_stops_at_the_ends_and_then_moves_the_cursor() -> None:
    view = zoomed(ONE, with_cursor(ONE, whole(ONE), 500), 0.2)
    left = panned(ONE, view, -0.5)
    assert left.start_ns == view.start_ns - 100
    assert left.cursor_ns == view.cursor_ns - 100
    for _ in range(20):
        left = panned(ONE, left, -0.5)
    assert (left.start_ns, left.cursor_ns) == (0, 0)
    for _ in range(40):
        left = panned(ONE, left, 0.5)
    assert (left.end_ns, left.cursor_ns) == (1000, 1000)


def test_the_cursor_moves_from_call_to_call_in_its_line() -> None:
    view = with_row(ONE, with_cursor(ONE, whole(ONE), 50), 1, 10)
    first = neighbour(ONE, view, 1)
    assert first == 0
    assert neighbour(ONE, view, -1) is None
    on_first = with_cursor(ONE, view, 300)
    assert neighbour(ONE, on_first, 1) == 1
    assert neighbour(ONE, on_first, -1) is None
    assert neighbour(ONE, with_cursor(ONE, view, 950), -1) == 1


def test_lines_scroll_as_little_as_shows_the_cursor() -> None:
    view = with_row(ONE, whole(ONE), 2, 2)
    assert (view.row, view.top) == (2, 1)
    assert with_row(ONE, view, 99, 2).row == 2
    assert with_row(ONE, view, 0, 2).top == 0
    assert with_row(ONE, view, 2, 50).top == 0


def test_names_lose_what_stands_before_their_last_part_first() -> None:
    text = plain(draw(lanes((0, 50, 1)), whole(ONE), label_width(120) + plot_width(120), 2, ASCII))
    assert "|mm" in text
    assert "aten" not in text


def test_units_and_steps_are_round() -> None:
    assert [time_unit(span)[0] for span in (3e9, 5e7, 3e4, 200)] == ["s", "ms", "us", "ns"]
    assert [round_step(least) for least in (1, 3, 7, 15, 60)] == [1, 5, 10, 20, 100]


def test_nothing_at_all_is_drawn_as_nothing() -> None:
    empty = Lanes(None, (), 0, 1, (), (), 0)
    assert plain(draw(empty, whole(empty), 40, 3, ASCII)).splitlines()[0].startswith("all")
