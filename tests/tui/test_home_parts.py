"""The parts of the home screen that need no app: numbers, rows, heights, the command line, reading."""

import shlex
from pathlib import Path

import pytest
from builders import preset_dict, run_directory
from home_views import CPU_ONLY, WITH_GPU, broken, item, running

from gradscope.analysis.machine import Machine
from gradscope.core.status import Status
from gradscope.core.text import display_width
from gradscope.tui.charts.cells import Row, plain
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.home.command import run_line, run_words, show_line
from gradscope.tui.home.facts import laid_out, preset_facts
from gradscope.tui.home.layout import Heights, heights
from gradscope.tui.home.reader import HomeReader
from gradscope.tui.home.rows import heading, preset_row, running_row
from gradscope.tui.home.text import clock, fitted, short_bytes, short_seconds
from gradscope.tui.home.view import PresetItem, group_of


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 5, "abcd…"),
        ("abc", 0, ""),
        ("a\x1b[2Jb", 9, "a\\e[2Jb  "),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日… "),
        ("x" * 100_000, 4, "xxx…"),
    ],
)
def test_text_takes_exactly_its_cells(text: str, width: int, shown: str):
    assert fitted(text, width, "…") == shown
    assert display_width(shown) == width


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "n/a"),
        (5.94, "5.9 s"),
        (42, "42 s"),
        (118, "2 min"),
        (5400, "90 min"),
        (22_000, "6 h"),
        (180_000, "2 days"),
    ],
)
def test_durations_in_one_unit(seconds: float | None, text: str):
    assert short_seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "n/a"), (4.6, "0:05"), (65, "1:05"), (3600, "1:00:00"), (-3, "0:00")]
)
def test_time_left_as_a_clock(seconds: float | None, text: str):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(None, "n/a"), (500, "500 B"), (34_729_104, "33 MiB"), (4.32 * 1024**3, "4.3 GiB"), (0, "0 B")]
)
def test_sizes_with_two_digits(size: float | None, text: str):
    assert short_bytes(size) == text


@pytest.mark.parametrize("width", [20, 36, 42, 90])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_rows_take_exactly_their_width(width: int, glyphs):
    rows: list[Row] = [
        preset_row(item("quick"), glyphs, False, width, True),
        preset_row(item("grid-paper", cells=60), glyphs, False, width, False),
        preset_row(broken(), glyphs, False, width, False),
        running_row(running(Path("traces")), glyphs, width, True),
        heading("llama", glyphs, width),
    ]
    assert {display_width(plain([row])) for row in rows} == {width}


def test_a_preset_says_where_it_runs_and_what_it_takes():
    def shown(machine: Machine, width: int = 46) -> str:
        return plain([preset_row(item("llama-1b", machine), UNICODE, False, width, highlighted=True)])

    assert shown(CPU_ONLY) == "▸ llama-1b         full cpu    ~6 h  ~31 GiB ✗"
    assert shown(WITH_GPU) == "▸ llama-1b         full gpu   ~11 s  ~31 GiB  "
    assert shown(CPU_ONLY, 42) == "▸ llama-1b         full    ~6 h  ~31 GiB ✗"
    assert shown(CPU_ONLY, 30) == "▸ llama-1b              ~6 h ✗"
    assert "adam · 50 updates · trace of 2" in shown(CPU_ONLY, 100)


def test_facts_say_what_is_measured_and_why_there_is_no_gpu():
    text = " ".join(plain(laid_out(preset_facts(item("quick"), CPU_ONLY, UNICODE), 60, UNICODE)).split())
    assert "expected ~7.8 s, ~33 MiB (rough), fits 8.00 GiB" in text
    assert "device CPU, 1 thread; no GPU: no NVIDIA driver here" in text
    assert (
        "measures step time by phase, memory by category, loss, utilization, operators (a trace of 2 updates)" in text
    )
    assert "strategy standard" in text


def test_rows_of_the_screen_are_shared():
    assert heights(24, 0, 16, 1) == Heights(0, 19, 2)
    assert heights(24, 1, 16, 50) == Heights(2, 15, 4)
    assert heights(48, 1, 16, 50) == Heights(2, 17, 26)
    assert heights(10, 1, 16, 50) == Heights(2, 5, 0)
    for height in range(60):
        shares = heights(height, 3, 16, 50)
        assert shares.running + shares.presets + shares.recent == max(0, height - 3)


def test_the_command_line_is_quoted_and_names_the_output_root_only_where_needed():
    assert run_line("quick", (), Path("traces")) == "gradscope run quick"
    assert run_line("quick", ("a=b c",), Path("/x y")) == "gradscope run quick -s 'a=b c' --out '/x y'"
    assert run_words("-mine", (), Path("traces")) == ["gradscope", "run", "presets/-mine.toml"]
    assert shlex.split(show_line("id", Path("o"))) == ["gradscope", "show", "id", "--out", "o"]


def test_reading_finds_presets_by_group_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "wrong.toml").write_text("[optimizer]\nlr = -1\n")
    (folder / "mine.toml").write_text('extends = "llama-tiny"\n')
    (folder / "gone.toml").symlink_to(folder / "nowhere.toml")
    out = tmp_path / "traces"
    run_directory(out, Status.DONE)
    run_directory(out, Status.MEASURING, run_id="20270115T090000Z-0a1b2c", preset=preset_dict())
    reader = HomeReader(out)
    first = reader.read()
    assert first.machine is None
    assert first.presets[0].outlook is None
    view = reader.read()
    assert view.machine is not None
    groups = list(dict.fromkeys(map(group_of, view.presets)))
    assert groups == ["start here", "vit", "modernbert", "llama", "nanovlm", "grids", "cannot be used"]
    by_name: dict[str, PresetItem] = {one.name: one for one in view.presets}
    assert by_name["mine"].local
    assert by_name["mine"].outlook is not None
    assert by_name["grid-tiny"].cells == 60
    assert by_name["wrong"].message == "optimizer.lr in presets/wrong.toml: found -1, allowed a number > 0"
    assert by_name["gone"].preset is None
    (going,) = view.running
    assert (going.run_id, going.standing.doing, going.elsewhere) == ("20270115T090000Z-0a1b2c", "measuring", False)
    assert going.standing.stage_done == 4
    assert [run.row.run_id for run in view.recent] == ["20270115T080000Z-0a1b2c"]
    assert view.total == 2
    assert reader.read() == view
    (folder / "wrong.toml").write_text("[optimizer]\nlr = 1\n")
    assert {one.name: one for one in reader.read().presets}["wrong"].preset is not None


def test_reading_without_shipped_presets_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from gradscope.errors import GradscopeError
    from gradscope.tui.home import reader

    def missing() -> Path:
        raise GradscopeError("they are not there", "install again")

    monkeypatch.setattr(reader, "shipped_folder", missing)
    view = HomeReader(tmp_path).read()
    assert (view.presets, view.problem) == ((), "they are not there\ninstall again")
