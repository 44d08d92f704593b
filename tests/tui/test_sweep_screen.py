"""The sweep screen: what its map shows, and what each key does, on made-up runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import MONOTONIC_START_NS, WALL_START_NS, finished_events, run_directory
from shown_app import make_context
from textual.pilot import Pilot

from gradscope.config.convert import preset_to_dict
from gradscope.config.grid import GridCell, grid_cells
from gradscope.config.load import load_preset
from gradscope.core.status import ProcessId, Status, StatusRecord
from gradscope.errors import GradscopeError
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.layout import STATUS
from gradscope.tui.charts.cells import plain
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.sweep import SweepScreen
from gradscope.tui.sweep.reader import SweepReader
from gradscope.tui.sweep.view import SweepView
from gradscope.tui.widgets.rows import Rows

PROCESS = ProcessId(pid=4321, start_time=1.0)

GRID = """
description = "2 models, 2 optimizers, 2 strategies"
[model]
name = "vit"
scale = "tiny"
[data]
name = "shapes"
batch_size = 8
[budget]
updates = 4
[[sweep.axes."model+data"]]
model = { name = "vit" }
data = { name = "shapes" }
[[sweep.axes."model+data"]]
model = { name = "llama" }
data = { name = "text", sequence_length = 16 }
[sweep.axes]
"optimizer.name" = ["sgd", "adam"]
"memory.strategy" = ["standard", "checkpoint"]
"""


@dataclass
class Hands:
    """Stands for what starts and stops sweeps; writes down what it is asked."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    obstacles: tuple[str, str] = ("", "")
    error: Exception | None = None

    def obstacle(self, view: SweepView, out: Path) -> tuple[str, str]:
        return self.obstacles

    def start(self, view: SweepView, out: Path, *, retry_failed: bool) -> Path:
        self._do("start", retry_failed)
        return out / "mini" / "sweep.log"

    def stop(self, process: ProcessId) -> None:
        self._do("stop", process)

    def export(self, view: SweepView, out: Path) -> Path:
        self._do("export", view.done)
        return out / "mini" / "report.html"

    def _do(self, *what: Any) -> None:
        if self.error is not None:
            raise self.error
        self.asked.append(what)


class Source:
    """Gives the view that it was told last."""

    def __init__(self, view: SweepView) -> None:
        self.view = view

    def read(self) -> SweepView:
        return self.view


def made(out: Path, cell: GridCell, number: int, state: Status | str = Status.DONE, *, loss: float = 1.0) -> Path:
    """Make a cell's run; step times of 25 ms."""
    events = None
    if state == Status.DONE:
        events = [
            msgspec.structs.replace(one, loss=loss) if getattr(one, "loss", None) is not None else one
            for one in finished_events()
        ]
    return run_directory(
        out,
        state,
        events=events,
        preset=preset_to_dict(cell.preset),
        run_id=f"20270115T0800{number:02d}Z-0000{number:02x}",
        reason="at step 3, backward: [/red]\x1b[2J" if state in (Status.OOM, Status.FAILED) else None,
    )


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[GridCell]:
    """The 8 cells of a grid whose preset lies in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "mini.toml").write_text(GRID)
    return grid_cells(load_preset("mini"))


def fill(out: Path, cells: Sequence[GridCell]) -> list[Path]:
    """vit sgd: 3, 4; vit adam: 2, oom; llama sgd: 5, failed; llama adam: running, waiting."""
    return [
        made(out, cells[0], 0, loss=3.0),
        made(out, cells[1], 1, loss=4.0),
        made(out, cells[2], 2, loss=2.0),
        made(out, cells[3], 3, Status.OOM),
        made(out, cells[4], 4, loss=5.0),
        made(out, cells[5], 5, Status.FAILED),
        made(out, cells[6], 6, Status.MEASURING),
    ]


async def settle(pilot: Pilot[None]) -> None:
    """Wait until workers are through and what they posted is shown."""
    for _ in range(3):
        await pilot.pause()
        await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def see(pilot: Pilot[None], view: SweepView) -> None:
    screen = pilot.app.screen
    assert isinstance(screen, SweepScreen)
    screen._source = Source(view)
    screen.post_message(SweepScreen.Seen(view))
    await settle(pilot)


def screen_text(pilot: Pilot[None]) -> str:
    lines = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


def line_with(pilot: Pilot[None], *words: str) -> str:
    found = [line for line in screen_text(pilot).splitlines() if all(word in line for word in words)]
    assert len(found) == 1, (words, screen_text(pilot))
    return " ".join(found[0].split())


def errors(pilot: Pilot[None]) -> list[str]:
    return [asked[1] for asked in pilot.app.asked if asked[0] == "report_error"]


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def screen(context, cells, hands) -> SweepScreen:
    fill(context.out, cells)
    return SweepScreen("mini", None, hands)


# What is there


async def test_the_map_has_a_number_or_a_word_a_cell(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        assert line_with(pilot, "lower is better") == "sweep mini loss · lower is better"
        assert line_with(pilot, "4/8") == "▶ 4/8 done · 1 oom · 1 failed · 1 running · time left unknown"
        assert line_with(pilot, "model", "strategy") == "model strategy sgd adam"
        assert line_with(pilot, "2.00") == "vit standard ▸▒▒▒▒▒▒▒ 3.00 ███████ 2.00*+"
        assert line_with(pilot, "4.00") == "checkpoint ······· 4.00 ✗ oom"
        assert line_with(pilot, "5.00") == "llama standard ███████ 5.00 + ▶ measuring"
        assert line_with(pilot, "! failed") == "checkpoint ! failed ·"
        assert (
            line_with(pilot, "waiting") == "█ best · worst of its model * best < best of row + Pareto front · waiting"
        )
        assert line_with(pilot, "vit · sgd").endswith("standard done")
        assert line_with(pilot, "25.0 ms").startswith("loss 3 · step 25.0 ms")
        assert line_with(pilot, "$").startswith("$ gradscope sweep mini --out ")


async def test_a_cell_that_did_not_end_well_says_why_and_foreign_text_is_literal(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("down", "right")
        assert line_with(pilot, "vit · adam").endswith("checkpoint ✗ oom")
        assert "at step 3, backward: [/red]\\e[2J" in screen_text(pilot)
        await pilot.press("end")
        assert line_with(pilot, "llama · adam").endswith("checkpoint · waiting")


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (40, 12), (41, 10), (300, 80)])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_it_fits_any_window_and_ascii(show, screen, context, size, ascii_only):
    async with show(screen, size=size, context=make_context(context.out, ascii_only=ascii_only)) as pilot:
        await settle(pilot)
        for key in ("f", "down", "f", "n", "x", "end"):
            await pilot.press(key)
            await pilot.pause()
        text = screen_text(pilot)
        assert "sweep mini" in text
        assert "25.0" in text
        assert not ascii_only or text.isascii()


async def test_without_colour_the_cursor_is_still_told_from_the_rest(show, screen, monkeypatch):
    async with show(lambda: (monkeypatch.setenv("NO_COLOR", "1"), screen)[1]) as pilot:
        await settle(pilot)
        segments = [one for line in pilot.app.screen._compositor.render_strips() for one in line]
        assert "".join(one.text for one in segments if one.style is not None and one.style.reverse).strip() == "3.00"
        assert all(one.style is None or one.style.color is None or one.style.color.is_default for one in segments)


async def test_a_preset_that_is_wrong_or_no_grid_says_so(show, context, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hands = Hands()
    async with show(SweepScreen("quick", None, hands)) as pilot:
        await settle(pilot)
        assert "has no [sweep]" in screen_text(pilot)
        for key in ("enter", "n", "N", "f", "f", "r", "R", "s", "space", "c", "x", "e", "u", "b", "up", "end"):
            await pilot.press(key)
        await settle(pilot)
        assert hands.asked == []
        assert any("has no [sweep]" in message for message in errors(pilot))


async def test_it_fills_while_cells_end(show, screen, cells, context):
    async with show(screen) as pilot:
        await settle(pilot)
        made(context.out, cells[7], 7, loss=6.0)
        screen.look()
        await settle(pilot)
        assert line_with(pilot, "! failed") == "checkpoint ! failed ······· 6.00"
        assert line_with(pilot, "5/8").startswith("▶ 5/8 done")


# Moving about


async def test_arrows_go_from_cell_to_cell_and_stop_at_the_edges(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("up", "left")
        assert screen.cursor == (0, 0)
        await pilot.press("j", "l", "l")
        assert screen.cursor == (1, 1)
        await pilot.press("end", "down")
        assert screen.cursor == (3, 1)
        await pilot.press("home")
        assert screen.cursor == (0, 0)
        await pilot.press("b")
        assert screen.cursor == (0, 1)


async def test_n_goes_through_the_numbers_and_n_upwards_goes_back(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        seen = []
        for _ in range(3):
            await pilot.press("n")
            seen.append(line_with(pilot, "sweep mini   "))
        assert seen[0] == "sweep mini step time, ms · lower is better"
        assert seen[1] == "sweep mini peak memory, KiB · lower is better"
        assert "22.9" in line_with(pilot, "llama", "measuring") or seen[2]
        await pilot.press("N", "N", "N")
        assert screen.metric == "loss_last"
        await pilot.press("N")
        assert screen.metric != "loss_last"


async def test_x_puts_another_axis_across_and_stays_at_the_cell(show, screen):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("down", "right")
        await pilot.press("x")
        await settle(pilot)
        assert line_with(pilot, "model", "optimizer") == "model optimizer standard checkpoint"
        assert line_with(pilot, "vit · adam").endswith("checkpoint ✗ oom")
        await pilot.press("x")
        await settle(pilot)
        assert line_with(pilot, "optimizer", "strategy") == "optimizer strategy vit llama"


async def test_f_lists_the_front_and_enter_opens_from_there(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("f")
        await settle(pilot)
        rows = plain(screen.query_one("#front", Rows).rows).splitlines()
        assert [" ".join(row.split()) for row in rows] == [
            "loss step peak",
            "vit",
            "▸ + adam standard 2 25.0 ms 22.9 KiB",
            "llama",
            "+ sgd standard 5 25.0 ms 22.9 KiB",
        ]
        await pilot.press("down", "down", "enter")
        assert pilot.app.asked == [("open_run", context.out / "mini" / "20270115T080004Z-000004")]
        await pilot.press("f")
        assert screen.cursor == (2, 0)


async def test_a_wide_window_has_the_front_beside_the_map(show, screen):
    async with show(screen, size=(160, 48)) as pilot:
        await settle(pilot)
        assert "│   + adam standard" in screen_text(pilot)
        assert "2.00*+" in screen_text(pilot)


# Runs


async def test_enter_opens_a_cells_run_and_says_where_there_is_none(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("enter", "end", "up", "enter", "down", "enter")
        assert pilot.app.asked == [
            ("open_run", context.out / "mini" / "20270115T080000Z-000000"),
            ("open_run", context.out / "mini" / "20270115T080006Z-000006"),
            ("report_error", "this cell has no run yet", "r starts the sweep, or goes on with it"),
        ]


async def test_space_marks_and_c_compares_in_the_order_of_marking(show, screen, context):
    folder = context.out / "mini"
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("c")
        assert errors(pilot) == ["no cells are marked"]
        await pilot.press("right", "space", "left", "space")
        assert "2 marked" in screen_text(pilot)
        await pilot.press("down", "c")
        assert pilot.app.asked[-1] == (
            "open_compare",
            folder / "20270115T080002Z-000002",
            folder / "20270115T080000Z-000000",
        )
        await pilot.press("end", "space", "c")
        assert errors(pilot)[-1] == "1 of the marked cells have no run yet"
        await pilot.press("u", "c")
        assert errors(pilot)[-1] == "no cells are marked"
        await pilot.press("home", "space", "down", "c")  # one marked, and the highlighted one
        assert pilot.app.asked[-1] == (
            "open_compare",
            folder / "20270115T080000Z-000000",
            folder / "20270115T080001Z-000001",
        )


async def test_y_copies_the_command_line(show, screen, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("y")
        assert pilot.app.asked == [("copy_text", f"gradscope sweep mini --out {context.out}")]


# The sweep


async def test_r_starts_it_and_says_how_to_follow_it(show, screen, hands, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await settle(pilot)
        assert hands.asked == [("start", False)]
        assert f"tail -f {context.out}/mini/sweep.log" in [note.message for note in pilot.app._notifications]
        await pilot.press("R")
        await settle(pilot)
        assert hands.asked == [("start", False), ("start", True)]


async def test_r_asks_where_something_is_in_its_way(show, screen, hands):
    hands.obstacles = ("needs a GPU for its claims: none here", "install the driver")
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await settle(pilot)
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert pilot.app.screen.detail == "it needs a GPU for its claims: none here\ninstall the driver"
        await pilot.press("n")
        await settle(pilot)
        assert hands.asked == []
        await pilot.press("r")
        await settle(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert hands.asked == [("start", False)]


async def test_r_does_nothing_where_it_runs_or_all_is_there(show, screen, hands):
    async with show(screen) as pilot:
        await settle(pilot)
        await see(pilot, replace(screen.view, process=PROCESS))
        await pilot.press("r", "R")
        done = tuple(msgspec.structs.replace(row, status="done") for row in screen.view.rows)
        await see(pilot, replace(screen.view, process=None, rows=done))
        await pilot.press("r", "R")
        await settle(pilot)
        assert hands.asked == []
        assert errors(pilot) == [
            "the sweep runs already (process 4321)",
            "the sweep runs already (process 4321)",
            "every cell has a result",
            "no cell has failed",
        ]


async def test_what_cannot_be_done_is_said(show, screen, hands):
    hands.error = GradscopeError("the sweep could not be started: no room", "free some")
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await settle(pilot)
        hands.error = OSError(28, "No space left on device")
        await pilot.press("e")
        await settle(pilot)
        assert errors(pilot) == ["the sweep could not be started: no room", "No space left on device"]


async def test_s_asks_and_stops(show, screen, hands):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("s")
        assert errors(pilot) == ["no sweep of this preset runs here"]
        await see(pilot, replace(screen.view, process=PROCESS))
        await pilot.press("s")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert pilot.app.screen.detail.startswith("the cell that runs now is dropped")
        await pilot.press("n")
        await settle(pilot)
        assert hands.asked == []
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("y")
        await settle(pilot)
        assert hands.asked == [("stop", PROCESS)]


async def test_e_writes_the_report(show, screen, hands, context):
    async with show(screen) as pilot:
        await settle(pilot)
        await pilot.press("e")
        await settle(pilot)
        assert hands.asked == [("export", 4)]
        assert str(context.out / "mini" / "report.html") in [note.message for note in pilot.app._notifications]


# Reading


def test_only_runs_that_changed_are_read_again(cells, tmp_path, monkeypatch):
    out = tmp_path / "traces"
    fill(out, cells)
    reader = SweepReader(out, "mini")
    first = reader.read()
    assert [row.status for row in first.rows] == [
        "done", "done", "done", "oom", "done", "failed", "measuring", "missing",
    ]  # fmt: skip
    assert (first.done, first.running, first.left, first.bad) == (4, 1, 2, {"oom": 1, "failed": 1})
    asked: list[Path] = []

    def load(path: Path) -> Any:
        asked.append(path)
        raise AssertionError

    monkeypatch.setattr("gradscope.tui.sweep.reader.load_summary", load)
    again = reader.read()
    assert again == first
    assert all(one is other for one, other in zip(again.rows, first.rows, strict=True))
    assert asked == []


def test_the_newest_run_of_a_cell_counts_and_a_deleted_one_is_gone(cells, tmp_path):
    out = tmp_path / "traces"
    reader = SweepReader(out, "mini")
    assert [row.status for row in reader.read().rows] == ["missing"] * 8
    made(out, cells[0], 0, Status.FAILED)
    assert reader.read().rows[0].status == "failed"
    newer = made(out, cells[0], 1)
    assert reader.read().rows[0].status == "done"
    newer.rename(tmp_path / "away")
    assert reader.read().rows[0].status == "failed"


def test_time_left_is_that_of_cells_like_those_that_are_over(cells, tmp_path):
    out = tmp_path / "traces"
    for path in fill(out, cells):
        record = read_json(path / STATUS, StatusRecord)
        assert record is not None
        write_json(
            path / STATUS,
            msgspec.structs.replace(
                record, updated_wall_ns=WALL_START_NS + 4 * 10**9, updated_monotonic_ns=MONOTONIC_START_NS
            ),
        )
    reader = SweepReader(out, "mini", lambda: WALL_START_NS + 10**9)
    assert reader.read().seconds_left == 7.0  # 2 are left, 4 s each, and one runs since a second


def test_a_preset_that_changes_changes_the_grid(cells, tmp_path):
    reader = SweepReader(tmp_path / "traces", "mini")
    assert len(reader.read().rows) == 8
    file = tmp_path / "presets" / "mini.toml"
    file.write_text(GRID.replace('["sgd", "adam"]', '["sgd", "adam", "adagrad"]'))
    assert len(reader.read().rows) == 12
    file.write_text("[sweep")
    assert "mini.toml" in reader.read().problem
