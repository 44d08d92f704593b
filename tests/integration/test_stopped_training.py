"""Real training, captured and then stopped: the trace, the samples and the summary are there."""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.analysis.summary import load_summary
from gradscope.core.events import WorkerEnded
from gradscope.core.status import Status
from gradscope.launch.stop import stop_and_wait
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.registry import all_runs
from tests import fake_runs

ROOT = Path(__file__).parents[2]
GRADSCOPE = [sys.executable, "-P", "-c", "from gradscope.cli.app import main; main()"]

PRESET = f"""
[model]
name = "py:{ROOT}/tests/user_models.py:slow"
options = {{ milliseconds = 10 }}
[data]
batch_size = 4
[budget]
seconds = 3600
[run]
device = "cpu"
threads = 1
warmup = 1
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.toml").write_text(PRESET)
    (tmp_path / "random.py").write_text("raise RuntimeError('the wrong module')")
    yield
    fake_runs.reap()


def the_run() -> RunHandle:
    fake_runs.wait_for(lambda: all_runs(Path("traces")))
    [run] = all_runs(Path("traces"))
    fake_runs.wait_for_steps(run)
    return run


def test_a_captured_run_that_is_interrupted_is_written_whole() -> None:
    following = subprocess.Popen(
        [*GRADSCOPE, "run", "./long.toml", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    run = the_run()
    captured = subprocess.run(
        [*GRADSCOPE, "capture", run.run_id, "--steps", "2"], capture_output=True, text=True, check=True, timeout=60
    )
    trace = Path(captured.stdout.strip())
    assert trace.is_relative_to(run.path)
    following.send_signal(signal.SIGINT)
    stdout, stderr = following.communicate(timeout=60)
    assert following.returncode == 128 + signal.SIGINT, stderr
    summary = json.loads(stdout)
    assert (summary["status"], summary["exit_code"]) == ("cancelled", 130)
    assert summary["duration"]["measured_steps"] > 0
    assert [window["file"] for window in summary["windows"]] == [trace.name]
    assert run.events()[-1] == WorkerEnded(seq=len(run.events()) - 1, t_ns=run.events()[-1].t_ns, reason="stopped")
    assert json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert run.samples()
    assert any(path.name.startswith("events.out.tfevents.") for path in run.path.iterdir())
    assert fake_runs.processes_of(run) == []


def test_a_worker_that_ends_by_itself_without_a_word_failed() -> None:
    detached = subprocess.run(
        [
            *GRADSCOPE,
            *("run", "./long.toml", "--detach", "--quiet"),
            *("-s", f"model.name=py:{ROOT}/tests/user_models.py:exits", "-s", "model.options={at = 5}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert detached.returncode == 0, detached.stderr
    assert detached.stderr == ""
    run = RunHandle(Path(detached.stdout.strip()))
    record = fake_runs.wait_for_end(run, 60)
    assert (record.status, record.exit_code) == (Status.FAILED, 1)
    assert record.reason == "the worker left with exit code 9 before it was done"
    assert load_summary(run.path).duration.warmup_steps == 1
    assert stop_and_wait(run) == record
    assert os.listdir(run.path) != []  # noqa: PTH208
