"""The sampler as the supervisor runs it: its lines go to `samples.jsonl`, its troubles stop nothing."""

from collections.abc import Callable
from pathlib import Path

from gradscope.config.schema import Preset
from gradscope.core.events import WorkerStarted
from gradscope.core.samples import SampleLine
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.layout import SAMPLES
from gradscope.sampling.loop import Sampler


class RunningSampler:
    """A started sampler and its file."""

    def __init__(self, sampler: Sampler, writer: JsonlWriter) -> None:
        self._sampler = sampler
        self._writer = writer
        self._told = False

    def tell(self, started: WorkerStarted | None) -> None:
        """Pass on which device the worker is on, once that is known."""
        if started is not None and not self._told:
            self._told = True
            self._sampler.worker_started(started.device, started.device_uuid)

    def stop(self) -> bool:
        """Take the last sample and end; a thread that hangs in a driver is left behind, with the file that it holds.

        Returns:
            Whether it ended.
        """
        ended = self._sampler.stop()
        if ended:
            self._writer.close()
        return ended


def start_sampler(
    run_dir: Path,
    preset: Preset,
    worker_pid: int,
    step: Callable[[], int | None],
    trouble: Callable[[str, OSError], None],
) -> RunningSampler | None:
    """Start sampling a worker; `None` where the preset turns that off, or the file cannot be written.

    Args:
        run_dir: Where `samples.jsonl` goes.
        preset: Its `[sampling]` table and `run.device`.
        worker_pid: The root of the tree to sample.
        step: Returns the last finished step.
        trouble: Told of what could not be written, from either thread.
    """
    if not preset.sampling.enabled:
        return None
    try:
        writer = JsonlWriter(run_dir / SAMPLES)
    except OSError as error:
        trouble(SAMPLES, error)
        return None

    def emit(line: SampleLine) -> None:
        try:
            writer.append(line)
        except OSError as error:
            trouble(SAMPLES, error)

    sampler = Sampler(
        root_pid=worker_pid,
        disk_path=run_dir,
        emit=emit,
        interval_ms=preset.sampling.interval_ms,
        step=step,
        device=preset.run.device,
    )
    sampler.start()
    return RunningSampler(sampler, writer)
