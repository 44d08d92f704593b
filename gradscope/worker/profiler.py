"""One window of torch.profiler: bounded, foretold in size, and never the reason why a run fails."""

import gzip
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from torch._C._autograd import _profiler_enabled
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from gradscope.config.schema import ProfileSettings
from gradscope.rundir.layout import trace_name

# Measured with torch 2.13.0+cpu on two models (an MLP under AdamW, 366 events an update; a transformer encoder, 5,500):
#                         file, bytes/event   memory at stop, bytes/event   recording alone
#   plain                        250                    1,400                 220 to 300
#   memory                       280                    1,400                 160 to 220
#   memory, shapes, flops        378                    2,400                 370 to 550
#   ... and stacks               355 (1.4 to 1.8 times the events)   2,600    220 to 390
FILE_BYTES_PER_EVENT = 280
FILE_BYTES_PER_EVENT_WITH_SHAPES = 380
STOP_BYTES_PER_EVENT = 1_400
STOP_BYTES_PER_EVENT_WITH_SHAPES = 2_600
RECORDING_BYTES_PER_EVENT = 160
RECORDING_BYTES_PER_EVENT_WITH_SHAPES = 370
"""The lowest measured, so that events estimated from a growth in memory are rather too many."""
STACK_EVENTS_FACTOR = 2.3
STACK_EVENTS_FACTOR_AT_MOST = 3.2
"""Events with Python stacks over events without, in a whole engine: 1.7 (vit), 3.0 (llama, checkpointed), 3.2 (an MLP);
the middle foretells a size, the largest bounds a window."""

MEMORY_LIMIT_BYTES = 2 * 1024**3
"""What a window may take at its stop, the moment at which it is largest."""
AVAILABLE_SHARE = 0.5
"""And what share of the memory that was available when it opened."""

COMPRESSION = 1
"""zlib level: 260 to 370 MB/s at a twelfth of the size; level 6 takes twice as long for a seventeenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowResult:
    """How a window ended."""

    file: str | None
    """Name in the run directory; `None` where there is no trace."""
    file_bytes: int | None
    steps: int
    """Whole updates in the trace."""
    error: str | None = None
    """Why there is no trace."""
    shortened: str | None = None
    """Why there are fewer updates than were asked for."""


def foretell(events_per_step: float | None, settings: ProfileSettings, steps: int) -> int | None:
    """Return the expected size in bytes of the uncompressed trace of `steps` updates, `None` where nothing is known.

    Args:
        events_per_step: Events of one update without Python stacks, allocations included.
        settings: What is recorded.
        steps: Updates in the window.
    """
    if events_per_step is None:
        return None
    per_event = FILE_BYTES_PER_EVENT_WITH_SHAPES if settings.shapes else FILE_BYTES_PER_EVENT
    return round(events_per_step * (STACK_EVENTS_FACTOR if settings.stacks else 1.0) * steps * per_event)


class ProfileWindow:
    """Profiles some updates and writes one trace.

    `open`, then `step` after each update until it returns False (or training ends), then `close`. None of them raises
    for a trouble of the profiler's own: `close` says what went wrong.
    """

    def __init__(
        self, settings: ProfileSettings, device: torch.device, run_dir: Path, run_id: str, window: int
    ) -> None:
        """Prepare window number `window` of a run; its trace goes to `run_dir` with `run_id` as the worker's name."""
        self._settings = settings
        self._device = device
        self._run_dir = run_dir
        self._run_id = run_id
        self._window = window
        self._steps_wanted = settings.steps
        self._events_per_step: float | None = None
        self._profile: profile | None = None
        self._range: record_function | None = None
        self._next_step = 0
        self._steps = 0
        self._warming_up = False
        self._error: str | None = None
        self._shortened: str | None = None
        self._resident_at_open = 0
        self._memory_limit = MEMORY_LIMIT_BYTES

    @property
    def lead_in_steps(self) -> int:
        """Updates that run in the window before the first recorded one.

        On CUDA the first kernels after CUPTI starts may be lost (pytorch/pytorch#192021), so one update is let pass.
        """
        return 1 if self._device.type == "cuda" else 0

    @property
    def recording(self) -> bool:
        """Whether updates are being recorded now."""
        return self._profile is not None and self._error is None

    def open(self, first_step: int, *, steps: int | None = None, events_per_step: float | None = None) -> bool:
        """Start recording.

        Args:
            first_step: The run's number of the update that comes next.
            steps: Updates, where they are not the preset's (a capture on request).
            events_per_step: As for `foretell`; where it is not known, it is estimated from the growth of memory.

        Returns:
            Whether an update should follow in this window.
        """
        self._steps_wanted = self._settings.steps if steps is None else steps
        if events_per_step is not None:
            self._events_per_step = events_per_step * (STACK_EVENTS_FACTOR_AT_MOST if self._settings.stacks else 1.0)
        self._next_step = first_step
        if self._steps_wanted == 0:
            return False
        if _profiler_enabled():
            # a second session in one process crashes at exit (torch 2.13)
            self._error = "another profiler is running in this process"
            return False
        self._resident_at_open = _resident_bytes()
        self._memory_limit = min(MEMORY_LIMIT_BYTES, round(psutil.virtual_memory().available * AVAILABLE_SHARE))
        if self._steps_allowed() < 1:
            self._error = (
                f"one update is expected to record {self._events_per_step:,.0f} events, more than fit into a window "
                f"({self._events_allowed():,}); turn off profile.stacks or profile.shapes, or raise profile.max_events"
            )
            return False
        try:
            self._profile = self._make_profile()
            self._profile.prepare_trace()
        except Exception as error:
            return self._give_up(error)
        self._warming_up = self.lead_in_steps > 0
        return True if self._warming_up else self._start()

    def step(self) -> bool:
        """Take note that an update has ended.

        Returns:
            Whether another one should follow in this window.
        """
        if not self.recording:
            return False
        self._next_step += 1
        if self._warming_up:
            self._warming_up = False
            return self._start()
        self._leave_range()
        self._steps += 1
        if self._steps >= self._steps_wanted:
            return False
        self._estimate_events()
        if self._steps + 1 > self._steps_allowed():
            self._shortened = (
                f"closed after {self._steps} of {self._steps_wanted} updates: about "
                f"{self._events_per_step or 0:,.0f} events an update, at most {self._events_allowed():,} in a window"
            )
            return False
        if self._growth_bytes() > self._memory_limit:
            self._shortened = (
                f"closed after {self._steps} of {self._steps_wanted} updates: memory has grown by more than "
                f"{self._memory_limit / 2**20:,.0f} MiB since the window opened"
            )
            return False
        self._enter_range()
        return True

    def close(self) -> WindowResult:
        """Stop recording and write the trace, also after training raised inside the window."""
        finished, self._profile = self._profile, None
        file: str | None = None
        file_bytes: int | None = None
        if finished is not None and self._error is None:
            try:
                self._leave_range()
                if self._warming_up:
                    finished.start_trace()
                finished.stop()
                file, file_bytes = self._write(finished)
            except Exception as error:
                # a full disk or the profiler's own trouble must not hide a training error, which is reported first
                self._error = f"the trace could not be written: {_say(error)}"
        return WindowResult(
            file=file, file_bytes=file_bytes, steps=self._steps, error=self._error, shortened=self._shortened
        )

    def _make_profile(self) -> profile:
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        return profile(
            activities=activities,
            record_shapes=self._settings.shapes,
            profile_memory=self._settings.memory,
            with_stack=self._settings.stacks,
            with_flops=self._settings.flops,
            experimental_config=_export_only() if not self._settings.stacks else None,
        )

    def _start(self) -> bool:
        assert self._profile is not None
        try:
            self._profile.start_trace()
            self._enter_range()
        except Exception as error:
            return self._give_up(error)
        return True

    def _give_up(self, error: Exception) -> bool:
        """Whatever the profiler's trouble at its start is, training goes on; `close` reports it."""
        self._profile = None
        self._error = f"the profiler did not start: {_say(error)}"
        return False

    def _enter_range(self) -> None:
        self._range = record_function(f"ProfilerStep#{self._next_step}")
        self._range.__enter__()  # type: ignore[no-untyped-call]

    def _leave_range(self) -> None:
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def _stop_bytes_per_event(self) -> int:
        return STOP_BYTES_PER_EVENT_WITH_SHAPES if self._settings.shapes else STOP_BYTES_PER_EVENT

    def _events_allowed(self) -> int:
        return min(self._settings.max_events, self._memory_limit // self._stop_bytes_per_event())

    def _steps_allowed(self) -> int:
        if self._events_per_step is None or self._events_per_step <= 0:
            return self._steps_wanted
        return int(self._events_allowed() // self._events_per_step)

    def _growth_bytes(self) -> int:
        return max(_resident_bytes() - self._resident_at_open, 0)

    def _estimate_events(self) -> None:
        """Estimate an update's events from the growth of memory, once it is large enough to mean something."""
        if self._events_per_step is not None:
            return
        growth = self._growth_bytes()
        if growth > MEMORY_LIMIT_BYTES // 32:
            shapes = self._settings.shapes
            per_event = RECORDING_BYTES_PER_EVENT_WITH_SHAPES if shapes else RECORDING_BYTES_PER_EVENT
            self._events_per_step = growth / per_event / self._steps

    def _write(self, finished: profile) -> tuple[str, int]:
        """Export under a name that no tool takes for a trace, check, compress, and rename."""
        plain = self._run_dir / f".window-{self._window}.json"
        packed = self._run_dir / f".window-{self._window}.gz"
        # kineto itself writes to `<name>.tmp` and renames
        leftovers = (plain, plain.with_name(plain.name + ".tmp"), packed)
        try:
            finished.export_chrome_trace(str(plain))
            _check_complete(plain)
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=COMPRESSION) as target:
                shutil.copyfileobj(source, target, 1 << 20)
            name = trace_name(self._run_id, self._window, time.time_ns())
            packed.replace(self._run_dir / name)
            return name, (self._run_dir / name).stat().st_size
        finally:
            for leftover in leftovers:
                leftover.unlink(missing_ok=True)


def _export_only() -> _ExperimentalConfig | None:
    """Return the configuration that prepares no events for reading in Python; `None` where torch has none."""
    try:
        return _ExperimentalConfig(trace_only=True)
    except TypeError:
        return None


def _check_complete(path: Path) -> None:
    """Raise `OSError` unless `path` holds a whole JSON object.

    kineto itself reports no error to Python: neither a full disk nor a missing folder.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise OSError("torch.profiler wrote no file: the disk is full, or the folder is gone or read-only") from None
    with path.open("rb") as file:
        file.seek(max(size - 64, 0))
        if not file.read().rstrip().endswith(b"}"):
            raise OSError("torch.profiler's file ends in the middle: the disk is full")


def _say(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
