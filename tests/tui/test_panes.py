"""Each pane draws a view into any rectangle, shows exact numbers, and says what is missing and why."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from gradscope.core.samples import SamplerStarted
from gradscope.core.text import display_width
from gradscope.tui.charts.cells import Span, plain
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.panes.base import Drawn, Look
from gradscope.tui.panes.registry import PANES
from gradscope.tui.view import LogLine, Remark, RunView
from tests.builders import MIB, MONOTONIC_START_NS, WALL_START_NS
from tests.tui.views import (
    CARD,
    GIB,
    allocator,
    finished_view,
    gpu_columns,
    gpu_view,
    host_columns,
    oom_view,
    starting_view,
    step_columns,
    view,
    window,
)

SIZES = [(78, 17), (38, 6), (18, 1), (9, 3), (1, 1), (0, 0)]

VIEWS = {
    "starting": starting_view(),
    "first step": view(steps=step_columns(1)),
    "running": view(),
    "on a card": gpu_view(),
    "done": finished_view(),
    "out of memory": oom_view(),
    "without samples": view(host=host_columns(0), core_busy_pct=()),
    "without a preset": view(preset=None, started=None, built=None, categories=None, sampler=None),
}


def draw(name: str, shown: RunView, size: tuple[int, int] = (78, 17), **look: Any) -> Drawn:
    drawn = PANES[name].draw(shown, *size, Look(look.pop("glyphs", UNICODE), **look))
    assert [sum(display_width(span.text) for span in row) for row in drawn.rows] == [size[0]] * size[1]
    return drawn


def text_of(name: str, shown: RunView, size: tuple[int, int] = (78, 17), **look: Any) -> str:
    return plain(draw(name, shown, size, **look).rows)


def meter(name: str, shown: RunView, width: int = 72, **look: Any) -> str:
    row = PANES[name].meter(shown, width, Look(look.pop("glyphs", UNICODE), **look))
    assert sum(len(span.text) for span in row) == width
    return plain([row]).rstrip()


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("shown", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("name", PANES)
def test_every_pane_fits_every_rectangle_in_every_state(name: str, shown: RunView, glyphs: Any) -> None:
    for size in SIZES:
        for metric, cursor in enumerate((None, 1, 7, 4000)):
            drawn = draw(name, shown, size, cursor=cursor, metric=metric, glyphs=glyphs, logarithmic=metric == 0)
            assert glyphs.unicode or plain(drawn.rows).isascii()
        assert glyphs.unicode or meter(name, shown, size[0], glyphs=glyphs).isascii()


@pytest.mark.parametrize("name", PANES)
def test_every_pane_fills_a_very_large_rectangle(name: str) -> None:
    draw(name, finished_view(), (300, 80))


def layers(drawn: Drawn, x: int) -> str:
    """Return the characters of one column, from the bottom up, without the line of steps."""
    return "".join(plain([row])[x] for row in drawn.rows[-2::-1])


# memory


def test_memory_categories_are_stacked_and_told_beside_the_chart():
    drawn = draw("memory", view(), (78, 13))
    assert layers(drawn, 12) == "█▒░▞▞▞▞▇    "
    assert "activations, saved  600 MiB" in plain(drawn.rows)
    assert "optimizer state     200 MiB" in plain(drawn.rows)
    assert "sum of these       1005 MiB" in plain(drawn.rows)


def test_memory_measured_once_is_said_to_be_carried_over():
    assert draw("memory", view()).figures == ("sum 1005 MiB", "free 16.0 GiB", "of step 2, carried over")
    assert "of step 2, carried over" in text_of("memory", view())
    assert draw("memory", view(), cursor=20).figures[0] == "step 20 carried over"


def test_memory_before_it_was_measured_says_when_it_will_be():
    shown = view(categories=None, steps=step_columns(1))
    assert "memory is measured in the last step of the warm-up" in text_of("memory", shown, (158, 17))


def test_a_cpu_run_shows_resident_memory_since_the_workers_start_and_what_the_host_has_left():
    text = text_of("memory", view())
    assert "resident           1.00 GiB" in text
    assert "since its start  +824 MiB" in text
    assert "free on the host   16.0 GiB" in text


def test_a_card_shows_reserved_memory_nvmls_figure_the_limit_and_the_headroom():
    text = text_of("memory", gpu_view())
    for line in (
        "peak of the step   6.00 GiB",
        "reserved           8.00 GiB",
        "card, by NVML      9.00 GiB",
        "this run's       8.50 GiB",
        "card's limit       24.0 GiB",
        "free               15.0 GiB",
    ):
        assert line in text
    assert draw("memory", gpu_view()).figures == ("peak 6.00 GiB", "free 15.0 GiB")


def test_headroom_is_counted_from_reserved_memory_where_nvml_says_nothing():
    shown = gpu_view(gpus={CARD: gpu_columns(used_bytes=None, process_bytes=None)})
    assert draw("memory", shown).figures == ("peak 6.00 GiB", "free 16.0 GiB")
    assert "card, by NVML           n/a" in text_of("memory", shown)


def test_what_a_step_needs_beyond_the_measured_categories_is_called_other():
    shown = gpu_view(steps=step_columns(gpu=True, allocated_peak_bytes=lambda step: (6.5 if step == 9 else 6) * GIB))
    assert "other               512 MiB" in text_of("memory", shown, cursor=9)
    assert "other" not in text_of("memory", shown, cursor=10)
    assert draw("memory", shown, cursor=9).figures[:2] == ("step 9 6.50 GiB", "peak 6.50 GiB")


def test_a_step_smaller_than_the_measured_categories_is_no_taller_than_it_was():
    shown = gpu_view(steps=step_columns(gpu=True, allocated_peak_bytes=5 * GIB))
    text = text_of("memory", shown)
    assert "activations, saved 1.00 GiB" in text
    assert "peak of the step   5.00 GiB" in text


def test_peaks_by_phase_are_told_and_the_highest_is_marked():
    text = text_of("memory", finished_view(), (78, 20))
    assert "peak by phase" in text
    assert "▸ backward           1000 MiB" in text
    assert "  forward             900 MiB" in text


def test_the_limit_is_the_one_nvml_gave_where_the_worker_said_none():
    shown = gpu_view()
    assert shown.started is not None
    assert shown.sampler is not None
    silent = replace(shown, started=structs.replace(shown.started, device_memory_bytes=None))
    assert "card's limit       24.0 GiB" in text_of("memory", silent)
    assert "card's limit       24.0 GiB" in text_of("memory", replace(silent, own_gpu=None))
    other = [card | {"device": "cuda:1", "uuid": "GPU-other"} for card in shown.sampler.gpus]
    assert "card's limit            n/a" in text_of(
        "memory", replace(silent, sampler=structs.replace(shown.sampler, gpus=other))
    )


def test_the_limit_is_a_line_in_the_second_metric():
    drawn = draw("memory", gpu_view(), metric=1)
    assert drawn.name == "memory against its limit"
    assert any(span.style == "limit" for row in drawn.rows for span in row)
    assert "r reserved           8.00 GiB" in plain(drawn.rows)


def test_the_memory_line_names_the_larger_categories():
    assert meter("memory", view()).startswith("1005 MiB  ")
    assert "█ par 10 %" in meter("memory", view())
    assert meter("memory", view()).endswith("free 16.0 GiB")
    assert meter("memory", view(categories=None)) == "not measured yet  free 16.0 GiB"


# step time


def test_phases_are_stacked_in_the_order_of_a_step():
    steps = step_columns(40, wall_ms=100.0, data=10.0, forward=30.0, backward=40.0, optimizer=15.0, other=5.0)
    drawn = draw("time", view(steps=steps), (78, 11))
    assert layers(drawn, 12) == "█▒▒░░▞▅   "


def test_the_legend_is_of_the_median_of_measured_steps_and_the_title_of_all_of_them():
    drawn = draw("time", view(median_step_ms=99.0))
    assert drawn.figures == ("median 99.0 ms",)
    assert "forward       30.0 ms  30 %" in plain(drawn.rows)
    assert "median of 38" in plain(drawn.rows)


def test_the_cursor_gives_the_exact_numbers_of_its_step():
    drawn = draw("time", view(), cursor=1)
    assert drawn.figures[0] == "step 1 200 ms"
    assert "backward      80.0 ms  40 %" in plain(drawn.rows)


def test_profiled_steps_are_hatched_and_left_out():
    drawn = draw("time", finished_view(), (158, 17))
    last = max(x for x in range(128) if layers(drawn, x).startswith(UNICODE.profiled))
    assert set(layers(drawn, last).strip()) == {UNICODE.profiled}
    assert f"{UNICODE.profiled} 2 profiled, not counted" in plain(drawn.rows)
    assert drawn.figures == ("median 100 ms",)
    assert draw("time", finished_view(), cursor=125).figures[:2] == ("step 125 300 ms", "profiled, not counted")


def test_a_narrow_pane_tells_of_profiled_steps_in_its_title():
    assert "2 profiled left out" in draw("time", finished_view(), (38, 8)).figures


def test_recomputation_is_a_part_of_backward_and_said_to_be():
    steps = step_columns(40, backward=40.0, recompute=12.0)
    text = text_of("time", view(steps=steps))
    assert "backward      40.0 ms  40 %" in text
    assert "recompute     12.0 ms  12 %" in text
    assert "recompute is in backward" in text
    assert "bwd 40 %" in meter("time", view(steps=steps))
    assert "in it recomp 12 %" in meter("time", view(steps=steps))


def test_shares_end_at_a_hundred_percent():
    drawn = draw("time", view(), metric=1)
    assert drawn.name == "step time, share of phases"
    assert plain(drawn.rows).lstrip().startswith("100 %")


def test_the_time_line_is_of_shares():
    line = meter("time", view())
    assert line.startswith("  100 ms  ")
    assert "▒ fwd 30 %  ░ bwd 40 %" in line


# utilization


def test_a_card_is_four_strips_with_exact_figures():
    text = text_of("utilization", gpu_view())
    for words in (
        "GPU busy               80 %",
        "memory busy            40 %",
        "power                 250 W",
        "of 450 W limit",
    ):
        assert words in text
    assert "clock              1500 MHz" in text
    assert "not throttled" in text
    assert "60 °C" in text


def test_throttling_is_told_with_its_reasons_and_marked():
    shown = gpu_view(
        gpus={CARD: gpu_columns(throttled=lambda number: int(number > 20))}, throttle_reasons=("sw power cap",)
    )
    drawn = draw("utilization", shown)
    assert "throttled: sw power cap" in plain(drawn.rows)
    assert any(span.style == "limit" for row in drawn.rows for span in row)
    assert "not throttled" in text_of("utilization", shown, cursor=3)


def test_figures_a_card_does_not_report_are_missing_and_not_zero():
    columns = gpu_columns(power_w=None, temperature_c=None, sm_clock_mhz=None, throttled=None)
    text = text_of("utilization", gpu_view(gpus={CARD: columns}))
    assert "power                   n/a" in text
    assert "throttling unknown" in text


def test_without_a_card_there_are_cores_resident_memory_and_the_reason_with_its_remedy():
    text = text_of("utilization", view())
    assert "CPU of the run        150 %" in text
    assert "resident memory    1.00 GiB" in text
    assert "core 0 " in text
    assert "90 %" in text
    assert "no GPU: NVML library not found (driver not installed?)" in text


def test_many_cores_are_a_block_each():
    text = text_of("utilization", view(core_busy_pct=(0.0, 50.0, 100.0, 99.0) * 16))
    assert "64 cores  ▄██ ▄██" in text


def test_devices_are_gone_through_the_runs_own_first():
    other = "GPU-other"
    shown = gpu_view(gpus={other: gpu_columns(gpu_busy_pct=5.0), CARD: gpu_columns()})
    names = [draw("utilization", shown, device=device).name for device in range(4)]
    assert names[0] == "utilization of cuda:0 Test Card 24, the run's own"
    assert names[1:] == ["utilization of GPU-other", "utilization of the host", names[0]]
    assert "device 2 of 3" in draw("utilization", shown, device=1).figures


def test_the_cursor_gives_the_sample_taken_while_its_step_ran():
    host = host_columns(40, step=lambda number: number - 1 if number > 1 else None, tree_cpu_pct=lambda number: number)
    assert "CPU of the run         20 %" in text_of("utilization", view(host=host), cursor=20)


def test_steps_shorter_than_a_sample_share_it():
    host = host_columns(4, step=lambda number: number * 10, tree_cpu_pct=100.0)
    drawn = draw("utilization", view(host=host), (78, 17))
    top = next(plain([row]) for row in drawn.rows if "CPU of the run" in plain([row]))
    below = plain(drawn.rows).splitlines()[plain(drawn.rows).splitlines().index(top) + 3]
    assert " " not in below[8:30]


def test_the_utilization_line_tells_why_there_is_no_card():
    assert meter("utilization", view(), 100).endswith("no GPU: NVML library not found (driver not installed?)")
    assert "mem 40 %  pow 250 W" in meter("utilization", gpu_view())


def test_reasons_are_foreign_text():
    sampler = SamplerStarted(
        t_ns=MONOTONIC_START_NS, wall_ns=WALL_START_NS, interval_ms=100.0, no_gpu_reason="[/red]\x1b[2J"
    )
    assert "no GPU: [/red]\\e[2J" in text_of("utilization", view(sampler=sampler))


# loss


def test_the_loss_pane_tells_loss_rates_and_why_there_is_no_energy():
    drawn = draw("loss", view())
    assert (drawn.name, drawn.figures) == ("loss, linear", ("loss 2", "10.0 k tokens/s"))
    text = plain(drawn.rows)
    assert "first                  3.95" in text
    assert "samples/s                80" in text
    assert "energy per step         n/a" in text
    assert "no GPU" in text


def test_the_cursor_gives_loss_and_rates_of_its_step():
    assert draw("loss", view(), cursor=1).figures == ("step 1 loss 3.95", "5.00 k tokens/s")


def test_the_loss_has_a_logarithmic_axis():
    steps = step_columns(40, loss=lambda step: 10.0 ** (-step / 10))
    drawn = draw("loss", view(steps=steps), logarithmic=True)
    assert drawn.name == "loss, log"
    assert "1e-4" in plain(drawn.rows) or "0.0001" in plain(drawn.rows)


def test_energy_per_step_is_nvmls_counter_over_measured_steps():
    drawn = draw("loss", gpu_view(), metric=3)
    assert drawn.name == "energy per step, from power"
    assert "energy per step        25 J" in plain(drawn.rows)
    assert "counter" in plain(drawn.rows)
    assert "energy per step        25 J" in text_of("loss", gpu_view(), cursor=20)
    assert "from power" in text_of("loss", gpu_view(), cursor=20)


def test_tokens_are_left_out_where_a_loss_is_over_samples():
    shown = view(steps=step_columns(tokens=None))
    assert "tokens" not in text_of("loss", shown)
    assert PANES["loss"].metrics(shown) == ["loss", "samples/s"]
    assert meter("loss", shown).endswith("80 samples/s")


# log


def test_remarks_stand_above_output_and_equal_lines_are_counted():
    shown = view(remarks=(Remark("note: loss 3.1x its median", step=40),))
    assert [line.rstrip() for line in text_of("log", shown).splitlines()[:3]] == [
        "▸ step 40: loss 3.1x its median",
        "Loading weights",
        f"UserWarning: use_cache is off {UNICODE.times}37",
    ]
    assert draw("log", shown).figures == ("38 lines", "1 remark")


def test_the_newest_lines_are_shown_and_older_ones_by_scrolling():
    shown = view(log=tuple(LogLine(f"line {number}") for number in range(100)))
    assert text_of("log", shown, (40, 3)).split() == ["line", "97", "line", "98", "line", "99"]
    assert text_of("log", shown, (40, 3), back=50).split()[-1] == "49"
    assert draw("log", shown, (40, 3), back=50).figures[0] == "50 back"
    assert text_of("log", shown, (40, 3), back=5000).split()[:2] == ["line", "0"]


def test_many_remarks_leave_room_for_the_output():
    shown = view(
        remarks=tuple(Remark(f"remark {number}") for number in range(50)),
        log=tuple(LogLine(f"line {number}") for number in range(50)),
    )
    lines = [line.rstrip() for line in text_of("log", shown, (40, 9)).splitlines()]
    assert lines == [f"▸ remark {number}" for number in (47, 48, 49)] + [f"line {number}" for number in range(44, 50)]


def test_wide_characters_and_escapes_stay_within_the_pane():
    shown = view(log=(LogLine("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 30), LogLine("\x1b[2J[/red]")))
    drawn = draw("log", shown, (21, 12))
    assert plain(drawn.rows).count("\N{CJK UNIFIED IDEOGRAPH-6F22}") == 30
    assert "\\e[2J[/red]" in plain(drawn.rows)


def test_the_log_line_is_the_newest_remark_or_the_last_of_the_output():
    assert meter("log", view()) == "UserWarning: use_cache is off"
    assert meter("log", view(remarks=(Remark("trace of 2 steps: a.json"),))) == "trace of 2 steps: a.json"
    assert meter("log", starting_view()) == "nothing yet"


# all of them


def test_a_pane_drawn_again_with_more_steps_keeps_the_cells_it_had():
    look = Look(UNICODE)
    steps = step_columns(60)
    early = replace(view(), steps=replace(steps, count=30))
    late = replace(early, steps=steps)
    for name in ("memory", "time"):
        before = PANES[name].draw(early, 78, 17, look).rows
        after = PANES[name].draw(late, 78, 17, look).rows
        same = [
            all(a == b for a, b in zip(plain([one])[:20], plain([two])[:20], strict=True))
            for one, two in zip(before, after, strict=True)
        ]
        assert all(same), name


def test_an_open_window_of_the_profiler_breaks_nothing():
    still_open = replace(window(), ended=None)
    shown = view(steps=step_columns(40, profiled=(40,)), windows=(still_open,))
    assert "1 profiled, not counted" in text_of("time", shown)


def test_rows_are_spans():
    assert all(isinstance(span, Span) for row in draw("memory", view(allocator=allocator())).rows for span in row)
    assert MIB * 1024 == GIB


def test_lines_of_torchs_own_probes_are_dim():
    lines = (LogLine("USDT: torch profiler_start [1]"), LogLine("USDT is a word"))
    rows = draw("log", view(log=lines, remarks=()), (60, 4)).rows
    styles = {span.text.strip(): span.style for row in rows for span in row if span.text.strip()}
    assert styles["USDT: torch profiler_start [1]"] == "dim"
    assert styles["USDT is a word"] == ""
