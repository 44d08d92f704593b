"""The run screen under keys: every tab at 80x24 and 160x48, runs that went wrong, an analysis that is stopped."""

import threading
from pathlib import Path
from typing import Any

import pytest
from shown_app import make_context
from textual.pilot import Pilot
from textual.widgets import Input

from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.tui.charts.cells import plain
from gradscope.tui.results import outside
from gradscope.tui.results.dialogs import ChooseWindow, ExportDialog, TensorBoardScreen
from gradscope.tui.results.lines import LinesView
from gradscope.tui.results.questions import Question, TraceReader
from gradscope.tui.results.server import Address, Server
from gradscope.tui.results.tabs import TABS
from gradscope.tui.results.timeline import LanesView
from gradscope.tui.screens.results import ResultsScreen
from gradscope.tui.widgets.rows import Rows
from tests.builders import RUN_ID, finished_events, run_directory
from tests.trace_builder import chrome_event, write_chrome

TRACE = f"{RUN_ID}-w1.1700000000000.pt.trace.json.gz"
MIB = 1024 * 1024


def memory(ts: float, size: int, total: int, addr: int) -> dict[str, Any]:
    args = {
        "Total Reserved": 0,
        "Total Allocated": total,
        "Bytes": size,
        "Addr": addr,
        "Device Id": -1,
        "Device Type": 0,
    }
    return chrome_event("[memory]", "cpu_instant_event", ts, ph="i", s="t", args=args)


def trace_events(*, device: bool = False) -> list[dict[str, Any]]:
    """Two steps of 1000 us: mm twice (300 and 100 us, two shapes, one place), add once (100 us), memory that peaks."""
    events: list[dict[str, Any]] = []
    for number, start in ((5, 0), (6, 1000)):
        events.append(chrome_event(f"ProfilerStep#{number}", "user_annotation", start, 1000))
        events.append(chrome_event("gradscope: forward", "user_annotation", start + 50, 800))
        for name, at, dur, dims in (
            ("aten::mm", 100, 300, [[4, 8], [8, 2]]),
            ("aten::mm", 450, 100, [[1, 8], [8, 2]]),
            ("aten::add", 600, 100, [[4], [4]]),
        ):
            args = {
                "Input Dims": dims,
                "Input type": ["float", "float"],
                "Call stack": "train.py(7): loop;model.py(3): f",
            }
            events.append(chrome_event(name, "cpu_op", start + at, dur, args={**args, "External id": start + at}))
        events.append(memory(start + 110, 3 * MIB, 3 * MIB, start + 1))
        events.append(memory(start + 900, -3 * MIB, 0, start + 1))
        if device:
            launch = {"correlation": start + 7, "External id": start + 100}
            events.append(chrome_event("cudaLaunchKernel", "cuda_runtime", start + 120, 10, args=launch))
            place = {"device": 0, "stream": 7, "correlation": start + 7, "External id": start + 100}
            events.append(chrome_event("sgemm_[nn]", "kernel", start + 200, 100, pid=0, tid=7, args=place))
    return events


def make_run(out: Path, *, device: bool = False, windows: int = 1, **options: Any) -> Path:
    path = run_directory(out, events=finished_events(trace=TRACE), **options)
    for number in range(1, windows + 1):
        write_chrome(path / f"{RUN_ID}-w{number}.170000000000{number}.pt.trace.json.gz", trace_events(device=device))
    return path


async def settled(pilot: Pilot[None]) -> None:
    """Wait until threads have said all they had to say, and the screen has taken it in."""
    await pilot.pause()
    while any(not worker.is_finished for worker in pilot.app.workers):
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


def shown(pilot: Pilot[None]) -> str:
    """Return the text of the open tab's lines."""
    view = next(view for view in pilot.app.screen.pane.query(LinesView) if view.display)
    return "\n".join("".join(span.text for span in line.spans) for line in view.lines)


def picture(pilot: Pilot[None]) -> str:
    """Return what the screen shows, as text."""
    screen = pilot.app.screen
    return "\n".join(strip.text for strip in screen._compositor.render_strips())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "traces")


# every tab at both sizes


@pytest.mark.parametrize(
    ("size", "device", "ascii_only"),
    [((80, 24), False, False), ((80, 24), True, True), ((160, 48), True, False), ((160, 48), False, True)],
)
async def test_every_tab_opens_by_its_key(show, tmp_path, size, device, ascii_only):
    path = make_run(tmp_path / "traces", device=device)
    context = make_context(tmp_path / "traces", ascii_only=ascii_only)
    async with show(ResultsScreen(path), size=size, context=context) as pilot:
        await settled(pilot)
        for tab in TABS:
            await pilot.press(tab.key)
            await settled(pilot)
            assert pilot.app.screen.active == tab.name
            assert pilot.app.screen.pane.display
            assert pilot.app.focused is not None
            assert pilot.app.focused.display
            lines = picture(pilot).splitlines()
            assert len(lines) == size[1]
            assert all(len(line) == size[0] for line in lines)
            if ascii_only:
                assert picture(pilot).isascii()


async def test_brackets_turn_tabs_around(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("[")
        assert pilot.app.screen.active == "files"
        await pilot.press("]", "]")
        assert pilot.app.screen.active == "operators"
        await settled(pilot)


async def test_any_size_at_any_moment(show, run):
    async with show(ResultsScreen(run)) as pilot:
        for key in "1256":
            await pilot.press(key)
            for size in ((200, 60), (50, 12), (40, 10), (20, 5), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
        await settled(pilot)


# summary


async def test_the_summary_ends_with_findings_of_the_trace(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        text = shown(pilot)
        assert text.startswith("did it work")
        assert "what to do" in text
        assert pilot.app.screen.desk.answers.keys() == {Question("findings")}


async def test_i_explains_the_highlighted_number(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        strip = pilot.app.screen.query_one("#meaning", Rows)
        assert not strip.display
        await pilot.press("i")
        assert strip.display
        assert "How the run ended" in plain(strip.rows)
        await pilot.press("down", "down", "down")
        await pilot.pause()
        assert "median is the usual step" in plain(strip.rows)
        await pilot.press("i")
        assert not strip.display


async def test_y_copies_the_path_and_l_shows_the_curves(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("y", "l")
        assert pilot.app.asked[-2:] == [("copy_text", str(run)), ("open_live", run)]


async def test_a_large_trace_is_asked_only_when_told_to(show, run, monkeypatch):
    monkeypatch.setattr("gradscope.tui.results.text_panes.AT_ONCE_EVENTS", 1)
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        assert "enter analyses it" in shown(pilot)
        assert not pilot.app.screen.desk.answers
        await pilot.press("enter")
        await settled(pilot)
        assert Question("findings") in pilot.app.screen.desk.answers


# operators


async def test_operators_sort_by_any_column_and_back(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("2")
        await settled(pilot)
        table = pilot.app.screen.pane.table
        assert table.rows[0].name == "aten::mm"
        first = [row.name for row in table.rows]
        for _ in table.columns:
            await pilot.press("s")
        assert [row.name for row in table.rows] == first
        await pilot.press("S")
        assert table.columns[table.sorted_by].title == "operator"
        assert [row.name for row in table.rows] == sorted(first, key=str.lower)
        await pilot.press("r")
        assert [row.name for row in table.rows] == sorted(first, key=str.lower, reverse=True)


async def test_operators_are_filtered_as_one_types(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("2")
        await settled(pilot)
        table = pilot.app.screen.pane.table
        await pilot.press("slash", "m", "m")
        assert [row.name for row in table.rows] == ["aten::mm"]
        assert isinstance(pilot.app.focused, Input)
        await pilot.press("enter")
        assert pilot.app.focused is table
        await pilot.press("escape")
        assert len(table.rows) > 1
        assert pilot.app.screen.active == "operators"


async def test_digits_can_be_typed_into_the_filter(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("2")
        await settled(pilot)
        await pilot.press("slash", "3", "f", "q")
        assert pilot.app.screen.pane.query_one(Input).value == "3fq"
        assert pilot.app.screen.active == "operators"


async def test_groups_are_names_then_shapes_then_stacks(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("2")
        await settled(pilot)
        table = pilot.app.screen.pane.table

        def mm() -> list[str]:
            return [row.label for row in table.rows if row.name == "aten::mm"]

        assert mm() == ["aten::mm"]
        await pilot.press("g")
        await settled(pilot)
        assert mm() == ["aten::mm [[4,8],[8,2]]", "aten::mm [[1,8],[8,2]]"]
        await pilot.press("g")
        await settled(pilot)
        assert mm() == ["aten::mm train.py(7): loop"]
        await pilot.press("g")
        await settled(pilot)
        assert mm() == ["aten::mm"]


async def test_enter_shows_shapes_and_stack_of_an_operator(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("2")
        await settled(pilot)
        await pilot.press("slash", *"mm", "enter", "enter")
        await settled(pilot)
        text = shown(pilot)
        assert "[[4,8],[8,2]]" in text
        assert "train.py(7): loop" in text
        assert "4 calls" in text
        await pilot.press("escape")
        assert pilot.app.focused is pilot.app.screen.pane.table
        await pilot.press("y")
        assert pilot.app.asked[-1] == ("copy_text", "aten::mm")


async def test_v_changes_to_kernels_and_back(show, tmp_path):
    async with show(ResultsScreen(make_run(tmp_path / "traces", device=True))) as pilot:
        await pilot.press("2")
        await settled(pilot)
        await pilot.press("v")
        await settled(pilot)
        pane = pilot.app.screen.pane
        assert [(row.name, row.calls, row.total_ns) for row in pane.table.rows] == [("sgemm_[nn]", 2, 200_000)]
        assert "sgemm_[nn]" in picture(pilot)
        await pilot.press("enter")
        assert "aten::mm" in shown(pilot)
        await pilot.press("escape", "v")
        await settled(pilot)
        assert pane.table.rows[0].name == "aten::mm"


async def test_kernels_of_a_cpu_run_say_why_there_are_none(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("2", "v")
        await settled(pilot)
        assert "no work of a device" in shown(pilot)
        await pilot.press("v")
        await settled(pilot)
        assert pilot.app.screen.pane.table.display


# steps, idle, memory, timeline


async def test_a_step_opens_in_the_timeline(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("3")
        await settled(pilot)
        assert [row.dur_ns for row in pilot.app.screen.pane.table.rows] == [1_000_000, 1_000_000]
        await pilot.press("down", "enter")
        await settled(pilot)
        screen = pilot.app.screen
        assert screen.active == "timeline"
        assert screen.query_one(LanesView).lanes.step == 6


async def test_idle_time_of_a_device_has_its_longest_gaps(show, tmp_path):
    async with show(ResultsScreen(make_run(tmp_path / "traces", device=True))) as pilot:
        await pilot.press("4")
        await settled(pilot)
        text = shown(pilot)
        assert "gpu 0 host wait" in text
        assert "longest gaps" in text
        await pilot.press("end", "enter")
        await settled(pilot)
        assert pilot.app.screen.active == "timeline"


async def test_idle_time_of_a_cpu_says_what_the_host_did(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("4")
        await settled(pilot)
        assert "no device events" in shown(pilot)
        assert "operators" in shown(pilot)


async def test_memory_tells_who_asked_for_what_is_alive_at_the_peak(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("5")
        await settled(pilot)
        pane = pilot.app.screen.pane
        assert [(one.asked_by, one.size_bytes) for one in pane.table.rows] == [("aten::mm", 3 * MIB)]
        assert pane.curve.peak_bytes == 3 * MIB
        await pilot.press("a")
        assert pane.table.rows == []
        await pilot.press("a", "v", "y")
        assert pilot.app.asked[-1] == ("copy_text", "aten::mm: 3.00 MiB")


async def test_memory_that_was_not_recorded_names_the_setting(show, tmp_path):
    path = run_directory(tmp_path / "traces", events=finished_events(trace=TRACE))
    write_chrome(path / TRACE, [event for event in trace_events() if event["name"] != "[memory]"])
    async with show(ResultsScreen(path)) as pilot:
        await pilot.press("5")
        await settled(pilot)
        assert "profile_memory=True" in shown(pilot)


async def test_the_timeline_names_the_call_under_the_cursor(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("6")
        await settled(pilot)
        view = pilot.app.screen.query_one(LanesView)
        assert view.lanes.step == 5
        await pilot.press("home", "down", "down", "full_stop")
        call = plain(pilot.app.screen.query_one("#call", Rows).rows)
        assert "aten::mm" in call
        assert "0.300000 ms (30.0 %)" in call
        assert "from 0.100000 to 0.400000 ms" in call
        await pilot.press("y")
        assert pilot.app.asked[-1][1].startswith("aten::mm, 0.300000 ms (30.0 %)")


async def test_the_timeline_zooms_pans_and_changes_step(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("6")
        await settled(pilot)
        view = pilot.app.screen.query_one(LanesView)
        await pilot.press("plus", "plus")
        assert view.view.span_ns == view.lanes.span_ns / 4
        start = view.view.start_ns
        await pilot.press("greater_than_sign")
        assert view.view.start_ns > start
        await pilot.press("less_than_sign")
        assert view.view.start_ns == pytest.approx(start)
        cursor = view.view.cursor_ns
        await pilot.press("right")
        assert view.view.cursor_ns > cursor
        await pilot.press("left", "minus")
        assert view.view.span_ns == view.lanes.span_ns / 2
        await pilot.press("0")
        assert view.view.span_ns == view.lanes.span_ns
        await pilot.press("n")
        await settled(pilot)
        assert view.lanes.step == 6
        await pilot.press("n")
        await settled(pilot)
        assert view.lanes.step == 6
        await pilot.press("p")
        await settled(pilot)
        assert view.lanes.step == 5


async def test_enter_fits_the_call_under_the_cursor(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("6")
        await settled(pilot)
        view = pilot.app.screen.query_one(LanesView)
        await pilot.press("home", "down", "down", "full_stop", "enter")
        assert view.view.span_ns == pytest.approx(375_000)


# findings, audit, preset, files


async def test_rules_that_were_not_judged_unfold(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("7")
        await settled(pilot)
        assert "enter says why" in shown(pilot)
        await pilot.press("end", "enter")
        assert "enter says why" not in shown(pilot)
        assert "device-idle:" in shown(pilot)


async def test_the_preset_tab_copies_the_command_line(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("9")
        assert "gradscope run quick" in shown(pilot)
        assert "[model]" in shown(pilot)
        await pilot.press("y")
        assert pilot.app.asked[-1] == ("copy_text", "gradscope run quick")


async def test_the_files_tab_copies_paths(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("f", "down", "y")
        assert pilot.app.asked[-1][1].startswith(str(run) + "/")


async def test_the_audit_tab_says_what_error_means(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("8")
        assert "gradient audit" in shown(pilot)


# runs that went wrong, and folders that are none


@pytest.mark.parametrize("state", ["lost", "bare", Status.FAILED, Status.OOM])
async def test_any_run_opens_and_every_tab_says_why_it_is_empty(show, tmp_path, state):
    path = run_directory(tmp_path / "traces", state, reason="it broke [/red]\x1b[2J", events=[])
    async with show(ResultsScreen(path)) as pilot:
        await settled(pilot)
        for tab in TABS:
            await pilot.press(tab.key)
            await settled(pilot)
            assert shown(pilot).strip(), tab.name
            assert "\x1b" not in shown(pilot)
        await pilot.press("2")
        assert "gradscope run" in shown(pilot)


async def test_a_folder_of_somebody_elses_traces_can_be_asked(show, tmp_path):
    write_chrome(tmp_path / "theirs.pt.trace.json", trace_events(device=True))
    async with show(ResultsScreen(tmp_path)) as pilot:
        await settled(pilot)
        assert "no run of gradscope" in shown(pilot)
        await pilot.press("2")
        await settled(pilot)
        assert pilot.app.screen.pane.table.rows[0].name == "aten::mm"


async def test_a_file_that_is_no_trace_is_told_in_every_tab(show, tmp_path):
    path = make_run(tmp_path / "traces")
    next(path.glob("*.pt.trace.json.gz")).write_bytes(b"no trace at all")
    async with show(ResultsScreen(path)) as pilot:
        await settled(pilot)
        for key in "234567":
            await pilot.press(key)
            await settled(pilot)
            assert "no JSON" in shown(pilot) or "no trace" in shown(pilot)


async def test_hostile_names_are_shown_as_they_are(show, tmp_path):
    path = make_run(tmp_path / "traces")
    names = ("[/red]", "[bold", "\x1b[2J", "a\nb", "\u202eabc", "\U0001f600" * 3)
    odd = [chrome_event(name, "cpu_op", 700 + 10 * place, 10) for place, name in enumerate(names)]
    write_chrome(next(path.glob("*.pt.trace.json.gz")), [*trace_events(device=True), *odd])
    async with show(ResultsScreen(path), size=(160, 48)) as pilot:
        await pilot.press("2")
        await settled(pilot)
        assert {"[/red]", "\\e[2J", "a\\nb"} <= {word for line in picture(pilot).splitlines() for word in line.split()}
        await pilot.press("enter", "y", "6")
        await settled(pilot)
        assert "\x1b" not in picture(pilot)


# the analysis


class SlowReader(TraceReader):
    """Answers only when it is let."""

    def __init__(self) -> None:
        super().__init__((Path("trace.json"),), run_id="x")
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.asked: list[Question] = []

    def answer(self, question, check):
        self.asked.append(question)
        check("reading the trace: 45 % of about 2 M events")
        self.entered.set()
        self.go_on.wait(20)
        check("reading the trace: 90 % of about 2 M events")
        raise GradscopeError("it ended [/red]", "try another")


async def entered(pilot: Pilot[None], reader: SlowReader) -> None:
    while not reader.entered.is_set():
        await pilot.pause()
    await pilot.pause()


async def test_escape_stops_the_analysis_and_enter_starts_it_again(show, run):
    reader = SlowReader()
    async with show(ResultsScreen(run, make_reader=lambda paths, run_id: reader)) as pilot:
        await pilot.press("2")
        await entered(pilot, reader)
        doing = pilot.app.screen.query_one("#doing", Rows)
        assert doing.display
        assert "45 % of about 2 M events" in plain(doing.rows)
        await pilot.press("escape")
        assert not doing.display
        assert "enter does" in shown(pilot)
        assert len(pilot.app.screen_stack) == 1
        before = len(reader.asked)
        await pilot.press("enter")
        reader.go_on.set()
        await settled(pilot)
        assert len(reader.asked) > before
        assert "it ended [/red]" in shown(pilot)
        assert "try another" in shown(pilot)


async def test_leaving_the_screen_stops_the_analysis(show, run):
    reader = SlowReader()
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        pilot.app.push_screen(ResultsScreen(run, make_reader=lambda paths, run_id: reader))
        await entered(pilot, reader)
        pilot.app.pop_screen()
        reader.go_on.set()
        await settled(pilot)
        assert len(pilot.app.screen_stack) == 1


async def test_an_error_of_the_analysis_itself_is_told_and_ends_nothing(show, run, monkeypatch):
    def broken(*_arguments: Any) -> None:
        raise ZeroDivisionError("odd [/red]")

    monkeypatch.setattr(TraceReader, "answer", broken)
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("3")
        await settled(pilot)
        assert "ZeroDivisionError: odd [/red]" in shown(pilot)


async def test_polars_is_not_needed_for_the_first_look() -> None:
    import subprocess
    import sys

    code = "import gradscope.tui.screens.results, sys; print('polars' in sys.modules, 'numpy' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]


# windows


async def test_one_of_several_windows_can_be_chosen(show, tmp_path):
    path = make_run(tmp_path / "traces", windows=2)
    async with show(ResultsScreen(path)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert len(screen.desk.paths) == 2
        await pilot.press("w")
        assert isinstance(pilot.app.screen, ChooseWindow)
        await pilot.press("down", "down", "enter")
        await settled(pilot)
        assert [one.name for one in screen.desk.paths] == [f"{RUN_ID}-w2.1700000000002.pt.trace.json.gz"]
        assert "window 2" in picture(pilot)
        await pilot.press("3")
        await settled(pilot)
        assert len(screen.pane.table.rows) == 2


async def test_with_one_trace_there_is_nothing_to_choose(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("w")
        assert isinstance(pilot.app.screen, ResultsScreen)


# export and TensorBoard


class Formats:
    """Stands for a format of `gradscope.export.formats`, the only one there."""

    def __init__(self) -> None:
        self.wrote: list[tuple[Path, Path, bool]] = []
        self.FORMATS = {"csv": self}
        self.name, self.summary = "csv", "tables for a spreadsheet"

    def write(self, run_dir: Path, target: Path, *, force: bool, note) -> list[Path]:
        self.wrote.append((run_dir, target, force))
        if target.name == "full":
            raise OSError(28, "No space left on device", str(target))
        return [target / "steps.csv"]


async def test_x_writes_the_run_in_a_chosen_format(show, run, monkeypatch):
    formats = Formats()
    monkeypatch.setattr("gradscope.export.formats.FORMATS", formats.FORMATS)
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("x")
        assert isinstance(pilot.app.screen, ExportDialog)
        await pilot.press("enter")
        await settled(pilot)
        assert formats.wrote == [(run, run / "export", True)]
        await pilot.press("x", "tab")
        pilot.app.screen.query_one(Input).value = str(run / "full")
        await pilot.press("enter")
        await settled(pilot)
        assert formats.wrote[-1] == (run, run / "full", False)
        assert pilot.app.asked[-1] == ("report_error", f"{run / 'full'}: No space left on device", "")
        await pilot.press("x", "escape")
        assert isinstance(pilot.app.screen, ResultsScreen)
        assert len(formats.wrote) == 2


class FakeServer(Server):
    """A TensorBoard that answers at once."""

    folders: list[Path]

    def start(self, folder, tell):
        self.folders = [*getattr(self, "folders", []), folder]
        self.address = Address("http://127.0.0.1:6006/", "ssh -N -L 6006:127.0.0.1:6006 me@host", folder)
        tell(self, None)

    def stop(self):
        self.address = None


async def test_t_starts_tensorboard_and_shows_how_to_reach_it(show, run, monkeypatch):
    server = FakeServer()
    monkeypatch.setattr(outside, "server_of", lambda app: server)
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(pilot.app.screen, TensorBoardScreen)
        assert server.folders == [run.parent.parent]
        assert "ssh -N -L 6006" in picture(pilot)
        await pilot.press("y")
        assert pilot.app.asked[-1] == ("copy_text", "ssh -N -L 6006:127.0.0.1:6006 me@host")
        await pilot.press("escape")
        assert server.address is not None
        await pilot.press("t")
        await pilot.press("s")
        assert server.address is None


async def test_escape_goes_back_where_nothing_is_open(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        pilot.app.push_screen(ResultsScreen(run))
        await settled(pilot)
        await pilot.press("escape")
        assert len(pilot.app.screen_stack) == 1


async def test_tensorboard_ends_when_it_is_told_to_and_with_the_app(tmp_path, monkeypatch):
    from contextlib import contextmanager

    from gradscope.tui.results import server as module

    class Process:
        pid, code = 7, None

        def poll(self) -> int | None:
            return self.code

    process, killed, told = Process(), [], []
    ended = threading.Event()

    @contextmanager
    def fake(folder, port, say):
        try:
            yield process
        finally:
            ended.set()

    monkeypatch.setattr(module, "check_tensorboard", lambda: None)
    monkeypatch.setattr(module, "choose_port", lambda port: 6006)
    monkeypatch.setattr(module, "tensorboard_server", fake)
    monkeypatch.setattr(module, "kill_group", killed.append)
    server, answers = Server(), threading.Event()

    def tell(one: Server, error: tuple[str, str] | None) -> None:
        told.append((one.address is not None, error))
        answers.set()

    server.start(tmp_path, tell)
    assert answers.wait(20)
    assert server.address is not None
    server.close()
    assert ended.is_set()
    assert killed == [7]
    assert told == [(True, None), (False, None)]
    server.start(tmp_path, tell)
    process.code = 3
    server._thread.join(20)
    assert told[-1] == (False, ("TensorBoard ended by itself (exit code 3)", ""))


async def test_escape_closes_the_meanings_first(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await settled(pilot)
        await pilot.press("i")
        assert pilot.app.screen.explains
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, ResultsScreen)
        assert not pilot.app.screen.explains


async def test_a_fill_means_one_thing_in_steps_and_preset_names_its_copy_key(show, run):
    async with show(ResultsScreen(run)) as pilot:
        await pilot.press("3")
        await settled(pilot)
        bars = [plain([row]) for row in pilot.app.screen.pane.query_one("#bars", Rows).rows]
        assert bars[3].startswith("phases  forward ")
        await pilot.press("9")
        await settled(pilot)
        assert "y copy" in picture(pilot)
