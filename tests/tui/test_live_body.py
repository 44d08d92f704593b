"""Panes stand side by side where they fit, else one is large and the others are a line each; keys choose."""

import pytest

from gradscope.tui.charts.cells import plain
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.panes.arrange import Box, arrange
from gradscope.tui.panes.base import Look
from gradscope.tui.panes.body import Body, Choice, draw_body
from gradscope.tui.panes.registry import PANES
from gradscope.tui.panes.viewing import LEAST_SPAN, Viewing
from gradscope.tui.view import RunView
from tests.tui.views import finished_view, gpu_view, starting_view, view

NAMES = list(PANES)


def test_a_large_screen_shows_two_by_two_and_a_strip_of_the_log():
    placed = arrange(NAMES, "memory", 160, 45, zoomed=False)
    assert placed.meters == {}
    assert placed.panes == {
        "memory": Box(0, 0, 80, 18),
        "time": Box(80, 0, 80, 18),
        "utilization": Box(0, 18, 80, 19),
        "loss": Box(80, 18, 80, 19),
        "log": Box(0, 37, 160, 8),
    }


def test_an_everyday_screen_shows_one_and_a_line_of_each_other():
    placed = arrange(NAMES, "time", 80, 21, zoomed=False)
    assert placed.panes == {"time": Box(0, 0, 80, 17)}
    assert list(placed.meters.items()) == [
        ("memory", Box(0, 17, 80, 1)),
        ("utilization", Box(0, 18, 80, 1)),
        ("loss", Box(0, 19, 80, 1)),
        ("log", Box(0, 20, 80, 1)),
    ]


def test_a_wide_and_low_screen_shows_two_beside_each_other():
    assert set(arrange(NAMES, "loss", 160, 21, zoomed=False).panes) == {"memory", "loss"}


def test_a_narrow_and_high_screen_stacks_all():
    placed = arrange(NAMES, "memory", 80, 48, zoomed=False)
    assert [(name, box.height) for name, box in placed.panes.items()] == [
        ("memory", 10),
        ("time", 10),
        ("utilization", 10),
        ("loss", 10),
        ("log", 8),
    ]


def test_a_zoomed_pane_has_the_whole_screen():
    assert arrange(NAMES, "log", 160, 45, zoomed=True).panes == {"log": Box(0, 0, 160, 45)}


def test_panes_that_are_off_leave_their_room_to_the_others():
    assert arrange(["memory", "time", "loss"], "memory", 160, 45, zoomed=False).panes["loss"] == Box(0, 22, 160, 23)


def test_lines_give_way_before_the_pane_does():
    placed = arrange(NAMES, "memory", 40, 9, zoomed=False)
    assert placed.panes["memory"].height == 7
    assert list(placed.meters) == ["time", "utilization"]
    assert arrange(NAMES, "memory", 20, 2, zoomed=False).panes == {"memory": Box(0, 0, 20, 2)}


def body(shown: RunView, width: int, height: int, choice: Choice | None = None, look: Look | None = None) -> Body:
    drawn = draw_body(shown, width, height, look or Look(UNICODE), choice or Choice())
    assert [sum(len(span.text) for span in row) for row in drawn.rows] == [width] * height
    return drawn


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", [(80, 21), (160, 45), (40, 9), (20, 2), (20, 1), (300, 77), (1, 1)])
@pytest.mark.parametrize("zoomed", [False, True])
def test_a_body_fills_any_screen(size: tuple[int, int], zoomed: bool, glyphs: object) -> None:
    for name in NAMES:
        for shown in (starting_view(), gpu_view()):
            drawn = body(shown, *size, Choice(active=name, zoomed=zoomed), Look(glyphs))
            assert glyphs is UNICODE or plain(drawn.rows).isascii()


def test_every_pane_is_named_with_its_key():
    text = plain(body(view(), 160, 45).rows)
    for title in ("1 memory", "2 step time", "3 utilization", "4 loss, linear", "5 log"):
        assert f" {title} " in text


def test_the_pane_in_front_is_marked_where_several_are_drawn():
    rows = body(view(), 160, 45, Choice(active="loss")).rows
    assert [row for row in plain(rows).splitlines() if "▸ 4 loss" in row]
    assert "▸ 1 memory" not in plain(rows)


def test_the_cursor_stands_at_the_same_step_in_all_panes():
    text = plain(body(view(), 160, 45, look=Look(UNICODE, cursor=20)).rows)
    assert text.count("step 20 ") >= 4


def test_logs_lines_are_handed_over_apart():
    drawn = body(view(), 160, 45)
    assert drawn.log == Box(1, 38, 158, 6)
    assert "Loading weights" in plain(drawn.log_rows)
    assert "Loading weights" not in plain(drawn.rows)
    assert body(view(), 80, 21).log is None


def test_with_every_pane_off_a_line_says_how_they_come_back():
    drawn = body(view(), 80, 21, Choice(off=frozenset(NAMES)))
    assert "every pane is switched off; 1 to 5 bring them back" in plain(drawn.rows)


def test_metrics_are_each_panes_own():
    text = plain(body(finished_view(), 160, 45, Choice(metric={"loss": 1})).rows)
    assert "4 throughput, samples" in text
    assert "1 memory " in text


# what keys change


def test_the_cursor_starts_at_the_newest_step_and_stays_within_the_run():
    viewing = Viewing()
    assert viewing.following
    viewing.move(-1, last=40)
    assert (viewing.cursor, viewing.following) == (39, False)
    viewing.move(-100, last=40)
    assert viewing.cursor == 1
    viewing.move(100, last=40)
    assert viewing.cursor == 40
    viewing.follow()
    assert viewing.following


def test_a_run_without_steps_has_no_cursor():
    viewing = Viewing()
    viewing.move(-1, last=0)
    assert viewing.cursor is None


def test_closer_and_farther_halve_and_double_around_the_cursor():
    viewing = Viewing(cursor=50)
    viewing.closer(100, last=100)
    assert viewing.window == (25, 50)
    for _ in range(9):
        viewing.closer(viewing.window[1], last=100)
    assert viewing.window[1] == LEAST_SPAN
    for _ in range(9):
        viewing.farther(last=100)
    assert viewing.window is None


def test_the_page_is_turned_for_the_cursor_and_for_the_run():
    viewing = Viewing(window=(11, 20), cursor=11)
    viewing.move(-1, last=100)
    assert viewing.window == (1, 20)
    following = Viewing(window=(11, 20))
    following.keep_up(30)
    assert following.window == (11, 20)
    following.keep_up(31)
    assert following.window == (31, 20)
    held = Viewing(window=(11, 20), paused=True)
    held.keep_up(31)
    assert held.window == (11, 20)


def test_switching_off_brings_the_next_pane_to_the_front_and_its_key_brings_it_back():
    viewing = Viewing()
    viewing.switch_off()
    assert (viewing.choice.active, viewing.choice.off) == ("time", {"memory"})
    viewing.bring("memory")
    assert (viewing.choice.active, viewing.choice.off) == ("memory", frozenset())


def test_all_panes_can_be_switched_off():
    viewing = Viewing()
    for _ in range(7):
        viewing.switch_off()
    assert viewing.choice.off == set(NAMES)
    viewing.next_pane(1)
    viewing.bring("log")
    assert viewing.choice.active == "log"


def test_panes_are_gone_through_in_their_order():
    viewing = Viewing()
    seen = []
    for _ in range(5):
        viewing.next_pane(1)
        seen.append(viewing.choice.active)
    assert seen == ["time", "utilization", "loss", "log", "memory"]
    viewing.next_pane(-1)
    assert viewing.choice.active == "log"


def test_the_log_scrolls_within_its_lines():
    viewing = Viewing()
    viewing.scroll(10, most=4)
    assert viewing.back == 4
    viewing.scroll(-10, most=4)
    assert viewing.back == 0
