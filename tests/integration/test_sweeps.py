"""Whole sweeps as a user starts them: failures are results, and a SIGKILL of any process costs at most one cell."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gradscope.core.events import Step
from gradscope.core.status import Status
from gradscope.rundir.cells import cell_runs
from gradscope.rundir.handle import RunHandle
from tests.fake_runs import is_running, wait_for, wait_for_death

MODELS = Path(__file__).parents[1] / "user_models.py"

BASE = """
[run]
device = "cpu"
threads = 1
warmup = 1
[profile]
steps = 0
[data]
batch_size = 4
"""

EIGHT = f"""{BASE}
[budget]
updates = 8
[sweep]
exclude = [{{ "model.name" = "py:{MODELS}:drawing", "memory.strategy" = "accumulate" }}]
include = [
    {{ "model.name" = "py:{MODELS}:raising" }},
    {{ "model.name" = "py:{MODELS}:exits", "memory.strategy" = "accumulate" }},
]
[sweep.axes]
"model.name" = ["py:{MODELS}:tiny", "py:{MODELS}:drawing"]
"optimizer.name" = ["sgd", "adam"]
"memory.strategy" = ["standard", "accumulate"]
"""
"""P21: 2 models x 2 optimizers x 2 strategies, one cell raising, one leaving with `os._exit(9)`."""

ENDLESS = f"""{BASE}
[model]
name = "py:{MODELS}:slow"
options = {{ milliseconds = 10 }}
[budget]
updates = 1_000_000
[sweep.axes]
"run.seed" = [0, 1, 2, 3]
"""


class Started:
    """A sweep as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.out = folder / "out"
        self._folder = folder
        command = "from gradscope.cli.app import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, "sweep", str(folder / "grid.toml"), "--out", str(self.out), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        said, noted = self.process.communicate(timeout=120)
        return self.process.returncode, said, noted

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the test's sweeps but the sweep itself, by a variable that each inherits."""
        return [process for process in psutil.process_iter() if self._is_of_ours(process)]

    def warm(self) -> psutil.Process:
        (found,) = (process for process in self.processes() if process.ppid() == self.process.pid)
        return found

    def running(self) -> RunHandle | None:
        """Return the run that trains."""
        found = [run for run in runs(self.out) if run.status().status in (Status.WARMUP, Status.MEASURING)]
        return found[0] if found and trains(found[0]) else None

    def next_run(self, *before: RunHandle) -> RunHandle:
        """Wait until a run trains that is none of those before."""
        known = {run.run_id for run in before}
        found: list[RunHandle] = []

        def is_there() -> bool:
            run = self.running()
            found[:] = [run] if run is not None and run.run_id not in known else []
            return bool(found)

        wait_for(is_there, 60)
        return found[0]

    def _is_of_ours(self, process: psutil.Process) -> bool:
        try:
            mine = process.environ().get("XDG_STATE_HOME") == str(self._folder / "state")
            return mine and is_running(process.pid) and process.pid not in (self.process.pid, os.getpid())
        except psutil.Error:
            return False


def runs(out: Path) -> list[RunHandle]:
    return [RunHandle(path) for path in sorted((out / "grid").glob("2*"))]


def trains(run: RunHandle) -> bool:
    return sum(isinstance(event, Step) for event in run.events()) > 2


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    for process in psutil.process_iter():
        try:
            if process.environ().get("XDG_STATE_HOME") == str(tmp_path / "state") and process.pid != os.getpid():
                process.kill()
        except psutil.Error:
            continue


def sweep(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    code, said, noted = Started(folder, "--json", *options).ended()
    return code, json.loads(said), noted


@pytest.mark.timeout(180)
def test_cells_that_fail_are_results_and_only_they_run_again(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(EIGHT)
    code, first, noted = sweep(tmp_path)
    assert (code, first["ran"], first["counts"]) == (1, 8, {"done": 6, "failed": 2})
    assert "[8/8]" in noted
    failed = {cell["run_id"]: cell["reason"] for cell in first["cells"] if cell["status"] == "failed"}
    assert sorted(failed.values()) == [
        "ValueError at step 5 in forward: labels out of range",
        "the worker left with exit code 9 before it was done",
    ]
    table = (tmp_path / "out" / "grid" / "results.csv").read_text().splitlines()
    assert len(table) == 9

    code, second, noted = sweep(tmp_path)
    assert (code, second["ran"], second["counts"]) == (1, 0, {"done": 6, "failed": 2})
    assert "--retry-failed" in noted

    code, third, _ = sweep(tmp_path, "--retry-failed", "--fail-fast")
    assert (code, third["ran"]) == (1, 1)
    assert len(runs(tmp_path / "out")) == 9
    assert {cell["run_id"] for cell in third["cells"]} - {cell["run_id"] for cell in first["cells"]} - {None}


@pytest.mark.timeout(240)
def test_a_sigkill_of_any_process_costs_one_cell_and_leaves_none_behind(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(ENDLESS)
    started = Started(tmp_path)
    first = started.next_run()
    record = first.recorded_status()
    assert record is not None
    assert record.worker is not None
    assert record.supervisor is not None
    os.kill(record.worker.pid, signal.SIGKILL)
    second = started.next_run(first)
    assert first.status().status is Status.KILLED

    record = second.recorded_status()
    assert record is not None
    assert record.worker is not None
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    third = started.next_run(first, second)
    assert second.status().status is Status.KILLED
    assert not is_running(record.worker.pid)  # the next cell measures on a machine that the last one has left

    warm = started.warm().pid
    os.kill(warm, signal.SIGKILL)
    wait_for_death(warm)
    steps = len(third.events())
    wait_for(lambda: len(third.events()) > steps + 5)  # it goes on
    os.kill(started.process.pid, signal.SIGKILL)
    wait_for(lambda: started.processes() == [], 5)
    assert third.status().status is Status.CANCELLED
    assert (third.status().reason or "").startswith("the sweep that it belongs to was ended from outside")

    again = Started(tmp_path, "--cell-limit", "1", "--json")
    code, said, _ = again.ended()
    outcome = json.loads(said)
    assert (code, outcome["ran"], outcome["counts"]) == (1, 4, {"timeout": 4})
    assert len(runs(tmp_path / "out")) == 7
    assert {cell["reason"] for cell in outcome["cells"]} == {"it was stopped at its time limit of 1 s"}
    assert again.processes() == []


@pytest.mark.timeout(180)
def test_two_sweeps_share_the_cells_and_ctrl_c_leaves_the_rest_to_the_other(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(ENDLESS)
    other = Started(tmp_path)
    held = other.next_run()
    one = Started(tmp_path, "--cell-limit", "1")
    wait_for(lambda: sum(run.status().timed_out for run in runs(one.out)) == 3, 60)
    assert one.process.poll() is None  # it waits for the cell that the other one has
    assert len(runs(one.out)) == 4
    os.kill(other.process.pid, signal.SIGINT)
    code, said, noted = other.ended()
    assert (code, said.splitlines()[0]) == (130, "4 cells: 3 not run, 1 cancelled")
    assert "to go on: " in noted
    assert (held.status().status, held.status().exit_code) == (Status.CANCELLED, 130)
    code, said, _ = one.ended()
    assert (code, said.splitlines()[0]) == (1, "4 cells: 4 timeout")
    assert len(runs(one.out)) == 5
    assert len(cell_runs(one.out, "grid")) == 4
    assert one.processes() == []
