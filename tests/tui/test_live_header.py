"""The header says what runs, how far it is, whether it still does something, and what is wrong with its folder."""

from typing import Any

import pytest

from gradscope.core.events import Stage
from gradscope.core.status import Status
from gradscope.tui.charts.cells import plain
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.panes.header import draw_header, silence
from gradscope.tui.panes.verdict import draw_verdict
from gradscope.tui.view import LogLine, RunView
from tests.tui.views import finished_view, gpu_view, oom_view, starting_view, status, view


def header(shown: RunView, width: int = 80, **options: Any) -> list[str]:
    rows = draw_header(shown, width, options.pop("glyphs", UNICODE), **options)
    assert [sum(len(span.text) for span in row) for row in rows] == [width, width]
    return [line.rstrip() for line in plain(rows).splitlines()]


def test_it_names_the_run_and_says_how_far_it_is():
    assert header(view()) == [
        " llama-tiny · adam · standard           cpu, 2 threads  step  38/120  0:08 left",
        " ▶ measuring ██████████░░░░░░░░░░░░░░░░░░░░░░  32 %  median 100 ms  10.0 step/s",
    ]


def test_a_wide_one_names_the_card():
    assert "cuda:0 Test Card 24  step  38/120" in header(gpu_view(), 160)[0]


@pytest.mark.parametrize(
    ("stage", "state", "doing", "done", "planned"),
    [
        (Stage.WARMUP, Status.WARMUP, "warm-up", 1, 2),
        (Stage.MEASURE, Status.MEASURING, "measuring", 38, 120),
        (Stage.PROFILE, Status.PROFILING, "profiling", 1, 2),
    ],
)
def test_stages_are_told_with_their_own_counts(
    stage: Stage, state: Status, doing: str, done: int, planned: int
) -> None:
    shown = view(stage=stage, status=status(state), doing=doing, stage_done=done, stage_planned=planned)
    first, second = header(shown)
    assert f"step {done:>{len(str(planned))}}/{planned}" in first
    assert second.startswith(f" ▶ {doing}")


def test_a_run_without_a_number_of_steps_tells_the_step_alone():
    assert "step 38  0:08 left" in header(view(stage_planned=None))[0]


def test_a_run_that_says_nothing_any_more_says_so_in_place_of_its_rate():
    line = header(view(silent_seconds=14.4))[1]
    assert "no step for 14 s" in line
    assert "step/s" not in line


@pytest.mark.parametrize(
    ("seconds", "median_ms", "expected"),
    [(4.9, 100.0, None), (5.0, 100.0, "no step for 5 s"), (20.0, 6000.0, None), (31.0, 6000.0, "no step for 31 s")],
)
def test_silence_is_judged_by_the_runs_own_steps(seconds: float, median_ms: float, expected: str | None) -> None:
    assert silence(view(silent_seconds=seconds, median_step_ms=median_ms)) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(20.0, None), (130.0, "no sign for 2 min 10 s")])
def test_building_and_writing_up_may_take_longer(seconds: float, expected: str | None) -> None:
    shown = view(status=status(Status.EXPORTING), doing="writing up", silent_seconds=seconds)
    assert silence(shown) == expected


def test_a_run_that_is_over_is_never_silent():
    assert silence(finished_view(silent_seconds=900.0)) is None


def test_a_problem_with_the_folder_is_told_first_and_cut_rather_than_left_out():
    gone = "the run directory is gone: somebody moved or deleted it while it was looked at"
    line = header(view(problems=(gone,), silent_seconds=20.0))[1]
    assert line.startswith(" ▶ measuring   the run directory is gone: somebody moved or deleted")
    assert line.endswith("…")


def test_a_note_takes_the_place_of_the_rate():
    line = header(view(), note="paused, 12 steps behind")[1]
    assert "paused, 12 steps behind" in line
    assert "step/s" not in line


@pytest.mark.parametrize("width", [20, 40, 79, 80, 160, 300])
@pytest.mark.parametrize("shown", [view(), gpu_view(), oom_view(), starting_view()])
def test_it_fits_any_width_and_keeps_the_name(shown: RunView, width: int) -> None:
    assert "llam" in header(shown, width)[0]


def test_ascii_has_no_other_characters():
    assert all(line.isascii() for line in header(view(silent_seconds=14.0), glyphs=ASCII))


def test_foreign_names_are_literal_and_one_cell_a_character():
    shown = view(preset_name="[/red]\x1b[2J\N{CJK UNIFIED IDEOGRAPH-6F22}", preset=None)
    assert "[/red]\\e[2J?" in header(shown)[0]


def verdict(shown: RunView, width: int = 80, most: int = 12) -> list[str]:
    return [line.rstrip() for line in plain(draw_verdict(shown, width, most, UNICODE)).splitlines()]


def test_a_running_run_has_no_verdict():
    assert verdict(view()) == []


def test_a_run_that_is_done_says_what_it_came_to_and_where_to_go_on():
    assert verdict(finished_view(), 120) == [
        " done: last loss -2.25 · median step 100 ms · peak 1000 MiB · gradient audit passed · 1 trace".ljust(106)
        + "enter results"
    ]


def test_numbers_that_do_not_fit_are_left_out_whole():
    assert verdict(finished_view(), 60)[0] == " done: last loss -2.25 · median step 100 ms   enter results"


def test_a_failed_run_shows_its_reason_its_hint_and_the_end_of_its_log():
    lines = verdict(oom_view(), 100)
    assert lines[0].startswith(" oom: out of memory at step 3, backward: 5.10 of 24.0 GiB free")
    assert lines[0].endswith("enter results")
    assert lines[1:] == [
        "   memory.accumulate=4 with memory.mode=split needs a quarter of the activations",
        "   /runs/llama-tiny/20270115T080000Z-0a1b2c/worker.log",
        "   │ Traceback (most recent call last):",
        "   │ torch.OutOfMemoryError: CUDA out of memory.",
    ]


def test_a_failed_run_without_a_reason_says_that():
    shown = finished_view(status=status(Status.FAILED), log=())
    assert verdict(shown)[0].startswith(" failed: no reason is known")
    assert verdict(shown)[1].endswith("worker.log is empty")


def test_the_log_shares_what_room_there_is():
    shown = oom_view(log=tuple(LogLine(f"line {number}") for number in range(50)))
    lines = verdict(shown, 100, most=6)
    assert len(lines) == 6
    assert lines[-1] == "   │ line 49"
