"""The supervisor's parts: deadlines, bounded logs, evidence of kernel kills, the reserve, notes of the finisher."""

import errno
import os
from pathlib import Path

import pytest

from gradscope.core.status import Status, StatusRecord
from gradscope.errors import GradscopeError
from gradscope.launch import supervisor
from gradscope.launch.drain import BoundedLog, Drain, last_lines
from gradscope.launch.finish import finish
from gradscope.launch.finisher import run_finisher
from gradscope.launch.grace import Asker, Stop, describe, merged, signal_name
from gradscope.launch.oom import counter_paths, parse_oom_kills
from gradscope.launch.statusfile import StatusFile, says_full
from gradscope.rundir.files import read_json
from gradscope.rundir.layout import RESERVE, STATUS


def test_a_stopped_run_is_over_within_ten_seconds_of_monotonic_time() -> None:
    stop = Stop(asker=Asker.SIGNAL, asked_at=100.0, signal=15)
    assert stop.worker_deadline() == 107.0
    assert stop.finish_deadline(now=101.0) == 109.5
    assert stop.finish_deadline(now=107.1) == pytest.approx(109.6)


def test_a_second_stop_is_more_urgent_and_keeps_the_first_reason() -> None:
    first = Stop(asker=Asker.SIGNAL, asked_at=100.0, signal=2)
    assert merged(None, first) is first
    assert merged(first, Stop(asker=Asker.TIME_LIMIT, asked_at=101.0)) is first
    urgent = merged(first, Stop(asker=Asker.REQUEST, asked_at=102.0, signal=15, kill=True))
    assert urgent == Stop(asker=Asker.SIGNAL, asked_at=102.0, signal=2, kill=True)
    assert urgent.worker_deadline() == 102.0
    assert urgent.finish_deadline(now=102.1) == pytest.approx(104.6)
    assert describe(urgent, None) == "it was stopped by SIGINT"


def test_signals_have_names() -> None:
    assert (signal_name(9), signal_name(63)) == ("SIGKILL", "signal 63")


def test_a_log_keeps_head_and_tail_and_says_what_it_left_out(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    log = BoundedLog(path, limit_bytes=100, head_bytes=20, tail_bytes=10)
    written = b"".join(bytes([65 + number]) * 30 for number in range(4))
    for start in range(0, 120, 30):
        log.write(written[start : start + 30])
    content = path.read_bytes()
    assert content.startswith(written[:20] + b"\n[gradscope: about 90 bytes of output left out here]\n")
    assert content.endswith(b"D" * 10)
    log.write(b"end")
    log.close()
    assert path.read_bytes() == content + b"end"
    assert log.error is None


def test_a_log_that_cannot_be_written_loses_nothing_it_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = BoundedLog(tmp_path / "worker.log")
    log.write(b"one\n")
    with monkeypatch.context() as patch:

        def full(descriptor: int, content: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(os, "write", full)
        log.write(b"two\n")
    assert log.error is not None
    assert log.error.errno == errno.ENOSPC
    log.write(b"three\n")
    assert (tmp_path / "worker.log").read_bytes() == b"one\ntwo\nthree\n"


def test_a_log_in_a_folder_that_is_gone_still_drains(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "gone" / "worker.log")
    read_end, write_end = os.pipe()
    drain = Drain(read_end, log)
    os.write(write_end, b"first\nlast words\n\n")
    assert not drain.finish(0.01)
    os.close(write_end)
    assert drain.finish(10)
    assert last_lines(log.end, 1) == ["last words"]
    assert isinstance(log.error, FileNotFoundError)


def test_kernel_kills_are_counted_in_either_version_of_cgroups() -> None:
    assert parse_oom_kills("low 0\nhigh 2\noom 5\noom_kill 3\noom_group_kill 0\n") == 3
    assert parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n") == 1
    assert parse_oom_kills("oom_kill_disable 0\nunder_oom 0\n") is None
    assert parse_oom_kills("oom_kill x\n") is None


def test_the_own_group_is_asked_before_the_root() -> None:
    root = Path("/cg")
    assert counter_paths("0::/user.slice/job\n", root) == [
        root / "user.slice/job/memory.events",
        root / "memory.events",
    ]
    assert counter_paths("5:devices:/\n4:cpu,memory:/box\n0::/\n", root) == [
        root / "memory/box/memory.oom_control",
        root / "memory/memory.oom_control",
        root / "memory.events",
        root / "memory.events",
    ]
    assert counter_paths("", root) == []


def test_the_reserve_is_given_back_in_two_parts(tmp_path: Path) -> None:
    status = StatusFile(tmp_path, None)
    status.hold_reserve()
    assert (tmp_path / RESERVE).stat().st_blocks * 512 >= 256 * 1024
    status.release_reserve(keep_bytes=65536)
    assert (tmp_path / RESERVE).stat().st_size == 65536
    status.release_reserve()
    status.release_reserve()
    assert not (tmp_path / RESERVE).exists()


def test_a_status_keeps_what_it_was_given_and_says_each_note_once(tmp_path: Path) -> None:
    status = StatusFile(tmp_path, None)
    status.note("one")
    status.note("one")
    assert status.write(Status.EXPORTING, reason="because", verdict=Status.FAILED)
    assert status.write(Status.FAILED, verdict=None)
    record = read_json(tmp_path / STATUS, StatusRecord)
    assert record is not None
    assert (record.status, record.reason, record.verdict, record.notes) == (Status.FAILED, "because", None, ("one",))


def test_a_status_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    status = StatusFile(tmp_path / "gone", None)
    assert not status.write(Status.WARMUP)
    assert status.notes == ["status.json could not always be written: No such file or directory"]
    assert not status.disk_full
    status.trouble("events.jsonl", OSError(errno.ENOSPC, "No space left on device"))
    assert status.disk_full


def test_a_step_of_the_finisher_that_fails_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done: list[str] = []

    def raises(run_dir: Path, verdict: StatusRecord) -> list[str]:
        raise ZeroDivisionError("no steps")

    def refuses(run_dir: Path, verdict: StatusRecord) -> list[str]:
        raise GradscopeError("it is no trace")

    def works(run_dir: Path, verdict: StatusRecord) -> list[str]:
        done.append(verdict.status)
        return ["something \x1b was odd"]

    said = list(finish(tmp_path, {"one": raises, "two": refuses, "three": works}))
    assert said == [
        {"started": "one"},
        {"note": "one could not be written: ZeroDivisionError: no steps"},
        {"started": "two"},
        {"note": "two could not be written: it is no trace"},
        {"started": "three"},
        {"note": "something \\e was odd"},
    ]
    assert done == [Status.UNKNOWN]
    assert "Traceback" in capsys.readouterr().err


def test_a_finisher_reads_the_verdict_while_the_run_is_exporting(tmp_path: Path) -> None:
    StatusFile(tmp_path, None).write(Status.EXPORTING, verdict=Status.OOM, reason="full", exit_code=3)
    seen: list[StatusRecord] = []

    def look(run_dir: Path, verdict: StatusRecord) -> list[str]:
        seen.append(verdict)
        return []

    list(finish(tmp_path, {"it": look}))
    assert (seen[0].status, seen[0].reason, seen[0].exit_code) == (Status.OOM, "full", 3)


def test_a_finisher_that_cannot_be_started_is_a_note(tmp_path: Path) -> None:
    assert run_finisher(tmp_path, ["/nowhere/python"], 0, lambda: False) == [
        "the run could not be written up: No such file or directory"
    ]


def test_a_full_disk_is_heard_from_the_worker_where_it_met_it_first() -> None:
    assert says_full(["gradscope: events.jsonl cannot be written: No space left on device"])
    assert not says_full(["gradscope: events.jsonl cannot be written: Input/output error"])
    assert not says_full([])


def test_the_pipe_to_whoever_started_a_supervisor_is_written_to_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty:
        def __init__(self, *parts: object) -> None:
            pass

        def start(self) -> None:
            pass

        def watch(self) -> int:
            raise RuntimeError("a fault of ours")

        def fail(self, *words: object) -> None:
            pass

    told: list[int | None] = []
    monkeypatch.setattr(supervisor, "Supervisor", Faulty)
    monkeypatch.setattr(supervisor, "adopt_orphans", lambda: None)
    monkeypatch.setattr(supervisor, "tell", lambda descriptor, content: told.append(descriptor))
    assert supervisor.supervise(tmp_path, ready_fd=99) == 1
    assert told == [99]  # closed by that: another file may have the number by then
