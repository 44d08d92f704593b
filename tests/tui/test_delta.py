"""What reaches the terminal is what textual painted, in fewer bytes."""

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Static

from gradscope.tui.delta import Delta, ThriftyApp

WIDTH, HEIGHT = 12, 3
CONSOLE = Console(color_system="256", force_terminal=True)

PLAIN = Style(color="white", bgcolor="black")
RED = Style(color="red", bgcolor="black")
ON_BLUE = Style(color="red", bgcolor="blue")
REVERSE = Style(color="red", bgcolor="black", reverse=True)


class Painted:
    """Cells of a terminal with the colours they were written in; what blanks do not show is left out."""

    def __init__(self):
        self.cells = {}
        self._at = (0, 0)
        self._style = ""

    def feed(self, text):
        for sequence, char in re.findall(r"(\x1b\[[0-9;]*[A-Za-z])|(.)", text, re.DOTALL):
            x, y = self._at
            if char:
                if char >= " ":
                    self.cells[x, y] = (char, self._style if char != " " else self._on_blank())
                    self._at = (x + 1, y)
                continue
            numbers, final = sequence[2:-1], sequence[-1]
            if final == "H":
                row, column = numbers.split(";")
                self._at = (int(column) - 1, int(row) - 1)
            elif final == "C":
                self._at = (x + int(numbers), y)
            elif final == "m":
                self._style = re.sub(r"^0?;?", "", numbers)

    def _on_blank(self):
        codes = self._style.split(";")
        return ";".join(code for code in codes if code in ("7", "40", "44"))


def strips(rows):
    return [[Strip([Segment(text, style) for text, style in row])] for row in rows]


def full(rows):
    return LayoutUpdate(strips(rows), Region(0, 0, WIDTH, HEIGHT))


def partial(rows, spans):
    chops = [{0: row[0]} for row in strips(rows)]
    return ChopsUpdate(chops, spans, [[WIDTH]] * HEIGHT)


styles = st.sampled_from((PLAIN, RED, ON_BLUE, REVERSE, None))


@st.composite
def pictures(draw):
    rows = []
    for _ in range(HEIGHT):
        text = draw(st.text("ab ─⣀", min_size=WIDTH, max_size=WIDTH))
        cut = draw(st.integers(0, WIDTH))
        rows.append([(part, draw(styles)) for part in (text[:cut], text[cut:]) if part])
    return rows


@given(st.lists(pictures(), min_size=1, max_size=5), st.booleans())
def test_the_terminal_shows_what_was_painted(shown, forget):
    delta, terminal, other = Delta(), Painted(), Painted()
    for rows in shown:
        terminal.feed(delta.of(full(rows)).render_segments(CONSOLE))
        other.feed(full(rows).render_segments(CONSOLE))
        assert terminal.cells == other.cells
        assert delta.of(full(rows)).render_segments(CONSOLE) == ""
        if forget:
            delta.forget()


@given(pictures(), pictures(), st.sets(st.integers(0, HEIGHT - 1), min_size=1))
def test_a_part_of_the_screen_is_brought_up_to_date(before, after, rows):
    delta, terminal, other = Delta(), Painted(), Painted()
    spans = [(y, 0, WIDTH) for y in sorted(rows)]
    for update in (full(before), partial(after, spans)):
        terminal.feed(delta.of(update).render_segments(CONSOLE))
        other.feed(update.render_segments(CONSOLE))
    assert terminal.cells == other.cells


def rendered(delta, *rows):
    lines = [[(text, PLAIN)] for text in rows]
    return delta.of(full(lines)).render_segments(CONSOLE)


def test_only_changed_cells_are_sent_near_ones_together_far_ones_with_a_jump():
    delta, blank = Delta(), " " * WIDTH
    rendered(delta, "step 41     ", blank, blank)
    assert rendered(delta, "step 42     ", blank, blank) == "\x1b[1;7H\x1b[0;37;40m2\x1b[m"
    assert rendered(delta, "Step 43     ", blank, blank) == "\x1b[1;1H\x1b[0;37;40mS\x1b[5C3\x1b[m"
    assert rendered(delta, "StEp 44     ", blank, blank) == "\x1b[1;3H\x1b[0;37;40mEp 44\x1b[m"
    assert rendered(delta, "StEp 44     ", blank, "x" + blank[1:]) == "\x1b[3;1H\x1b[0;37;40mx\x1b[m"


def test_a_blank_does_not_change_the_pen():
    delta = Delta()
    row = [("a", RED), (" ", PLAIN), ("b", RED), (" " * 9, PLAIN)]
    sent = delta.of(full([row, row, row])).render_segments(CONSOLE)
    assert sent.count("\x1b[0;31;40m") == 1


def test_where_widths_are_not_sure_all_to_the_right_is_sent_again():
    delta, blank = Delta(), " " * WIDTH
    emoji = full([[("\N{ROCKET} go       ", PLAIN)], [(blank, PLAIN)], [(blank, PLAIN)]])
    assert "\N{ROCKET} go" in delta.of(emoji).render_segments(CONSOLE)
    assert "\N{ROCKET} go" in delta.of(emoji).render_segments(CONSOLE)
    assert rendered(delta, blank, blank, blank) == f"\x1b[1;1H\x1b[0;40m{blank}\x1b[m"
    assert rendered(delta, blank, blank, blank) == ""


def test_another_size_is_another_screen():
    delta = Delta()
    rendered(delta, "a" * WIDTH, "b" * WIDTH, "c" * WIDTH)
    small = LayoutUpdate([[Strip([Segment("a" * 4, PLAIN)])]], Region(0, 0, 4, 1))
    assert delta.of(small).render_segments(CONSOLE) == "\x1b[1;1H\x1b[0;37;40maaaa\x1b[m"


def test_what_is_no_update_of_the_screen_goes_out_as_it_is():
    delta = Delta()
    rendered(delta, "a" * WIDTH, "b" * WIDTH, "c" * WIDTH)
    assert delta.of(None) is None
    assert delta.of("text") == "text"
    assert "aaaa" in rendered(delta, "a" * WIDTH, "b" * WIDTH, "c" * WIDTH)


async def test_a_resize_and_a_wish_send_the_whole_screen():
    class OneLine(ThriftyApp):
        def compose(self) -> ComposeResult:
            yield Static("hello")

    app = OneLine()
    async with app.run_test(size=(20, 4)) as pilot:
        for act in (lambda: pilot.resize_terminal(22, 4), app.run_action("redraw")):
            app.delta._size = (1, 1)
            await (act() if callable(act) else act)
            assert app.delta._size == (0, 0)
