"""SIGKILL of any process of a run, at any moment: the status is right, the directory reads, nothing is left."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.core.status import Status, StatusRecord
from gradscope.rundir.control import StopRequested, request
from gradscope.rundir.handle import RunHandle
from tests import fake_runs

SECONDS = 2.0
"""After a kill, the status is right and the run's processes are gone within this time."""


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    fake_runs.reap()


def killed_within_time(run: RunHandle, *pids: int) -> StatusRecord:
    """Check the whole promise after a kill."""
    fake_runs.wait_for(lambda: run.status().status.is_final, SECONDS)
    fake_runs.wait_for_death(*pids, seconds=SECONDS)
    fake_runs.wait_for(lambda: fake_runs.processes_of(run) == [], SECONDS)
    tail = run.event_tail()
    events = tail.read()
    assert (tail.malformed, tail.unknown) == (0, 0)
    assert [event.seq for event in events] == list(range(len(events)))
    run.samples()
    return run.status()


def loading(tmp_path: Path, *, sampling: bool = False) -> tuple[RunHandle, dict[str, int]]:
    run = fake_runs.start(tmp_path, "loads", sampling=sampling)
    fake_runs.wait_for_steps(run)
    fake_runs.wait_for(lambda: run.status().status is Status.MEASURING)
    return run, fake_runs.pids_of(run) | {"loader": int((run.path / "family.txt").read_text())}


def test_a_killed_worker_is_killed_not_failed(tmp_path: Path) -> None:
    run, pids = loading(tmp_path, sampling=True)
    fake_runs.kill(pids["worker"])
    record = killed_within_time(run, *pids.values())
    assert (record.status, record.exit_code, record.signal) == (Status.KILLED, 137, signal.SIGKILL)
    assert record.reason is not None
    assert record.reason.startswith("something outside gradscope killed the worker (SIGKILL)")
    assert record.hint


def test_with_the_supervisor_killed_the_worker_ends_and_readers_know(tmp_path: Path) -> None:
    run, pids = loading(tmp_path)
    fake_runs.kill(pids["supervisor"])
    record = killed_within_time(run, *pids.values())
    assert (record.status, record.exit_code) == (Status.KILLED, 137)
    assert record.reason == "its supervisor was ended from outside while the run was measuring"


def test_with_both_killed_readers_know(tmp_path: Path) -> None:
    run, pids = loading(tmp_path)
    fake_runs.kill(pids["supervisor"])
    fake_runs.kill(pids["worker"])
    assert killed_within_time(run, *pids.values()).status is Status.KILLED


def test_a_supervisor_killed_while_it_writes_up_takes_the_finisher_along(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path, "finishes", finisher="tied")
    fake_runs.wait_for(lambda: run.status().status is Status.EXPORTING)
    fake_runs.wait_for((run.path / "finisher.txt").exists)
    fake_runs.kill(fake_runs.pids_of(run)["supervisor"])
    record = killed_within_time(run)
    assert record.reason == "its supervisor was ended from outside while the run was exporting"


@pytest.mark.soak
def test_many_kills_at_random_moments(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(60):
        victims = chance.choice([["worker"], ["supervisor"], ["supervisor", "worker"], ["worker", "supervisor"]])
        delay = chance.uniform(0, 0.6)
        print(f"kill {number}: {' and '.join(victims)} after {delay:.3f} s")
        run = fake_runs.start(tmp_path, "loads", sampling=True)
        time.sleep(delay)  # the moment is the test's input, not a wait for something
        pids = fake_runs.pids_of(run)
        for victim in victims:
            fake_runs.kill(pids[victim])
        record = killed_within_time(run, *pids.values())
        assert (record.status, record.exit_code) == (Status.KILLED, 137), record
        family = run.path / "family.txt"
        if family.exists():
            fake_runs.wait_for_death(int(family.read_text() or 0), seconds=SECONDS)


def test_a_request_to_a_dead_run_does_nothing(tmp_path: Path) -> None:
    run, pids = loading(tmp_path)
    fake_runs.kill(pids["supervisor"])
    killed_within_time(run, *pids.values())
    request(run.path, StopRequested())
    assert run.status().status is Status.KILLED
