"""Runs with the real supervisor and a made-up worker (`fake_worker.py`), for tests.

As a script it is such a supervisor: `python tests/fake_runs.py BEHAVIOUR FINISHER RUN_DIR READY_FD`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from gradscope.config.schema import Preset, RunSettings, SamplingSettings
from gradscope.core.status import StatusRecord
from gradscope.launch import spawn
from gradscope.launch.supervisor import supervise
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import create_run_directory
from gradscope.rundir.manifest import write_manifest

WORKER = Path(__file__).with_name("fake_worker.py")

FINISHERS = {
    "none": "",
    "summary": "open(sys.argv[1] + '/summary.json', 'w').write('{}')",
    "slow": "import time; time.sleep(1000)",
    "fails": "sys.exit('cannot')",
    "tied": "from gradscope.launch.finish import leave_with; import time; leave_with(int(sys.argv[2]))\n"
    "open(sys.argv[1] + '/finisher.txt', 'w'); time.sleep(1000)",
}
"""What a finisher does, in place of the real one; `real` is that."""


def start(
    out: Path,
    behaviour: str,
    *,
    finisher: str = "none",
    time_limit_seconds: float | None = None,
    sampling: bool = False,
) -> RunHandle:
    """Start a run and return when its worker has been started."""
    run_dir = create_run_directory(out, "fake")
    preset = Preset(
        name="fake",
        run=RunSettings(time_limit_seconds=time_limit_seconds),
        sampling=SamplingSettings(enabled=sampling),
    )
    write_manifest(run_dir, spawn.make_manifest(run_dir.name, preset, ["test"]))
    spawn.start_supervisor(run_dir, [sys.executable, __file__, behaviour, finisher, str(run_dir)])
    return RunHandle(run_dir)


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.01)


def wait_for_end(run: RunHandle, seconds: float = 20.0) -> StatusRecord:
    """Wait for a final status and for the end of the supervisor, which writes it last."""
    wait_for(lambda: run.status().status.is_final, seconds)
    record = run.status()
    assert record.supervisor is not None
    wait_for_death(record.supervisor.pid)
    return record


def wait_for_steps(run: RunHandle, steps: int = 3) -> None:
    """Wait until the worker trains."""
    wait_for(lambda: len([event for event in run.events() if type(event).__name__ == "Step"]) >= steps)


def wait_for_death(*pids: int, seconds: float = 5.0) -> None:
    """Wait until processes are gone, or wait to be reaped."""
    wait_for(lambda: not any(is_running(pid) for pid in pids), seconds)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_of(run: RunHandle) -> dict[str, int]:
    """Return the process ids of a running run by role."""
    record = run.recorded_status()
    assert record is not None
    assert record.supervisor is not None
    assert record.worker is not None
    return {"supervisor": record.supervisor.pid, "worker": record.worker.pid}


def processes_of(run: RunHandle) -> list[int]:
    """Return all processes that name the run directory in their command line, zombies aside."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(run.path) in (process.info["cmdline"] or []) and is_running(process.pid)
    ]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def reap() -> None:
    """Take the exit status of supervisors this process started, so that no test leaves a zombie."""
    for process in spawn._supervisors:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    spawn._supervisors.clear()


def main() -> int:
    behaviour, finisher, run_dir, ready_fd = sys.argv[1:5]

    def worker(path: Path, parent_fd: int) -> list[str]:
        return [sys.executable, str(WORKER), behaviour, str(path), "--parent-fd", str(parent_fd)]

    def finish(path: Path, parent_fd: int) -> list[str]:
        return [sys.executable, "-c", "import sys\n" + FINISHERS[finisher], str(path), str(parent_fd)]

    if behaviour == "unstartable":
        return supervise(Path(run_dir), worker=lambda path, fd: ["/nowhere/python"], ready_fd=int(ready_fd))
    if finisher == "real":
        return supervise(Path(run_dir), worker=worker, ready_fd=int(ready_fd))
    return supervise(Path(run_dir), worker=worker, finisher=finish, ready_fd=int(ready_fd))


if __name__ == "__main__":
    sys.exit(main())
