"""The compare screen: numbers, baseline, curves, what is said of a line, copying; 80x24, 160x48, ASCII."""

from array import array
from pathlib import Path
from typing import Any

import pytest
from conftest import Show
from shown_app import make_context

from gradscope.analysis.comparison import compare
from gradscope.core.status import Status
from gradscope.tui.charts.cells import plain
from gradscope.tui.charts.spread import Spread
from gradscope.tui.compare.bars import Shown
from gradscope.tui.compare.curves import KINDS, binned, overlaid
from gradscope.tui.compare.numbers import explained, lines_of
from gradscope.tui.compare.reading import EMPTY, Read, Series, read_runs
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.results.lines import LinesView
from gradscope.tui.screens.compare import CompareScreen
from gradscope.tui.widgets.plot import Plot
from tests.builders import run_directory
from tests.made_summaries import MIB, alternated, made, side

SMALLER = {"peak_activations_bytes": 4 * MIB, "allocated_peak_bytes": 22 * MIB}


def series(wall_ms: float, losses: tuple[float, ...] = (4.0, 3.0, 2.5, 2.0)) -> Series:
    count = len(losses)
    return Series(
        array("d", range(1, count + 1)),
        array("d", [wall_ms * (number + 1) / 1000 for number in range(count)]),
        array("d", losses),
        array("d", [wall_ms] * count),
    )


def found(count: int = 2, **fields: Any) -> Read:
    """The first run of 100 ms; each further one 25 ms slower, with less memory."""
    sides = [side("quick 000000", made("a"))]
    for number in range(1, count):
        run = made(f"b{number}", 100 + 25 * number, memory=SMALLER, strategy="checkpoint", **fields)
        sides.append(side(f"quick 00000{number}", run))
    curves = tuple(series(100.0 + 25 * number) for number in range(count))
    paths = tuple(Path(f"/runs/{number}") for number in range(count))
    return Read(tuple(sides), curves, paths, ())


def screen(count: int = 2, **fields: Any) -> CompareScreen:
    read = found(count, **fields)
    return CompareScreen(read.paths, found=read)


def shown(count: int = 2, *, glyphs: Any = UNICODE, baseline: int = 0, **fields: Any) -> Shown:
    sides = found(count, **fields).sides
    return Shown(sides, compare(sides, baseline=baseline), glyphs)


def texts(what: Shown, width: int = 80) -> list[str]:
    return ["".join(span.text for span in line.spans).rstrip() for line in lines_of(what, width)]


def row(lines: list[str], label: str) -> list[str]:
    line = next(line for line in lines if line.startswith(label))
    return line.removeprefix(label).split()


# lines


def test_the_baseline_is_plain_and_the_others_are_differences() -> None:
    lines = texts(shown())
    assert row(lines, "step time") == ["100", "ms", "125", "ms", "+25", "%", "?"]
    assert row(lines, "peak memory") == ["32.0", "MiB", "22.0", "MiB", "-31", "%", "▼"]
    assert row(lines, "last loss") == ["2", "2", "="]
    turned = texts(shown(baseline=1))
    assert row(turned, "peak memory") == ["32.0", "MiB", "+45", "%", "▲", "22.0", "MiB"]


def test_narrow_columns_show_less() -> None:
    lines = texts(shown(6))
    assert row(lines, "step time") == ["100", "ms", "+25%", "?", "+50%", "?", "+75%", "?", "+100%", "?", "+125%", "?"]
    assert max(map(len, texts(shown(6), 80))) <= 80


def test_no_difference_beyond_noise_is_said_as_such() -> None:
    sides = alternated([100, 120, 90, 110, 105], [104, 101, 118, 95, 108])
    what = Shown(sides, compare(sides), UNICODE)
    assert any(line.strip().startswith("no difference beyond noise: step time") for line in texts(what, 160))
    assert "no difference beyond noise" in " ".join(explained(what, "number:step_time_ms"))
    assert row(texts(what), "step time")[-1] == "~"


def test_a_difference_beyond_noise_has_its_interval_and_a_mark() -> None:
    sides = alternated([100, 110, 90, 105, 95], [150, 165, 135, 157.5, 142.5])
    assert row(texts(Shown(sides, compare(sides), UNICODE)), "step time")[-4:] == ["+50", "%", "±0.0", "▲"]
    assert row(texts(Shown(sides, compare(sides), ASCII)), "step time")[-1] == "!"


def test_bars_share_one_scale() -> None:
    lines = texts(shown())
    start = lines.index("where memory goes  common scale")
    first, second = lines[start + 1], lines[start + 2]
    fills = [sum(char in "█▓▒░▚▞" for char in line) for line in (first, second)]
    # 31 MiB in categories against 21: the first fills the 66 cells there are
    assert fills == [66, 45]
    assert (first.split()[-2:], second.split()[-2:]) == (["32.0", "MiB"], ["22.0", "MiB"])


def test_what_makes_the_difference_is_told() -> None:
    what = shown()
    assert "B against A  mean step +25.0 ms: backward +10.0 ms; peak -10.0 MiB: activations -10.0 MiB" in texts(
        what, 160
    )
    assert explained(what, "bar:where memory goes:1") == ["B against A: -10.0 MiB", "activations -10.0 MiB"]
    assert explained(what, "bar:where memory goes:0") == ["where memory goes: the baseline"]


def test_unlike_things_are_told() -> None:
    lines = texts(shown(2, device_name="Other CPU", status=Status.OOM))
    assert "unlike  other hardware: Test CPU | Other CPU" in lines
    assert "unlike  b1 ended as oom: what it measured counts" in lines


def test_all_is_ascii_where_it_must_be() -> None:
    assert all(line.isascii() for line in texts(shown(3, glyphs=ASCII)))


# curves


def test_columns_hold_means_and_carry_over() -> None:
    four = [1.0, 2.0, 3.0, 4.0]
    assert binned(four, four, Spread(1, 4, 2), 1.0) == [1.5, 3.5]
    assert binned(four, four, Spread(1, 4, 8), 1.0) == [None, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    assert binned(four[:2], four[:2], Spread(1, 4, 4), 1.0) == [1.0, 2.0, None, None]
    assert binned([0.5, 1.0], [7.0, float("nan")], Spread(0, 1000, 2), 1000.0) == [7.0, 7.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_curves_are_exactly_as_large_as_asked_for(kind: Any, glyphs: Any) -> None:
    for size in ((40, 10), (9, 4), (3, 1), (120, 30)):
        rows = overlaid([series(100), series(150), EMPTY], "ABC", kind, size=size, glyphs=glyphs, logarithmic=True)
        assert [sum(len(span.text) for span in line) for line in rows] == [size[0]] * size[1]


def test_curves_end_in_their_letters_and_say_what_they_count() -> None:
    text = plain(overlaid([series(100), series(150, (4, 3, 2, 1))], "AB", KINDS[1], size=(60, 12), glyphs=UNICODE))
    assert "A" in text
    assert "B" in text
    assert text.rstrip().endswith("ms")
    assert "no measured step" in plain(overlaid([EMPTY], "A", KINDS[0], size=(60, 12), glyphs=UNICODE))


# reading


def test_runs_are_read_with_their_measured_steps(tmp_path: Path) -> None:
    path = run_directory(tmp_path)
    read = read_runs([path, tmp_path / "gone"])
    assert [one.name for one in read.sides] == ["quick 0a1b2c"]
    assert list(read.series[0].wall_ms) == [10, 20, 30, 40]
    assert [round(value, 6) for value in read.series[0].seconds] == [0.01, 0.03, 0.06, 0.1]
    assert list(read.series[0].loss) == [4.0, 3.0, 2.5, 2.0]
    assert read.problems == ("gone cannot be read: there is no such folder",)


# the screen


async def test_it_reads_what_it_is_given(show: Show, tmp_path: Path) -> None:
    paths = [run_directory(tmp_path, run_id=f"20270115T08000{n}Z-00000{n}") for n in (1, 2)]
    async with show(CompareScreen(paths)) as pilot:
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert pilot.app.screen.shown is not None
        assert pilot.app.screen.shown.sides[1].name == "quick 000002"


async def test_runs_that_cannot_be_read_are_said(show: Show, tmp_path: Path) -> None:
    async with show(CompareScreen([run_directory(tmp_path), tmp_path / "gone"])) as pilot:
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert ("report_error", "gone cannot be read: there is no such folder", "") in pilot.app.asked
        assert pilot.app.screen.shown is None
        for key in ("b", "c", "l", "y", "Y", "enter"):
            await pilot.press(key)


async def test_keys_choose_the_baseline(show: Show) -> None:
    async with show(screen(3)) as pilot:
        here = pilot.app.screen
        await pilot.press("b")
        assert (here.baseline, here.shown.comparison.baseline) == (1, 1)
        await pilot.press("B", "B")
        assert here.baseline == 2


async def test_curves_take_the_place_of_numbers_in_a_narrow_terminal(show: Show) -> None:
    async with show(screen()) as pilot:
        here = pilot.app.screen
        lines, plot = here.query_one(LinesView), here.query_one(Plot)
        assert (lines.display, plot.display) == (True, False)
        seen = []
        for _ in range(5):
            await pilot.press("c")
            seen.append((here.curve, lines.display, plot.display))
        assert seen == [(n, False, True) for n in range(4)] + [(None, True, False)]
        await pilot.press("c", "C")
        assert here.curve is None


async def test_curves_stand_beside_numbers_in_a_wide_terminal(show: Show) -> None:
    async with show(screen(), size=(160, 48)) as pilot:
        here = pilot.app.screen
        await pilot.pause()
        plot = here.query_one(Plot)
        assert here.query_one(LinesView).display
        titles = [plot.cells(y, 0, 40)[0].strip() for y in (0, plot.size.height - plot.size.height // 2)]
        assert [title.partition("  ")[0] for title in titles] == ["loss by step", "step time by step"]
        await pilot.press("c", "l")
        assert plot.cells(0, 0, 40)[0].strip().startswith("loss by time, logarithmic")


async def test_a_highlighted_line_is_said_in_full(show: Show) -> None:
    async with show(screen()) as pilot:
        lines = pilot.app.screen.query_one(LinesView)
        at = next(n for n, line in enumerate(lines.lines) if line.meaning == "number:step_time_ms")
        lines.highlight(str(at))
        await pilot.pause()
        said = [plain([line]).strip() for line in pilot.app.screen.query_one("#detail").rows]
        assert said == [
            "step time: A 100 ms (91.5-109 ms), B 125 ms (114-136 ms)",
            "B +25 %, undecided: one run a side; --repeat 5 decides",
        ]


async def test_enter_opens_the_run_of_a_line(show: Show) -> None:
    async with show(screen()) as pilot:
        await pilot.press("down", "enter")
        assert pilot.app.asked == [("open_run", Path("/runs/1"))]


async def test_copying(show: Show) -> None:
    async with show(screen()) as pilot:
        await pilot.press("y", "b", "Y")
        (_, text), (_, command) = pilot.app.asked
        assert "peak memory" in text
        assert "▼" in text
        assert command == "gradscope compare 0 1 --baseline B"


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (300, 80)])
async def test_any_size_and_no_unicode(show: Show, tmp_path: Path, size: tuple[int, int]) -> None:
    async with show(screen(6), size=size, context=make_context(tmp_path, ascii_only=True)) as pilot:
        for key in ("c", "c", "l", "b", "C", "down"):
            await pilot.press(key)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
