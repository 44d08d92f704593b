"""A worker's life: from the preset in `manifest.json` to its last event."""

import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import torch

from gradscope.config.convert import preset_from_dict
from gradscope.core.clock import clock_pair
from gradscope.core.events import TrainingFailed, WorkerEnded, WorkerStarted
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.manifest import read_manifest
from gradscope.worker.build import build_parts
from gradscope.worker.device import choose_device, describe_device, prepare
from gradscope.worker.examine import examine
from gradscope.worker.failures import StopTraining, describe, print_traceback, told_first
from gradscope.worker.lifeline import Lifeline, Requests
from gradscope.worker.loop import Loop
from gradscope.worker.record import EventLog, RecordError
from gradscope.worker.snapshot import write_snapshot
from gradscope.worker.strategies import get_strategy


def work(run_dir: Path, parent_fd: int | None, import_seconds: float) -> int:
    """Do the whole of a run's training and return the worker's exit code.

    Args:
        run_dir: A run directory that holds `manifest.json`.
        parent_fd: Read end of the supervisor's pipe; `None` where nobody supervises.
        import_seconds: What importing torch took, for the record.
    """
    try:
        log = EventLog(run_dir)
        lifeline = None if parent_fd is None else Lifeline(parent_fd, log)
        return _work(run_dir, log, lifeline, import_seconds)
    except RecordError as error:  # nothing is left to tell it to but the supervisor's log
        print(f"gradscope: {error.message}", file=sys.stderr)
        return int(error.exit_code)


def _work(run_dir: Path, log: EventLog, lifeline: Lifeline | None, import_seconds: float) -> int:
    requests = Requests(run_dir, lifeline)
    requests.install_signal_handlers()
    run = _Run(run_dir, log, requests)
    try:
        run.go(import_seconds)
    except StopTraining as stop:
        return _leave(log, lifeline, stop.reason, ExitCode.DONE)
    except (Exception, SystemExit, KeyboardInterrupt) as raised:  # whatever a model raises is the run's result
        error = told_first(raised)
        print_traceback(error)
        fields = describe(error, step=run.step, phase=run.phase)
        if fields["out_of_memory"] and run.device is not None and run.device.type == "cuda":
            write_snapshot(run.device, run_dir, log)
        try:
            log.emit(TrainingFailed, **fields)
        except RecordError as unwritten:  # its exit code still says whether memory ran out
            unwritten.exit_code = ExitCode(fields["exit_code"])
            raise
        return _leave(log, lifeline, "failed", fields["exit_code"])
    return _leave(log, lifeline, "finished", ExitCode.DONE)


def _leave(log: EventLog, lifeline: Lifeline | None, reason: str, exit_code: int) -> int:
    log.emit(WorkerEnded, reason=reason)
    if lifeline is not None:
        lifeline.finished()
    return int(exit_code)


class _Run:
    """The run so far: what a failure needs to say where it happened."""

    def __init__(self, run_dir: Path, log: EventLog, requests: Requests) -> None:
        self.run_dir = run_dir
        self.log = log
        self.requests = requests
        self.device: torch.device | None = None
        self._loop: Loop | None = None
        self._phase = "setup"

    @property
    def step(self) -> int | None:
        return None if self._loop is None else self._loop.step_number

    @property
    def phase(self) -> str:
        return self._phase if self._loop is None or self._phase != "train" else self._loop.phase

    def go(self, import_seconds: float) -> None:
        manifest = read_manifest(self.run_dir)
        if manifest is None:
            raise GradscopeError(f"{self.run_dir} holds no manifest.json", "start runs with `gradscope run`")
        preset = preset_from_dict(manifest.preset)
        self.device = choose_device(preset.run)
        prepare(preset.run, self.device)
        self._say_started(self.device, import_seconds)
        strategy = get_strategy(preset.memory.strategy)
        parts = build_parts(preset, strategy, self.device, self.log, run_dir=self.run_dir, run_id=manifest.run_id)
        try:
            self._loop = Loop(parts, self.log, self.requests)
            self._phase = "train"
            self._loop.run()
            self._phase = "audit"
            examine(parts, strategy, self.log, self.requests)
        finally:
            parts.stream.close()

    def _say_started(self, device: torch.device, import_seconds: float) -> None:
        facts = describe_device(device)
        process = psutil.Process()
        self.log.emit(
            WorkerStarted,
            pid=process.pid,
            wall_ns=clock_pair().wall_ns,
            device=str(device),
            device_name=facts.name,
            device_uuid=facts.uuid,
            device_memory_bytes=facts.memory_bytes,
            threads=torch.get_num_threads(),
            versions=_versions(),
            import_seconds=round(import_seconds, 3),
            resident_bytes=process.memory_info().rss,
        )


def _versions() -> dict[str, str]:
    """Return the versions that decide what a run's numbers mean."""
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    with suppress(PackageNotFoundError):  # a model of the user's own needs none
        found["transformers"] = version("transformers")
    return found
