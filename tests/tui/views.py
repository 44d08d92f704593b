"""Made-up views of runs for tests of screens and panes: round numbers, any of them to be replaced by keyword.

    view()                                   40 steps of 100 ms on a CPU, running, measuring step 38 of 120
    running_view(steps=step_columns(5))      the same, said aloud
    gpu_view()                               on a card of 24 GiB, busy 80 %, 250 W
    finished_view(), oom_view()              over
    ListFeed([view(), finished_view()])      a feed without a run: one view a read, the last one again and again

Step n (from 1) ends n x 100 ms after the worker's start; steps 1 and 2 are warm-up and take 200 ms. Its phases: 10 %
data, 30 % forward, 40 % backward, 15 % optimizer, 5 % other. Its loss is 4 - n/20.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from gradscope.config.schema import BudgetSettings, DataSettings, ModelSettings, OptimizerSettings, Preset, RunSettings
from gradscope.core.events import (
    Audited,
    MemoryMeasured,
    ModelBuilt,
    ProfileEnded,
    ProfileStarted,
    Stage,
    TrainingFailed,
    WorkerStarted,
)
from gradscope.core.samples import SamplerStarted
from gradscope.core.status import ProcessId, Status, StatusRecord
from gradscope.tui.feed import never
from gradscope.tui.view import (
    GPU_COLUMNS,
    HOST_COLUMNS,
    STAGES,
    STEP_COLUMNS,
    Columns,
    LogLine,
    Remark,
    RunView,
    Table,
    Window,
)
from tests.builders import MIB, MONOTONIC_START_NS, RUN_ID, WALL_START_NS

GIB = 1024 * MIB

CARD = "GPU-11111111-2222-3333-4444-555555555555"

STEP_MS = 100.0

WARMUP_STEPS = 2

PATH = Path("/runs/llama-tiny") / RUN_ID

PRESET = Preset(
    name="llama-tiny",
    model=ModelSettings(name="llama"),
    data=DataSettings(name="text"),
    optimizer=OptimizerSettings(name="adam", lr=1e-3),
    budget=BudgetSettings(updates=120),
    run=RunSettings(warmup=WARMUP_STEPS, threads=2),
)

_revisions = count(1)


class ListFeed:
    """A feed that hands out views one after another; the last one stays."""

    def __init__(self, views: Sequence[RunView]) -> None:
        self._views = list(views)
        self.reads = 0

    def read(self, enough: Callable[[], bool] = never) -> RunView:
        found = self._views[min(self.reads, len(self._views) - 1)]
        self.reads += 1
        return found


def ms(milliseconds: float) -> int:
    """Return a monotonic reading so many milliseconds after the worker's start."""
    return MONOTONIC_START_NS + round(milliseconds * 1e6)


def step_columns(steps: int = 40, *, profiled: Sequence[int] = (), gpu: bool = False, **columns: Any) -> Columns:
    """Return the columns of `steps` steps.

    Args:
        steps: How many.
        profiled: Numbers of steps (from 1) that the profiler distorts: 300 ms each.
        gpu: Whether each step has the allocator's peak (6 GiB) and what it has reserved (8 GiB).
        columns: By name, a value for all steps, a list with one for each, or a function of the step's number.
    """
    table = Table(STEP_COLUMNS)
    for number in range(1, steps + 1):
        stage = Stage.PROFILE if number in profiled else Stage.WARMUP if number <= WARMUP_STEPS else Stage.MEASURE
        wall_ms = {Stage.PROFILE: 300.0, Stage.WARMUP: 200.0}.get(stage, STEP_MS)
        row: dict[str, Any] = {
            "step": number,
            "t_ns": ms(number * STEP_MS),
            "stage": STAGES.index(stage),
            "covers": 1,
            "wall_ms": wall_ms,
            "data": 0.1 * wall_ms,
            "h2d": 0.0,
            "forward": 0.3 * wall_ms,
            "backward": 0.4 * wall_ms,
            "recompute": None,
            "optimizer": 0.15 * wall_ms,
            "other": 0.05 * wall_ms,
            "loss": 4.0 - number / 20,
            "samples": 8,
            "tokens": 1000,
            "allocated_peak_bytes": 6 * GIB if gpu else None,
            "reserved_bytes": 8 * GIB if gpu else None,
        }
        table.append(**(row | _of(columns, number)))
    return table.columns()


def host_columns(samples: int = 40, **columns: Any) -> Columns:
    """Return the columns of `samples` samples, one a step: 150 % CPU, 1 GiB resident, 16 GiB free, 100 GiB of disk."""
    table = Table(HOST_COLUMNS)
    for number in range(1, samples + 1):
        row: dict[str, Any] = {
            "t_ns": ms(number * STEP_MS),
            "step": number,
            "tree_cpu_pct": 150.0,
            "worker_resident_bytes": 1 * GIB,
            "tree_resident_bytes": 1 * GIB,
            "available_bytes": 16 * GIB,
            "disk_free_bytes": 100 * GIB,
        }
        table.append(**(row | _of(columns, number)))
    return table.columns()


def gpu_columns(samples: int = 40, **columns: Any) -> Columns:
    """Return the columns of one card: 80 % busy, memory 40 %, 9 GiB used, 250 W, 60 °C, 1500 and 5000 MHz."""
    table = Table(GPU_COLUMNS)
    for number in range(1, samples + 1):
        row: dict[str, Any] = {
            "gpu_busy_pct": 80.0,
            "memory_busy_pct": 40.0,
            "used_bytes": 9 * GIB,
            "process_bytes": 8.5 * GIB,
            "power_w": 250.0,
            "energy_mj": 25_000 * number,
            "temperature_c": 60.0,
            "sm_clock_mhz": 1500,
            "memory_clock_mhz": 5000,
            "throttled": 0,
        }
        table.append(**(row | _of(columns, number)))
    return table.columns()


def _of(columns: dict[str, Any], number: int) -> dict[str, Any]:
    def value(given: Any) -> Any:
        if callable(given):
            return given(number)
        return given[number - 1] if isinstance(given, list) else given

    return {name: value(given) for name, given in columns.items()}


def status(state: Status = Status.MEASURING, **fields: Any) -> StatusRecord:
    """Return a status record of this run."""
    defaults: dict[str, Any] = {
        "host": "bench",
        "boot_id": "boot",
        "supervisor": ProcessId(pid=100, start_time=1.0),
        "worker": ProcessId(pid=101, start_time=2.0),
        "updated_wall_ns": WALL_START_NS,
        "updated_monotonic_ns": MONOTONIC_START_NS,
    }
    return StatusRecord(status=state, **(defaults | fields))


def started(**fields: Any) -> WorkerStarted:
    """Return the worker's first record: on a CPU with 2 threads."""
    defaults: dict[str, Any] = {
        "pid": 101,
        "wall_ns": WALL_START_NS,
        "device": "cpu",
        "device_name": "Test CPU",
        "threads": 2,
        "versions": {"torch": "2.13.0"},
        "import_seconds": 1.5,
        "resident_bytes": 200 * MIB,
    }
    return WorkerStarted(seq=0, t_ns=MONOTONIC_START_NS, **(defaults | fields))


def built(**fields: Any) -> ModelBuilt:
    """Return the second record: a Llama of 26.2 million parameters, plain Adam."""
    defaults: dict[str, Any] = {
        "model": "llama",
        "parameters": 25 * MIB,
        "trainable_parameters": 25 * MIB,
        "batch_rows": 8,
        "micro_steps": 1,
        "strategy": "standard",
        "optimizer": "adam",
        "build_seconds": 0.5,
    }
    return ModelBuilt(seq=1, t_ns=ms(500), **(defaults | fields))


def categories(**fields: Any) -> MemoryMeasured:
    """Return memory by category, in MiB: 100 parameters, 100 gradients, 200 optimizer, 4 inputs, 600 activations."""
    defaults: dict[str, Any] = {
        "step": WARMUP_STEPS,
        "parameters_bytes": 100 * MIB,
        "buffers_bytes": 1 * MIB,
        "gradients_bytes": 100 * MIB,
        "optimizer_state_bytes": 200 * MIB,
        "inputs_bytes": 4 * MIB,
        "saved_activations_bytes": 600 * MIB,
    }
    return MemoryMeasured(seq=5, t_ns=ms(200), source="hooks", **(defaults | fields))


def allocator(**fields: Any) -> MemoryMeasured:
    """Return peaks, in MiB: 900 in forward, 1000 in backward, 500 in the optimizer; 650 of activations."""
    defaults: dict[str, Any] = {
        "step": 123,
        "peak_activations_bytes": 650 * MIB,
        "forward_end_bytes": 600 * MIB,
        "phase_peak_bytes": {"forward": 900 * MIB, "backward": 1000 * MIB, "optimizer": 500 * MIB},
        "allocated_peak_bytes": 1000 * MIB,
    }
    return MemoryMeasured(seq=200, t_ns=ms(12_300), source="allocator", **(defaults | fields))


def window(
    number: int = 1, *, first_step: int = 124, steps: int = 2, file: str | None = "w1.pt.trace.json.gz"
) -> Window:
    """Return a window of the profiler that was closed; one without a file had an error."""
    opened = ProfileStarted(
        seq=201, t_ns=ms(12_400), window=number, first_step=first_step, steps=steps, wall_ns=WALL_START_NS
    )
    ended = ProfileEnded(
        seq=204,
        t_ns=ms(13_000),
        window=number,
        steps=steps,
        wall_ns=WALL_START_NS,
        file=file,
        file_bytes=None if file is None else 2 * MIB,
        error=None if file else "no space left on device",
    )
    return Window(opened, ended)


def view(**fields: Any) -> RunView:
    """Return a run on a CPU that is measuring; each call has a revision of its own, higher than the one before."""
    steps: Columns = fields.get("steps") or step_columns()
    host: Columns = fields.get("host") or host_columns(steps.count)
    measured = sum(1 for stage in steps.values("stage") if stage == STAGES.index(Stage.MEASURE))
    defaults: dict[str, Any] = {
        "revision": next(_revisions),
        "path": PATH,
        "run_id": RUN_ID,
        "preset_name": PRESET.name,
        "preset": PRESET,
        "status": status(),
        "running": True,
        "doing": "measuring",
        "stage": Stage.MEASURE,
        "stage_done": measured,
        "stage_planned": 120,
        "share_done": min(1.0, steps.count / 125),
        "seconds_left": max(0.0, (125 - steps.count) * STEP_MS / 1000),
        "silent_seconds": 0.0,
        "started": started(),
        "built": built(),
        "steps": steps,
        "host": host,
        "core_busy_pct": (90.0, 60.0),
        "gpus": {},
        "sampler": SamplerStarted(
            t_ns=MONOTONIC_START_NS,
            wall_ns=WALL_START_NS,
            interval_ms=100.0,
            no_gpu_reason="NVML library not found (driver not installed?)",
            host_memory_bytes=32 * GIB,
            cores=2,
        ),
        "throttle_reasons": (),
        "own_gpu": None,
        "categories": categories(),
        "allocator": None,
        "windows": (),
        "audit": None,
        "failure": None,
        "median_step_ms": STEP_MS if measured else None,
        "remarks": (),
        "log": (LogLine("Loading weights"), LogLine("UserWarning: use_cache is off", 37)),
        "problems": (),
    }
    return RunView(**(defaults | fields))


running_view = view
"""The same by a name that says it."""


def starting_view(**fields: Any) -> RunView:
    """Return a run whose worker has not said anything yet."""
    defaults: dict[str, Any] = {
        "status": status(Status.STARTING, worker=None),
        "doing": "starting",
        "stage": None,
        "stage_planned": None,
        "share_done": None,
        "seconds_left": None,
        "silent_seconds": None,
        "started": None,
        "built": None,
        "steps": step_columns(0),
        "host": host_columns(0),
        "core_busy_pct": (),
        "sampler": None,
        "categories": None,
        "median_step_ms": None,
        "log": (),
    }
    return view(**(defaults | fields))


def finished_view(**fields: Any) -> RunView:
    """Return a run that is done: 2 steps of warm-up, 120 measured, one for memory, 2 profiled; audited."""
    steps: Columns = fields.get("steps") or step_columns(125, profiled=(124, 125))
    defaults: dict[str, Any] = {
        "status": status(Status.DONE, exit_code=0),
        "running": False,
        "doing": "done",
        "stage": Stage.AUDIT,
        "stage_done": 0,
        "stage_planned": None,
        "share_done": 1.0,
        "seconds_left": None,
        "silent_seconds": None,
        "steps": steps,
        "allocator": allocator(),
        "windows": (window(),),
        "audit": Audited(seq=210, t_ns=ms(14_000), error=0.0, bound=1e-6, passed=True),
        "remarks": (Remark("trace of 2 steps: w1.pt.trace.json.gz (2.00 MiB)"),),
    }
    return view(**(defaults | fields))


def gpu_view(**fields: Any) -> RunView:
    """Return a running run on a card of 24 GiB with a limit of 450 W."""
    steps: Columns = fields.get("steps") or step_columns(gpu=True)
    defaults: dict[str, Any] = {
        "steps": steps,
        "started": started(
            device="cuda:0",
            device_name="Test Card 24",
            device_uuid=CARD,
            device_memory_bytes=24 * GIB,
            versions={"torch": "2.13.0", "cuda": "13.0"},
        ),
        "gpus": {CARD: gpu_columns(steps.count)},
        "own_gpu": CARD,
        "sampler": SamplerStarted(
            t_ns=MONOTONIC_START_NS,
            wall_ns=WALL_START_NS,
            interval_ms=100.0,
            gpus=[
                {
                    "device": "cuda:0",
                    "uuid": CARD,
                    "name": "Test Card 24",
                    "nvml_index": "0",
                    "mapped_by": "uuid",
                    "power_limit_w": "450",
                    "total_bytes": str(24 * GIB),
                }
            ],
            driver="580.1",
            host_memory_bytes=32 * GIB,
            cores=2,
        ),
        "categories": categories(
            parameters_bytes=1 * GIB,
            buffers_bytes=0,
            gradients_bytes=1 * GIB,
            optimizer_state_bytes=2 * GIB,
            inputs_bytes=0,
            saved_activations_bytes=2 * GIB,
        ),
    }
    return view(**(defaults | fields))


def oom_view(**fields: Any) -> RunView:
    """Return a run on the card that ran out of memory at step 3, in backward."""
    steps: Columns = fields.get("steps") or step_columns(2, gpu=True)
    hint = "memory.accumulate=4 with memory.mode=split needs a quarter of the activations"
    defaults: dict[str, Any] = {
        "status": status(
            Status.OOM, exit_code=3, reason="out of memory at step 3, backward: 5.10 of 24.0 GiB free", hint=hint
        ),
        "running": False,
        "doing": "oom",
        "stage": Stage.MEASURE,
        "stage_done": 0,
        "seconds_left": None,
        "silent_seconds": None,
        "steps": steps,
        "median_step_ms": None,
        "failure": TrainingFailed(
            seq=9,
            t_ns=ms(300),
            error_type="OutOfMemoryError",
            message="CUDA out of memory. Tried to allocate 6.00 GiB.",
            out_of_memory=True,
            step=3,
            phase="backward",
            hint=hint,
            exit_code=3,
        ),
        "log": (LogLine("Traceback (most recent call last):"), LogLine("torch.OutOfMemoryError: CUDA out of memory.")),
    }
    return gpu_view(**(defaults | fields))
