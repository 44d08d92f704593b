"""The sampler: a thread that writes a line about the host and the run's card at every deadline."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from gradscope.core.clock import clock_pair
from gradscope.core.samples import GpuSample, Sample, SampleLine, SamplerEnded, SamplerNote, SamplerStarted
from gradscope.sampling.backoff import Backoff
from gradscope.sampling.deadline import Deadline
from gradscope.sampling.gpus import Gpus
from gradscope.sampling.host import HostReader, host_sample
from gradscope.sampling.lane import Lane

STOP_WAIT_S = 2.0
"""How long `stop` waits for the thread, which may hang in a driver."""


class Sampler:
    """Samples the host, a process tree and its card until it is stopped. Nothing that goes wrong in it leaves it.

    Args:
        root_pid: The worker's process id; its descendants belong to it.
        disk_path: A folder on the file system whose free space matters.
        emit: Takes each line; called in the sampler's thread alone.
        interval_ms: Time between samples.
        step: Returns the last finished step, for tagging samples; called in the sampler's thread.
        device: The run's device as the preset has it: `auto`, `cpu`, `cuda` or `cuda:N`.
        env: The worker's environment (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER); this process's own by default.
        slow_period_s: Time between readings of the slow figures.
    """

    def __init__(
        self,
        *,
        root_pid: int,
        disk_path: Path,
        emit: Callable[[SampleLine], object],
        interval_ms: float = 100.0,
        step: Callable[[], int | None] = lambda: None,
        device: str = "auto",
        env: Mapping[str, str] | None = None,
        slow_period_s: float = 1.0,
    ) -> None:
        self.notes: tuple[str, ...] = ()
        """Everything that was said, also what could not be written to the file."""
        self._emit = emit
        self._interval_ms = interval_ms
        self._step = step
        self._device = device
        self._env = dict(os.environ if env is None else env)
        self._slow_period_s = slow_period_s
        self._host = HostReader(root_pid, disk_path)
        self._host_lane = Lane("host figures", self._host.read_slow, slow_period_s, self._say)
        self._gpus: Gpus | None = None
        self._said: SimpleQueue[str] = SimpleQueue()
        self._worker: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
        self._backoffs: dict[str, Backoff] = {}
        self._failures: set[tuple[str, type[Exception]]] = set()
        self._samples = 0
        self._first_ns = self._last_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gradscope-sampler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> bool:
        """Take a last sample and end; return whether the thread ended within 2 s."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_WAIT_S)
        return not self._thread.is_alive()

    def worker_started(self, device: str, device_uuid: str | None) -> None:
        """Tell which device the worker is on (`worker_started` of its events); from any thread."""
        self._worker.put((device, device_uuid))

    def _run(self) -> None:
        started_ns, cpu_before = time.monotonic_ns(), time.thread_time()
        self._host_lane.start()
        self._gpus = self._guarded("finding the GPU", self._open_gpus)
        self._guarded("what is sampled", lambda: self._write(self._started()))
        deadline = Deadline(time.monotonic_ns(), round(self._interval_ms * 1e6))
        while not self._stop.wait(deadline.wait_seconds(time.monotonic_ns())):
            self._sample()
            deadline.taken(time.monotonic_ns())
        self._sample()
        self._finish(started_ns, cpu_before, deadline.missed)

    def _open_gpus(self) -> Gpus:
        return Gpus(self._env, self._device, lambda: self._host.tree.pids, self._slow_period_s, self._say)

    def _started(self) -> SamplerStarted:
        gpus = self._gpus
        pair = clock_pair()
        return SamplerStarted(
            t_ns=pair.monotonic_ns,
            wall_ns=pair.wall_ns,
            interval_ms=self._interval_ms,
            gpus=[] if gpus is None else gpus.describe(),
            no_gpu_reason="NVML could not be read" if gpus is None else gpus.reason,
            driver=None if gpus is None else gpus.driver,
            host_memory_bytes=psutil.virtual_memory().total,
            cores=psutil.cpu_count(),
        )

    def _sample(self) -> None:
        self._hear_worker()
        now = time.monotonic_ns()
        host: dict[str, Any] = self._guarded("host figures", lambda: self._host.read(now)) or {}
        gpus = self._gpus
        cards: list[GpuSample] = (gpus and self._guarded("GPU figures", lambda: gpus.read(now))) or []
        sample = Sample(
            t_ns=now,
            interval_ms=round((now - self._last_ns) / 1e6, 3) if self._samples else 0.0,
            step=self._guarded("the step", self._step),
            host=host_sample({**host, **self._host_lane.take()}),
            gpus=cards,
        )
        self._first_ns = self._first_ns or now
        self._last_ns = now
        self._samples += 1
        self._write(sample)
        self._say_all()

    def _hear_worker(self) -> None:
        try:
            device, uuid = self._worker.get_nowait()
        except Empty:
            return
        gpus = self._gpus
        if gpus is not None:
            self._guarded("the worker's GPU", lambda: gpus.worker_started(device, uuid))
        self._guarded("what is sampled", lambda: self._write(self._started()))

    def _finish(self, started_ns: int, cpu_before: float, missed: int) -> None:
        self._host_lane.stop()
        if self._gpus is not None:
            self._guarded("closing NVML", self._gpus.close)
        self._say_all()
        now = time.monotonic_ns()
        cpu = time.thread_time() - cpu_before + self._host_lane.cpu_seconds
        cpu += self._gpus.cpu_seconds if self._gpus is not None else 0.0
        steps = self._samples - 1
        self._write(
            SamplerEnded(
                t_ns=now,
                samples=self._samples,
                missed=missed,
                interval_ms=round((self._last_ns - self._first_ns) / 1e6 / steps, 3) if steps > 0 else None,
                cpu_pct=round(100 * cpu / max(1e-9, (now - started_ns) / 1e9), 3),
            )
        )

    def _guarded(self, what: str, call: Callable[[], Any]) -> Any:
        """Call, and turn whatever it raises into a note; after a failure it is left alone for a while."""
        backoff = self._backoffs.setdefault(what, Backoff())
        if not backoff.ready(time.monotonic_ns()):
            return None
        try:
            answer = call()
        except Exception as error:  # sampling never ends a run: reported as a note
            backoff.failed(time.monotonic_ns())
            if (what, type(error)) not in self._failures:  # the text may differ from one to the next
                self._failures.add((what, type(error)))
                self._say(f"{what}: {type(error).__name__}: {error}")
            return None
        backoff.succeeded()
        return answer

    def _say(self, message: str) -> None:
        self._said.put(message)

    def _say_all(self) -> None:
        while not self._said.empty():
            message = self._said.get()
            if message not in self.notes:
                self.notes = (*self.notes, message)
                self._write(SamplerNote(t_ns=time.monotonic_ns(), message=message))

    def _write(self, line: SampleLine) -> None:
        self._guarded("samples are not written", lambda: self._emit(line))
