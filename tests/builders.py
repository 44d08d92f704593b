"""Made-up runs for tests: event logs with known numbers, and run directories in any state."""

import json
from pathlib import Path
from typing import Any

import msgspec

from gradscope.core import events as ev
from gradscope.core import samples as sm
from gradscope.core.events import Stage
from gradscope.core.status import ProcessId, Status, StatusRecord
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.files import write_json
from gradscope.rundir.host import boot_id, host_name, process_id
from gradscope.rundir.layout import EVENTS, SAMPLES, STATUS, safe_name
from gradscope.rundir.manifest import Manifest, write_manifest

MONOTONIC_START_NS = 5_000_000_000_000
"""Monotonic clock when a made-up worker starts."""

WALL_START_NS = 1_800_000_000_000_000_000
"""Wall clock at the same instant."""

RUN_ID = "20270115T080000Z-0a1b2c"

MIB = 1024 * 1024

GONE = ProcessId(pid=999_999_999, start_time=1.0)
"""A process that does not exist."""


class EventBuilder:
    """Makes events with running numbers; time is milliseconds since the worker's start."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.now_ms = 0.0
        self.steps = 0

    @property
    def now_ns(self) -> int:
        return MONOTONIC_START_NS + round(self.now_ms * 1e6)

    @property
    def wall_ns(self) -> int:
        return WALL_START_NS + round(self.now_ms * 1e6)

    def emit(self, kind: type[ev.Event], **fields: Any) -> None:
        self.events.append(kind(seq=len(self.events), t_ns=self.now_ns, **fields))

    def started(self, **fields: Any) -> None:
        defaults: dict[str, Any] = {
            "pid": 4242,
            "wall_ns": self.wall_ns,
            "device": "cpu",
            "device_name": "Test CPU",
            "threads": 2,
            "versions": {"torch": "2.13.0"},
            "import_seconds": 1.5,
            "resident_bytes": 200 * MIB,
        }
        self.emit(ev.WorkerStarted, **(defaults | fields))

    def built(self, **fields: Any) -> None:
        defaults: dict[str, Any] = {
            "model": "vit",
            "parameters": 1000,
            "trainable_parameters": 1000,
            "batch_rows": 8,
            "micro_steps": 1,
            "strategy": "standard",
            "optimizer": "adam",
            "build_seconds": 0.25,
        }
        self.emit(ev.ModelBuilt, **(defaults | fields))

    def stage(self, stage: Stage, steps: int | None = None) -> None:
        self.emit(ev.StageEntered, stage=stage, steps=steps)

    def step(self, stage: Stage, wall_ms: float, **fields: Any) -> None:
        """One update that takes `wall_ms`: 10 % data, 30 % forward, 40 % backward, 15 % optimizer, 5 % other."""
        self.steps += 1
        self.now_ms += wall_ms
        phases = ev.Phases(
            data=0.1 * wall_ms,
            forward=0.3 * wall_ms,
            backward=0.4 * wall_ms,
            optimizer=0.15 * wall_ms,
            other=0.05 * wall_ms,
        )
        defaults: dict[str, Any] = {
            "step": self.steps,
            "stage": stage,
            "wall_ms": wall_ms,
            "phases": phases,
            "loss": 1.0,
            "samples": 8,
        }
        self.emit(ev.Step, **(defaults | fields))


def finished_events(*, until: Stage | None = None, trace: str | None = None, **started: Any) -> list[Any]:
    """Return the events of a whole run with round numbers.

    2 warm-up steps (100 and 60 ms), 4 measured ones from 2000 ms on (10, 20, 30, 40 ms; loss 4, 3, 2.5, 2; 8 samples
    and 100 tokens each), a memory step (500 ms), 2 profiled ones (300 ms), audit, totals.

    Args:
        until: Stop right after this stage, as if the worker had been killed.
        trace: File name of the profiled window's trace.
        started: Fields of `WorkerStarted`.
    """
    log = EventBuilder()
    for stage, act in {
        Stage.WARMUP: lambda: _warm_up(log, started),
        Stage.MEASURE: lambda: _measure(log),
        Stage.MEMORY: lambda: _look_at_memory(log),
        Stage.PROFILE: lambda: _profile(log, trace),
        Stage.AUDIT: lambda: _finish(log),
    }.items():
        act()
        if stage is until:
            break
    return log.events


def _warm_up(log: EventBuilder, started: dict[str, Any]) -> None:
    log.started(**started)
    log.now_ms = 1000
    log.built()
    log.stage(Stage.WARMUP, 2)
    log.step(Stage.WARMUP, 100, loss=9.0)
    log.step(Stage.WARMUP, 60, loss=8.0)
    log.emit(
        ev.MemoryMeasured,
        step=2,
        source="hooks",
        parameters_bytes=4000,
        buffers_bytes=40,
        gradients_bytes=4000,
        optimizer_state_bytes=8000,
        inputs_bytes=400,
        saved_activations_bytes=6000,
    )


def _measure(log: EventBuilder) -> None:
    log.now_ms = 2000
    log.stage(Stage.MEASURE, 4)
    for wall_ms, loss in ((10, 4.0), (20, 3.0), (30, 2.5), (40, 2.0)):
        log.step(Stage.MEASURE, wall_ms, loss=loss, tokens=100)


def _look_at_memory(log: EventBuilder) -> None:
    log.stage(Stage.MEMORY, 1)
    log.step(Stage.MEMORY, 500, loss=1.0)
    log.emit(
        ev.MemoryMeasured,
        step=7,
        source="allocator",
        peak_activations_bytes=7000,
        forward_end_bytes=6100,
        phase_peak_bytes={"forward": 18_500, "backward": 23_440, "optimizer": 16_500},
        allocated_peak_bytes=23_440,
    )


def _profile(log: EventBuilder, trace: str | None) -> None:
    log.stage(Stage.PROFILE, 2)
    log.emit(ev.ProfileStarted, window=1, first_step=8, steps=2, wall_ns=log.wall_ns)
    log.step(Stage.PROFILE, 300, loss=0.9)
    log.step(Stage.PROFILE, 300, loss=0.8)
    size = None if trace is None else 1234
    log.emit(ev.ProfileEnded, window=1, steps=2, wall_ns=log.wall_ns, file=trace, file_bytes=size)


def _finish(log: EventBuilder) -> None:
    log.emit(ev.Totals, steps=4, samples=32, tokens=400, seconds=0.1, instrumentation_ms=0.5)
    log.emit(ev.FlopsCounted, model_flops=1_000_000, executed_flops=1_300_000)
    log.stage(Stage.AUDIT)
    log.emit(ev.Audited, error=0.0, bound=1e-6, passed=True)
    log.now_ms = 4000
    log.emit(ev.WorkerEnded, reason="finished")


def sample(at_ms: float, *, interval_ms: float = 10.0, host: dict[str, Any] | None = None, gpus: Any = ()) -> sm.Sample:
    """Return a sample taken `at_ms` after the worker's start."""
    return sm.Sample(
        t_ns=MONOTONIC_START_NS + round(at_ms * 1e6),
        interval_ms=interval_ms,
        host=None if host is None else sm.HostSample(**host),
        gpus=[sm.GpuSample(**gpu) for gpu in gpus],
    )


def preset_dict(**tables: Any) -> dict[str, Any]:
    """Return a preset as a manifest holds it, each table in `tables` merged in."""
    preset: dict[str, Any] = {
        "name": "quick",
        "model": {"name": "vit", "scale": "tiny"},
        "data": {"name": "shapes", "batch_size": 8},
        "optimizer": {"name": "adam", "lr": 0.001},
        "memory": {"strategy": "standard", "mode": "grow"},
        "run": {"precision": "fp32", "seed": 7, "threads": 2, "compile": False},
    }
    for name, table in tables.items():
        preset[name] = preset.get(name, {}) | table if isinstance(table, dict) else table
    return preset


def write_lines(path: Path, records: list[Any]) -> None:
    """Append records as JSON lines."""
    writer = JsonlWriter(path)
    for record in records:
        writer.append(record)
    writer.close()


def run_directory(
    out: Path,
    state: Status | str = Status.DONE,
    *,
    events: list[Any] | None = None,
    samples: list[Any] | None = None,
    preset: dict[str, Any] | None = None,
    run_id: str = RUN_ID,
    reason: str | None = None,
    elsewhere: bool = False,
) -> Path:
    """Make a run directory below `out` and return it.

    Args:
        out: The output root.
        state: What its status is. One that is not final is of a live supervisor (this process); `lost` is of one that
            was killed while measuring; `bare` is a directory with a manifest only.
        events: The worker's; those of `finished_events` up to the state, if not given.
        samples: The supervisor's.
        preset: The manifest's preset.
        run_id: Name of the folder.
        reason: The status's reason.
        elsewhere: Whether the folder came from another machine.
    """
    preset = preset or preset_dict()
    run_dir = out / safe_name(str(preset["name"])) / run_id
    run_dir.mkdir(parents=True)
    host, boot = ("elsewhere", "other-boot") if elsewhere else (host_name(), boot_id())
    manifest = Manifest(
        run_id=run_id,
        preset=preset,
        argv=["gradscope", "run", str(preset["name"])],
        created_wall_ns=WALL_START_NS,
        host=host,
        boot_id=boot,
        versions={"gradscope": "0.1.0"},
    )
    write_manifest(run_dir, manifest)
    if state == "bare":
        return run_dir
    status = Status.MEASURING if state == "lost" else Status(state)
    if events is None:
        until = {Status.STARTING: Stage.WARMUP, Status.WARMUP: Stage.WARMUP, Status.MEASURING: Stage.MEASURE}.get(
            status
        )
        events = [] if status is Status.STARTING else finished_events(until=until)
    write_lines(run_dir / EVENTS, events)
    write_lines(run_dir / SAMPLES, samples or [])
    exit_codes = {Status.DONE: 0, Status.FAILED: 1, Status.OOM: 3, Status.CANCELLED: 130, Status.KILLED: 137}
    record = StatusRecord(
        status=status,
        host=host,
        boot_id=boot,
        supervisor=GONE if state == "lost" or status.is_final else process_id(),
        worker=GONE,
        updated_wall_ns=WALL_START_NS,
        updated_monotonic_ns=MONOTONIC_START_NS,
        reason=reason,
        exit_code=exit_codes.get(status),
    )
    write_json(run_dir / STATUS, record)
    return run_dir


def as_plain(record: msgspec.Struct) -> Any:
    """Return a record as the dicts, lists and numbers its JSON holds."""
    return json.loads(msgspec.json.encode(record))
