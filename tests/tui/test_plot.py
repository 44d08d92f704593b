"""What a plot repaints, and in which colours."""

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.screen import ModalScreen

from gradscope.tui.charts.cells import Canvas, Span
from gradscope.tui.themes import DARK, SIXTEEN
from gradscope.tui.widgets.plot import Plot, Tile
from gradscope.tui.widgets.styles import depth_of, role_style, strip_of


class PlotApp(App[None]):
    CSS = "Plot { width: 100%; height: 100%; }"

    def __init__(self, rows=()):
        super().__init__()
        self._rows = rows
        self.sizes = []

    def compose(self) -> ComposeResult:
        yield Plot(self._rows)

    def on_mount(self) -> None:
        for theme in (DARK, SIXTEEN):
            self.register_theme(theme)
        self.theme = DARK.name

    def on_plot_resized(self, event: Plot.Resized) -> None:
        self.sizes.append(tuple(event.size))


def grid(width, height, *points, style="loss"):
    canvas = Canvas(width, height)
    for x, y, char in points:
        canvas.put(x, y, char, style)
    return canvas.rows()


def screen_text(app):
    width, height = app.size
    strips = app.screen._compositor.render_strips(app.size)
    assert len(strips) == height
    return [strip.text[:width] for strip in strips]


@pytest.fixture
def repainted(monkeypatch):
    """What tiles were told to repaint: (first column, region) pairs."""
    seen = []
    refresh = Tile.refresh

    def noted(self, *regions, **options):
        if regions:
            seen.extend((self._left, region) for region in regions)
        return refresh(self, *regions, **options)

    monkeypatch.setattr(Tile, "refresh", noted)
    return seen


async def test_a_plot_shows_its_rows_over_all_tiles():
    rows = grid(20, 3, (0, 0, "a"), (7, 1, "b"), (8, 1, "c"), (19, 2, "d"))
    app = PlotApp(rows=rows)
    async with app.run_test(size=(20, 3)) as pilot:
        await pilot.pause()
        assert [tile.size.width for tile in app.query(Tile)] == [8, 8, 4]
        assert screen_text(app) == ["a" + " " * 19, " " * 7 + "bc" + " " * 11, " " * 19 + "d"]


async def test_only_tiles_whose_cells_changed_are_repainted_and_of_them_only_those_rows(repainted):
    app = PlotApp(rows=grid(24, 4, (2, 0, "a"), (10, 2, "b")))
    async with app.run_test(size=(24, 4)) as pilot:
        await pilot.pause()
        plot = app.query_one(Plot)
        repainted.clear()
        plot.show(grid(24, 4, (2, 0, "a"), (10, 2, "b")))
        assert repainted == []
        plot.show(grid(24, 4, (2, 0, "a"), (10, 2, "c"), (12, 3, "d")))
        assert repainted == [(8, Region(0, 2, 3, 1)), (8, Region(0, 3, 5, 1))]
        await pilot.pause()
        assert screen_text(app)[2:] == [" " * 10 + "c" + " " * 13, " " * 12 + "d" + " " * 11]


async def test_another_style_is_a_change_and_a_removed_row_becomes_blank(repainted):
    app = PlotApp(rows=grid(16, 2, (0, 0, "a"), (9, 1, "b")))
    async with app.run_test(size=(16, 2)) as pilot:
        await pilot.pause()
        repainted.clear()
        app.query_one(Plot).show(grid(16, 2, (0, 0, "a"), (9, 1, "b"), style="bad"))
        assert [left for left, _ in repainted] == [0, 8]
        repainted.clear()
        app.query_one(Plot).show(grid(16, 1, (0, 0, "a"), style="bad"))
        assert repainted == [(8, Region(0, 1, 2, 1))]
        await pilot.pause()
        assert screen_text(app)[1] == " " * 16


async def test_a_plot_keeps_up_with_the_terminal():
    app = PlotApp(rows=grid(8, 2, (7, 0, "x")))
    async with app.run_test(size=(8, 2)) as pilot:
        await pilot.pause()
        for size in ((61, 5), (3, 1), (30, 2)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            width, height = size
            app.query_one(Plot).show(grid(width, height, (0, 0, "a"), (width - 1, height - 1, "z")))
            await pilot.pause()
            lines = screen_text(app)
            assert lines[0][0] == "a"
            assert lines[-1][-1] == "z"
            assert app.sizes[-1] == size
            assert max(tile.size.width for tile in app.query(Tile) if tile.size.height) <= 8


async def test_rows_of_another_size_are_cut_and_filled_up():
    app = PlotApp(rows=grid(30, 5, (0, 0, "a"), (29, 4, "z")))
    async with app.run_test(size=(10, 7)) as pilot:
        await pilot.pause()
        assert screen_text(app) == ["a" + " " * 9] + [" " * 10] * 6


# colours


async def test_colours_follow_theme_and_terminal():
    app = PlotApp()
    async with app.run_test(size=(10, 2)):
        app.console._color_system = None
        app.theme = DARK.name
        assert role_style("bold loss", app).bold is True
        app.theme = SIXTEEN.name
        assert depth_of(app) == "16"
        assert role_style("loss", app) == Style(color="yellow")
        assert role_style("dim loss", app) == Style(color="yellow", dim=True)
        app.no_color = True
        assert depth_of(app) == "none"
        assert role_style("dim loss", app) == Style(dim=True)
        assert role_style("", app) == Style()


async def test_cells_become_few_segments():
    app = PlotApp()
    async with app.run_test(size=(10, 2)):
        app.theme = SIXTEEN.name
        strip = strip_of("  ab  c ", ["", "", "loss", "loss", "", "", "bad", ""], app, Style())
        assert [(segment.text, segment.style) for segment in strip] == [
            ("  ab  ", Style(color="yellow")),
            ("c ", Style(color="red")),
        ]
        blank = strip_of("   ", ["loss", "", "bad"], app, Style(color="white", bgcolor="blue"))
        assert [(segment.text, segment.style) for segment in blank] == [("   ", Style(bgcolor="blue"))]
        reverse = strip_of("a  ", ["loss", "reverse", ""], app, Style())
        assert [segment.text for segment in reverse] == ["a", " ", " "]


def test_a_light_theme_darkens_what_could_not_be_read():
    from gradscope.tui.widgets.styles import _role_style

    dark = _role_style("gradients", "full", "#101418").color
    light = _role_style("gradients", "full", "#fbfbf8").color
    assert sum(light.get_truecolor()) < sum(dark.get_truecolor()) - 150


def test_spans_that_touch_have_one_style():
    assert grid(3, 1, (0, 0, "a"), (1, 0, "b")) == [(Span("ab", "loss"), Span(" ", ""))]


async def test_another_theme_repaints_a_plot_in_its_colours(monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    app = PlotApp(rows=grid(4, 1, (0, 0, "a")))
    async with app.run_test(size=(4, 1)) as pilot:
        await pilot.pause()

        def colours():
            first = next(iter(app.screen._compositor.render_strips(app.size)[0]))
            return first.style.color.name, first.style.bgcolor and first.style.bgcolor.name

        assert colours() == ("color(178)", "color(233)")
        app.theme = SIXTEEN.name
        await pilot.pause()
        assert colours() == ("yellow", None)


async def test_a_plot_below_another_screen_is_dimmed_like_the_rest():
    app = PlotApp(rows=grid(40, 9, (0, 0, "a")))
    async with app.run_test(size=(40, 9)) as pilot:
        await pilot.pause()
        await app.push_screen(ModalScreen())
        await pilot.pause()
        assert screen_text(app)[0].startswith("a")
