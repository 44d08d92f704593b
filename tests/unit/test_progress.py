"""What a follower shows: a bar with the time left, at most so often, and nothing that a terminal would obey."""

import io
import signal
from pathlib import Path

import pytest

from gradscope.analysis.progress import Progress, Standing
from gradscope.cli import follow as follow_module
from gradscope.cli.display import CLEAR, Display
from gradscope.cli.follow import DetachPolicy, Leave, StopPolicy, report
from gradscope.config.schema import BudgetSettings, Preset, ProfileSettings, RunSettings
from gradscope.core.events import (
    AnyEvent,
    Audited,
    Note,
    Phases,
    ProfileEnded,
    ProfileStarted,
    Stage,
    StageEntered,
    Step,
)
from gradscope.core.status import Status, StatusRecord
from gradscope.rundir.handle import RunHandle

PRESET = Preset(name="p", run=RunSettings(warmup=1), budget=BudgetSettings(updates=6), profile=ProfileSettings(steps=2))


def step(
    number: int, stage: Stage, wall_ms: float = 500.0, loss: float | None = 2.0, nonfinite: str | None = None
) -> Step:
    phases = Phases(data=0, forward=1, backward=1, optimizer=1, other=0)
    return Step(
        seq=number,
        t_ns=0,
        step=number,
        stage=stage,
        wall_ms=wall_ms,
        phases=phases,
        loss=loss,
        samples=1,
        nonfinite=nonfinite,
    )


def after(preset: Preset | None, *events: AnyEvent) -> Progress:
    progress = Progress(preset)
    for event in events:
        progress.take(event)
    return progress


def entered(stage: Stage, steps: int | None) -> StageEntered:
    return StageEntered(seq=0, t_ns=0, stage=stage, steps=steps)


def test_the_time_left_is_that_of_all_steps_to_come() -> None:
    progress = after(
        PRESET,
        entered(Stage.WARMUP, 1),
        step(1, Stage.WARMUP),
        entered(Stage.MEASURE, 6),
        step(2, Stage.MEASURE),
        step(3, Stage.MEASURE),
    )
    assert progress.seconds_left() == 3.5  # 4 measured, 1 for memory, 2 profiled, at 0.5 s
    assert progress.line(Status.MEASURING) == (
        "measuring  2/6  run [###-------] 30 %  3.50 s left  step 500 ms  loss 2"
    )


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (71, "measuring  2/6  run [###-------] 30 %  3.50 s left  step 500 ms  loss 2"),
        (70, "measuring  2/6  run [###-------] 30 %  3.50 s left  loss 2"),
        (57, "measuring  2/6  3.50 s left  loss 2"),
        (34, "measuring  3.50 s left  loss 2"),
        (9, "measuring  3.50 s left  loss 2"),
    ],
)
def test_a_narrow_terminal_keeps_the_time_left_and_the_loss(columns: int, line: str) -> None:
    steps = [step(number, Stage.MEASURE) for number in (2, 3)]
    progress = after(PRESET, entered(Stage.WARMUP, 1), step(1, Stage.WARMUP), entered(Stage.MEASURE, 6), *steps)
    assert progress.line(Status.MEASURING, columns) == line


def test_slow_steps_of_the_warm_up_do_not_count_once_there_are_measured_ones() -> None:
    progress = after(PRESET, entered(Stage.WARMUP, 1), step(1, Stage.WARMUP, 9000.0), entered(Stage.MEASURE, 6))
    assert progress.seconds_left() == 9 * 9.0
    progress.take(step(2, Stage.MEASURE, 1000.0))
    assert progress.seconds_left() == 8 * 1.0


def test_a_budget_of_seconds_counts_down() -> None:
    preset = Preset(name="p", budget=BudgetSettings(seconds=10.0), profile=ProfileSettings(steps=0))
    progress = after(preset, entered(Stage.MEASURE, None), step(1, Stage.MEASURE, 2000.0))
    # 8 of 10 measured seconds, three steps of warm-up that did not come, and the one for memory
    assert progress.seconds_left() == 8.0 + 4 * 2.0


def test_where_a_run_stands_is_what_its_line_says() -> None:
    steps = [step(number, Stage.MEASURE) for number in (2, 3)]
    progress = after(PRESET, entered(Stage.WARMUP, 1), step(1, Stage.WARMUP), entered(Stage.MEASURE, 6), *steps)
    assert progress.standing(Status.MEASURING) == Standing(
        doing="measuring", stage=Stage.MEASURE, stage_done=2, stage_planned=6, share_done=0.3, seconds_left=3.5
    )
    assert progress.standing(Status.EXPORTING) == Standing("writing up", Stage.MEASURE, 2, 6, None, None)
    assert progress.standing(Status.DONE) == Standing("done", Stage.MEASURE, 2, 6, 1.0, None)
    assert progress.standing(Status.OOM) == Standing("oom", Stage.MEASURE, 2, 6, 0.3, None)
    assert progress.standing(Status.UNKNOWN) == Standing("unknown", Stage.MEASURE, 2, 6, 0.3, None)
    progress.take(entered(Stage.AUDIT, None))
    assert progress.standing(Status.AUDITING) == Standing("audit", Stage.AUDIT, 0, None, None, None)


def test_before_the_worker_speaks_a_run_is_starting() -> None:
    assert Progress(PRESET).standing(Status.STARTING) == Standing("starting", None, 0, None, None, None)


def test_a_window_that_was_asked_for_is_counted_by_itself_and_comes_on_top() -> None:
    progress = after(PRESET, entered(Stage.WARMUP, 1), step(1, Stage.WARMUP), entered(Stage.MEASURE, 6))
    for number in (1, 2):
        opened = ProfileStarted(seq=0, t_ns=0, window=number, first_step=2, steps=4, wall_ns=0, requested=True)
        for event in (entered(Stage.PROFILE, 4), opened, step(2, Stage.PROFILE), step(3, Stage.PROFILE)):
            progress.take(event)
        now = progress.standing(Status.PROFILING)
        assert (now.stage_done, now.stage_planned) == (2, 4)
        assert now.seconds_left == 0.5 * (6 + 1 + 2)
        progress.take(ProfileEnded(seq=0, t_ns=0, window=number, steps=2, wall_ns=0))
        progress.take(entered(Stage.MEASURE, 6))
        assert progress.standing(Status.MEASURING).seconds_left == 0.5 * (6 + 1 + 2)  # the preset's own two too


def test_before_the_first_step_nothing_is_foretold() -> None:
    progress = after(PRESET, entered(Stage.WARMUP, 1))
    assert progress.seconds_left() is None
    assert progress.line(Status.WARMUP) == "warm-up  0/1"
    assert Progress(None).line(Status.STARTING) == "starting"
    assert progress.line(Status.EXPORTING) == "writing up"


def test_a_loss_that_is_no_number_is_shown_as_what_it_is() -> None:
    progress = after(PRESET, entered(Stage.MEASURE, 6), step(1, Stage.MEASURE, loss=None, nonfinite="nan"))
    assert progress.line(Status.MEASURING).endswith("loss nan")


def test_remarks_get_a_line_each_without_control_characters() -> None:
    progress = Progress(None)
    assert progress.take(Note(seq=0, t_ns=0, code="c", message="a\x1b[2Jb")) == "note: a\\e[2Jb"
    assert progress.take(ProfileEnded(seq=0, t_ns=0, window=1, steps=2, wall_ns=0, error="no")) == (
        "note: no trace of window 1: no"
    )
    assert progress.take(Audited(seq=0, t_ns=0, error=0.5, bound=0.1, passed=False)) == (
        "note: the gradient audit failed: error 0.5"
    )
    assert progress.take(Audited(seq=0, t_ns=0, error=0.0, bound=0.1, passed=True)) is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_gets_one_line_at_most_four_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = Terminal(), Clock()
    display = Display(stream=stream, now=clock)
    for _ in range(100):
        display.progress("measuring 1")
        clock.now += 0.01
    assert stream.getvalue() == f"{CLEAR}measuring 1" * 4
    display.note("a note")
    assert stream.getvalue().endswith(f"{CLEAR}a note\n")


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb"), (Terminal(), "")])
def test_elsewhere_lines_come_at_stages_and_every_ten_seconds(
    stream: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    clock = Clock()
    display = Display(stream=stream, now=clock)
    for second in range(25):
        clock.now = float(second)
        display.progress(f"measuring {second}" if second else "warm-up")
    display.clear()
    assert stream.getvalue() == "warm-up\nmeasuring 1\nmeasuring 11\nmeasuring 21\n"


def test_quiet_shows_errors_only_and_a_closed_terminal_is_no_error() -> None:
    stream = io.StringIO()
    display = Display(stream=stream, quiet=True)
    display.progress("measuring")
    display.note("note")
    display.say("failed")
    assert stream.getvalue() == "failed\n"
    stream.close()
    display.say("nobody reads this")


def test_no_note_holds_an_escape_sequence_of_somebody_elses() -> None:
    stream = io.StringIO()
    Display(stream=stream).note("run in /tmp/\x1b[31mred")
    assert stream.getvalue() == "run in /tmp/\\e[31mred\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, bool]]:
    calls: list[tuple[int | None, bool]] = []
    monkeypatch.setattr(
        follow_module, "ask_to_stop", lambda handle, *, signal, kill=False: calls.append((signal, kill))
    )
    return calls


def test_signals_to_a_run_stop_it_then_kill_it_then_leave(asked: list[tuple[int | None, bool]]) -> None:
    clock = Clock()
    policy = StopPolicy(RunHandle(Path("run")), Display(quiet=True, stream=io.StringIO()), terminal=True, now=clock)
    policy(signal.SIGINT)
    clock.now = 1.0
    policy(signal.SIGINT)
    assert asked == [(2, False), (2, True)]
    clock.now = 2.0
    with pytest.raises(Leave) as leave:
        policy(signal.SIGINT)
    assert leave.value.exit_code == 130


def test_signals_that_come_together_are_one(asked: list[tuple[int | None, bool]]) -> None:
    clock = Clock()
    policy = StopPolicy(RunHandle(Path("run")), Display(quiet=True, stream=io.StringIO()), terminal=False, now=clock)
    policy(signal.SIGTERM)
    clock.now = 0.1
    policy(signal.SIGHUP)
    assert asked == [(15, False)]


def test_a_hang_up_ends_the_follower_in_a_terminal_and_the_run_without_one(
    asked: list[tuple[int | None, bool]],
) -> None:
    display = Display(quiet=True, stream=io.StringIO())
    with pytest.raises(Leave) as leave:
        StopPolicy(RunHandle(Path("run")), display, terminal=True)(signal.SIGHUP)
    assert (leave.value.exit_code, asked) == (129, [])
    StopPolicy(RunHandle(Path("run")), display, terminal=False)(signal.SIGHUP)
    assert asked == [(1, False)]


def test_signals_to_attach_only_detach(asked: list[tuple[int | None, bool]]) -> None:
    stream = io.StringIO()
    with pytest.raises(Leave) as leave:
        DetachPolicy(RunHandle(Path("run-1")), Display(stream=stream))(signal.SIGINT)
    assert (leave.value.exit_code, asked) == (0, [])
    assert stream.getvalue() == "run goes on; gradscope attach run-1\n"


def test_a_failed_run_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_bytes(b"Traceback:\n\tValueError \x1b[31mred\n")
    stream = io.StringIO()
    record = StatusRecord(
        status=Status.FAILED,
        host="h",
        boot_id="b",
        updated_wall_ns=0,
        updated_monotonic_ns=0,
        reason="it broke [/red]\x07",
        hint="mend it",
        notes=("by the way",),
    )
    report(RunHandle(tmp_path), record, Display(stream=stream))
    assert stream.getvalue().splitlines() == [
        "note: by the way",
        "failed: it broke [/red]\\x07",
        "  mend it",
        f"  {tmp_path / 'worker.log'}:",
        "  | Traceback:",
        "  | \tValueError \\e[31mred",
    ]
