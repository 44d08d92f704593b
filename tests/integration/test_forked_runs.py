"""Runs that `compare --repeat` forks from a warm process are runs of their own, and a dead warm process is no loss."""

from pathlib import Path

import psutil
import pytest

from gradscope.config.load import load_preset
from gradscope.config.schema import Preset
from gradscope.core.events import WorkerStarted
from gradscope.core.status import Status
from gradscope.launch.spawn import launch
from gradscope.launch.starts import Starts
from gradscope.launch.stop import ask_to_stop
from gradscope.rundir.handle import RunHandle
from tests.fake_runs import is_running, pids_of, reap, wait_for, wait_for_end, wait_for_steps


def preset(updates: int) -> Preset:
    settings = [f"budget.updates={updates}", "run.threads=1", "profile.steps=0", "audit.enabled=false"]
    return load_preset("quick", settings)


def import_seconds(run: RunHandle) -> float:
    return next(event.import_seconds for event in run.events() if isinstance(event, WorkerStarted))


@pytest.mark.timeout(180)
def test_a_forked_run_goes_on_without_whoever_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Starts() as starts:
        wait_for(starts.is_ready, 90)
        assert starts.is_warm
        short = launch(preset(3), out=tmp_path, start=starts.start)
        assert wait_for_end(short, 60).status is Status.DONE
        assert import_seconds(short) == 0
        long = launch(preset(1_000_000), out=tmp_path, start=starts.start)
        wait_for_steps(long)
        warm = next(child for child in psutil.Process().children() if "gradscope.worker.warm" in child.cmdline())
    assert not warm.is_running()
    processes = pids_of(long)
    seen = len(long.events())
    wait_for(lambda: len(long.events()) > seen + 3)
    ask_to_stop(long)
    assert wait_for_end(long, 60).status is Status.CANCELLED
    wait_for(lambda: not any(map(is_running, processes.values())))


def warm_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "gradscope.worker.warm" in child.cmdline()]


@pytest.mark.timeout(180)
def test_a_warm_process_that_was_killed_leaves_cold_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Starts() as starts:
        assert not starts.is_ready()
        wait_for(lambda: warm_processes() != [], 10)
        for process in warm_processes():
            process.kill()
        wait_for(starts.is_ready, 10)
        assert not starts.is_warm
        run = launch(preset(3), out=tmp_path, start=starts.start)
        assert wait_for_end(run, 90).status is Status.DONE
        assert import_seconds(run) > 0
    reap()
