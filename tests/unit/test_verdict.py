"""What a run came to, from every kind of ending."""

import signal
from dataclasses import replace

import pytest

from gradscope.core.events import TrainingFailed
from gradscope.core.status import Status
from gradscope.launch.grace import Asker, Stop
from gradscope.launch.oom import MemoryFigures
from gradscope.launch.verdict import LOG_HINT, SILENT_HINT, Ending, Verdict, decide

STOP = Stop(asker=Asker.REQUEST, asked_at=1.0)
LOW = MemoryFigures(resident_bytes=3 << 30, available_bytes=4, total_bytes=100)
ENOUGH = MemoryFigures(resident_bytes=3 << 30, available_bytes=5, total_bytes=100)


def failure(message: str = "m", **fields: object) -> TrainingFailed:
    given = {"error_type": "ValueError", "message": message, "out_of_memory": False} | fields
    return TrainingFailed(seq=0, t_ns=0, **given)  # type: ignore[arg-type]


def outcome(ending: Ending) -> tuple[Status, int]:
    verdict = decide(ending)
    if verdict.status is not Status.DONE:
        assert verdict.reason
        assert verdict.hint
    return verdict.status, verdict.exit_code


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (Ending(returncode=0, last_word="finished"), (Status.DONE, 0)),
        (Ending(returncode=0, last_word="finished", stop=STOP), (Status.DONE, 0)),
        (Ending(returncode=0, last_word="stopped", stop=STOP), (Status.CANCELLED, 4)),
        (Ending(returncode=0, last_word="stopped", stop=replace(STOP, signal=2)), (Status.CANCELLED, 130)),
        (Ending(returncode=0, last_word="stopped", stop=replace(STOP, signal=1)), (Status.CANCELLED, 129)),
        (Ending(returncode=-15, stop=STOP), (Status.CANCELLED, 4)),
        (Ending(returncode=-9, stop=STOP, killed_by_us=True), (Status.CANCELLED, 4)),
        (Ending(returncode=0, last_word="stopped"), (Status.CANCELLED, 4)),
        (Ending(returncode=1, last_word="failed", failure=failure()), (Status.FAILED, 1)),
        (Ending(returncode=1, last_word="failed", failure=failure(), stop=STOP), (Status.FAILED, 1)),
        (Ending(returncode=2, failure=failure(exit_code=2)), (Status.FAILED, 2)),
        (Ending(returncode=6, failure=failure(exit_code=6)), (Status.FAILED, 6)),
        (Ending(returncode=3, failure=failure(out_of_memory=True, exit_code=3)), (Status.OOM, 3)),
        (Ending(returncode=-9, kernel_killed=True), (Status.OOM, 3)),
        (Ending(returncode=-9, kernel_killed=None, memory=LOW), (Status.OOM, 3)),
        (Ending(returncode=-9, kernel_killed=None, memory=ENOUGH), (Status.KILLED, 137)),
        (Ending(returncode=-9, kernel_killed=False, memory=LOW), (Status.KILLED, 137)),
        (Ending(returncode=-15), (Status.CANCELLED, 143)),
        (Ending(returncode=-10), (Status.KILLED, 138)),
        (Ending(returncode=-11), (Status.FAILED, 1)),
        (Ending(returncode=-6), (Status.FAILED, 1)),
        (Ending(returncode=3), (Status.OOM, 3)),
        (Ending(returncode=9), (Status.FAILED, 1)),
        (Ending(returncode=0), (Status.FAILED, 1)),
        (Ending(returncode=1, disk_full=True), (Status.FAILED, 1)),
    ],
)
def test_endings(ending: Ending, expected: tuple[Status, int]) -> None:
    assert outcome(ending) == expected


def test_a_kernel_kill_names_the_memory_last_seen_and_a_remedy() -> None:
    verdict = decide(Ending(returncode=-9, kernel_killed=True, memory=ENOUGH))
    assert verdict.reason == (
        "the kernel killed the worker: memory was full (its resident memory was last seen at 3.00 GiB)"
    )
    assert verdict.hint is not None
    assert "data.batch_size" in verdict.hint
    assert verdict.signal == signal.SIGKILL


def test_a_loader_process_killed_by_the_kernel_is_out_of_memory() -> None:
    said = failure("a loader process is gone: DataLoader worker (pid 7) is killed by signal: Killed.")
    assert outcome(Ending(returncode=1, failure=said, kernel_killed=True)) == (Status.OOM, 3)
    assert outcome(Ending(returncode=1, failure=said, kernel_killed=False)) == (Status.FAILED, 1)
    assert outcome(Ending(returncode=1, failure=failure("something else"), kernel_killed=True)) == (Status.FAILED, 1)


def test_reasons_hold_what_was_said_where_and_nothing_a_terminal_obeys() -> None:
    said = failure("bad \x1b[2J [/red]", step=4, phase="forward")
    assert decide(Ending(returncode=1, failure=said)).reason == "ValueError at step 4 in forward: bad \\e[2J [/red]"
    told = failure("the loss is nan at step 4", error_type="GradscopeError", step=4, hint="lower the rate")
    assert decide(Ending(returncode=1, failure=told)) == Verdict(
        status=Status.FAILED, exit_code=1, reason="the loss is nan at step 4", hint="lower the rate"
    )
    assert decide(Ending(returncode=1, log_end=["x\x07"])).reason == (
        "the worker left with exit code 1 before it was done: x\\x07"
    )


def test_a_stop_says_why_and_whether_force_was_needed() -> None:
    limit = Stop(asker=Asker.TIME_LIMIT, asked_at=1.0)
    assert decide(Ending(returncode=0, stop=limit, time_limit_seconds=60.0)).reason == (
        "it was stopped at its time limit of 60 s"
    )
    slow = Ending(returncode=-9, stop=replace(STOP, signal=15), killed_by_us=True)
    assert decide(slow).reason == (
        "it was stopped by SIGTERM; the worker did not end its step within 7 s and was killed"
    )


def test_a_full_disk_is_named_with_its_remedy() -> None:
    verdict = decide(Ending(returncode=1, disk_full=True, log_end=["OSError: [Errno 28]"]))
    assert verdict.reason == "the disk that holds the run directory is full"
    assert verdict.hint == "free some space there, or choose another output root with --out"


def test_a_worker_that_left_without_a_word_is_not_looked_up_in_its_empty_log() -> None:
    assert decide(Ending(returncode=9)).hint == SILENT_HINT
    assert decide(Ending(returncode=9, log_end=["last words"])).hint == LOG_HINT
