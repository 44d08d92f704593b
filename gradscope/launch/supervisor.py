"""`python -m gradscope.launch.supervisor RUN_DIR`: starts a run's worker, watches it, and writes what it came to.

Holds neither torch nor a screen, so that whatever happens to the worker, somebody is left to say so. One `Supervisor`
sees one run through: `start`, `watch`, `conclude`.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.drain import last_lines
from gradscope.launch.finisher import finisher_command, run_finisher
from gradscope.launch.grace import FINISH_SECONDS, SECOND_SIGNAL_SECONDS, Asker, Stop, merged
from gradscope.launch.handshake import READY, tell
from gradscope.launch.observe import Observer
from gradscope.launch.oom import OutOfMemoryWatch
from gradscope.launch.processes import adopt_orphans, kill_descendants
from gradscope.launch.sampler import RunningSampler, start_sampler
from gradscope.launch.settings import load_settings
from gradscope.launch.statusfile import LAST_BYTES, StatusFile, says_full
from gradscope.launch.verdict import Ending, Verdict, decide
from gradscope.launch.wakeup import Wakeup, catching_signals
from gradscope.launch.workerprocess import DRAIN_SECONDS, ProcessCommand, WorkerProcess, start_worker, worker_command
from gradscope.rundir.control import ControlReader, StopRequested
from gradscope.rundir.host import process_id
from gradscope.rundir.layout import WORKER_LOG
from gradscope.rundir.registry import register, unregister

TICK_SECONDS = 0.1
MEMORY_SECONDS = 0.5
"""Between two looks at memory, for the verdict on a SIGKILL."""

UNKILLABLE_SECONDS = 2.0
"""How long a killed worker may stay: one that waits for a broken driver or disk may stay for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a supervisor does that depends on how its run was started: by a command, or within a sweep."""

    start_worker: Callable[[Path, int], WorkerProcess]
    """Starts the worker of a run directory, with the read end of the pipe that ties it to us."""
    finish: Callable[[Path, int, Callable[[], bool]], list[str]]
    """Runs the finisher, as `run_finisher` does; returns notes."""
    is_wanted: Callable[[], bool] = lambda: True
    """Whether whoever the run is for still exists; asked at every tick."""
    worker_ended: Callable[[], None] = lambda: None
    """Told when the worker and all its processes are gone, before the run is written up."""
    time_limit_seconds: float | None = None
    """A limit beside that of the preset; the lower one holds."""


class Supervisor:
    """One run, from its worker's start to its final status."""

    def __init__(self, run_dir: Path, wakeup: Wakeup, hands: Hands) -> None:
        self._run_dir = run_dir
        self._wakeup = wakeup
        self._hands = hands
        self._status = StatusFile(run_dir, process_id())
        self._settings: Preset | None = None
        self._control = ControlReader(run_dir)
        self._observer = Observer(run_dir)
        self._memory = OutOfMemoryWatch()
        self._lifeline = os.pipe()
        self._worker: WorkerProcess | None = None
        self._sampler: RunningSampler | None = None
        self._stop: Stop | None = None
        self._killed_at: float | None = None
        self._started_at = self._memory_due = time.monotonic()

    def start(self) -> None:
        """Start worker and sampler.

        Raises:
            GradscopeError: The worker cannot be started, or `manifest.json` is no use.
        """
        self._settings = load_settings(self._run_dir)
        self._status.hold_reserve()
        try:
            register(self._run_dir)
        except OSError as error:
            self._status.note(
                f"only its path finds this run: the list of running runs cannot be written ({error.strerror})"
            )
        try:
            self._worker = self._hands.start_worker(self._run_dir, self._lifeline[0])
        except OSError as error:
            raise GradscopeError(
                f"the worker could not be started: {error.strerror}",
                "the system may be out of processes or memory",
                exit_code=ExitCode.ENVIRONMENT,
            ) from error
        self._status.write(Status.STARTING, worker=process_id(self._worker.pid))
        self._sampler = start_sampler(
            self._run_dir, self._settings, self._worker.pid, lambda: self._observer.seen.step, self._status.trouble
        )

    def watch(self) -> int:
        """Wait for the worker's end, telling its stages; return its exit code as subprocess gives it."""
        worker = self._expect_worker()
        while (returncode := worker.returncode()) is None:
            self._hear()
            self._keep_time(worker)
            if self._killed_at is not None and time.monotonic() - self._killed_at > UNKILLABLE_SECONDS:
                self._status.note("the worker hangs in the kernel, where no signal reaches it; it was left behind")
                return -signal.SIGKILL
            self._tell()
            self._wakeup.wait(TICK_SECONDS)
        return returncode

    def conclude(self, returncode: int) -> int:
        """Leave nothing of the run behind, decide, write up, and write the final status last. Returns the exit code."""
        worker = self._expect_worker()
        self._end_processes(worker)
        self._hands.worker_ended()
        if not self._run_dir.is_dir():
            return ExitCode.FAILED
        verdict = decide(self._ending(worker, returncode))
        if self._status.disk_full:
            self._status.release_reserve(keep_bytes=LAST_BYTES)
            worker.log.flush()
        self._status.write(
            Status.EXPORTING,
            verdict=verdict.status,
            reason=verdict.reason,
            hint=verdict.hint,
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            timed_out=verdict.timed_out,
        )
        self._write_up()
        self._status.release_reserve()
        worker.log.flush()
        self._write_final(verdict)
        return verdict.exit_code

    def fail(self, message: str, hint: str, exit_code: int) -> None:
        """End everything and say so: the run could not start, or we are at fault ourselves."""
        if self._worker is not None:
            self._end_processes(self._worker)
        self._status.release_reserve()
        self._write_final(Verdict(status=Status.FAILED, exit_code=exit_code, reason=visible(message), hint=hint))

    def _expect_worker(self) -> WorkerProcess:
        assert self._worker is not None, "start comes first"
        return self._worker

    def _hear(self) -> None:
        """Take in signals and requests."""
        now = time.monotonic()
        for number in self._wakeup.take():
            first = self._stop
            again = first is not None and first.asker is Asker.SIGNAL and now - first.asked_at > SECOND_SIGNAL_SECONDS
            self._ask(Stop(asker=Asker.SIGNAL, asked_at=now, signal=number, kill=again))
        try:
            requests = self._control.poll()
        except OSError as error:  # a network file system that is away for a moment must not end a run
            self._status.note(f"requests could not always be read: {error.strerror}")
            return
        for request in requests:
            if isinstance(request, StopRequested):
                self._ask(Stop(asker=Asker.REQUEST, asked_at=now, signal=request.signal, kill=request.kill))
        if not self._hands.is_wanted():
            self._ask(Stop(asker=Asker.LOST_SWEEP, asked_at=now, kill=True))

    def _keep_time(self, worker: WorkerProcess) -> None:
        """Stop at the time limit or when the folder is gone, kill a worker that does not stop, look at memory."""
        now = time.monotonic()
        limit = self._time_limit_seconds()
        if limit is not None and now - self._started_at >= limit:
            self._ask(Stop(asker=Asker.TIME_LIMIT, asked_at=now))
        if not self._run_dir.is_dir():
            self._ask(Stop(asker=Asker.LOST_FOLDER, asked_at=now, kill=True))
        if self._stop is not None and now >= self._stop.worker_deadline():
            self._killed_at = self._killed_at or now
            worker.kill()
        elif now >= self._memory_due:
            self._memory.look(worker.pid)
            self._memory_due = now + MEMORY_SECONDS

    def _time_limit_seconds(self) -> float | None:
        own = None if self._settings is None else self._settings.run.time_limit_seconds
        return min((limit for limit in (own, self._hands.time_limit_seconds) if limit is not None), default=None)

    def _ask(self, stop: Stop) -> None:
        before, self._stop = self._stop, merged(self._stop, stop)
        if before is None and not stop.kill and self._worker is not None:
            self._worker.ask_to_stop()

    def _tell(self) -> None:
        """Pass the worker's stage on into `status.json`."""
        before = self._observer.seen.status
        try:
            seen = self._observer.look()
        except OSError as error:
            self._status.note(f"the worker's records could not always be read: {error.strerror}")
            return
        if seen.status is not before:
            self._status.write(seen.status)
        if self._sampler is not None:
            self._sampler.tell(seen.started)

    def _end_processes(self, worker: WorkerProcess) -> None:
        worker.kill()
        kill_descendants()
        if not worker.drain.finish(DRAIN_SECONDS):
            self._status.note("some process still held the worker's output open; what it wrote later is not in the log")
        if self._sampler is not None:
            if not self._sampler.stop():
                self._status.note(
                    "sampling hung, most likely in the GPU's driver, and was left behind: figures may be missing"
                )
            self._sampler = None

    def _ending(self, worker: WorkerProcess, returncode: int) -> Ending:
        self._hear()
        self._tell()
        seen = self._observer.seen
        if worker.log.error is not None:
            self._status.trouble(WORKER_LOG, worker.log.error)
        log_end = last_lines(worker.log.end, 1)
        return Ending(
            returncode=returncode,
            last_word=seen.last_word,
            failure=seen.failure,
            stop=self._stop,
            time_limit_seconds=self._time_limit_seconds(),
            killed_by_us=self._killed_at is not None,
            kernel_killed=self._memory.kernel_killed(),
            memory=self._memory.figures,
            disk_full=self._status.disk_full or says_full(log_end),
            log_end=log_end,
        )

    def _write_up(self) -> None:
        """Run the finisher: to its end, or as long as a run that is being stopped may take."""
        started_at = time.monotonic()

        def is_over() -> bool:
            self._hear()
            now = time.monotonic()
            limit = started_at + FINISH_SECONDS if self._stop is None else self._stop.finish_deadline(started_at)
            return now >= limit or not self._run_dir.is_dir()

        for note in self._hands.finish(self._run_dir, self._lifeline[0], is_over):
            self._status.note(note)
        kill_descendants()

    def _write_final(self, verdict: Verdict) -> None:
        self._status.write(
            verdict.status,
            verdict=None,
            reason=verdict.reason,
            hint=verdict.hint,
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            timed_out=verdict.timed_out,
        )


def supervise(
    run_dir: Path,
    *,
    worker: ProcessCommand = worker_command,
    finisher: ProcessCommand = finisher_command,
    ready_fd: int | None = None,
) -> int:
    """See one run through and return its exit code. Needs a process of its own: it takes over signals and children.

    Args:
        run_dir: A run directory with its manifest.
        worker: Makes the worker's command line.
        finisher: Makes the finisher's.
        ready_fd: Told `READY` when the worker runs, or one line on why it does not; then closed.
    """
    hands = Hands(
        start_worker=lambda path, parent_fd: start_worker(path, worker(path, parent_fd), parent_fd),
        finish=lambda path, parent_fd, is_over: run_finisher(path, finisher(path, parent_fd), parent_fd, is_over),
    )
    return see_through(run_dir, hands, partial(tell, ready_fd))


def see_through(run_dir: Path, hands: Hands, say: Callable[[bytes], None]) -> int:
    """See one run through and return its exit code; `say` is called once, with `READY` or what went wrong."""
    adopt_orphans()
    with catching_signals() as wakeup:
        supervisor = Supervisor(run_dir, wakeup, hands)
        said = False
        try:
            supervisor.start()
            said = True
            say(READY)
            return supervisor.conclude(supervisor.watch())
        except GradscopeError as error:
            supervisor.fail(error.message, error.hint, error.exit_code)
            if not said:
                say(f"{error.message}\n{error.hint}".encode())
            return error.exit_code
        except BaseException as error:  # whatever our own fault is: no process is left, and the run says what happened
            traceback.print_exc()
            supervisor.fail(
                f"gradscope's own supervisor failed ({type(error).__name__}: {error})",
                "this is a fault in gradscope; worker.log holds its traceback",
                ExitCode.FAILED,
            )
            if not said:
                say(f"gradscope's own supervisor failed: {error}\n".encode())
            return ExitCode.FAILED
        finally:
            with contextlib.suppress(OSError):  # the list is tidied by whoever reads it, too
                unregister(run_dir)


def main() -> int:
    """Parse the command line and supervise."""
    parser = argparse.ArgumentParser(prog="gradscope.launch.supervisor", description="See one run through.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--ready-fd", type=int)
    arguments = parser.parse_args()
    return supervise(arguments.run_dir, ready_fd=arguments.ready_fd)


if __name__ == "__main__":
    sys.exit(main())
