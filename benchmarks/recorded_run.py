"""Make a run directory as if a run of N steps had been recorded, at once or as it would grow.

python benchmarks/recorded_run.py OUT --steps 100000            a finished run, written at once; prints its path
python benchmarks/recorded_run.py OUT --steps 1200 --rate 10    the same, growing by 10 steps a second from now on
    --written 1000                                              ... of which 1000 are there before the path is printed
    --rate 1000 --log-lines 1                                   ... with a warning at every step

Nothing is trained. Times, losses and samples are made up from a fixed seed: the same arguments give the same run but
for the time it is written at. While it grows, this process stands for its supervisor: killing it kills the run.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gradscope.config.load import load_preset
from gradscope.core import events as ev
from gradscope.core import samples as sm
from gradscope.core.events import Stage
from gradscope.core.status import Status, StatusRecord
from gradscope.launch.spawn import make_manifest
from gradscope.rundir.files import write_json
from gradscope.rundir.host import process_id
from gradscope.rundir.layout import EVENTS, SAMPLES, STATUS, WORKER_LOG, create_run_directory
from gradscope.rundir.manifest import write_manifest
from gradscope.rundir.registry import register, unregister

MIB = 1024 * 1024
GIB = 1024 * MIB
WARMUP_STEPS = 3
PROFILED_STEPS = 2
CARD = "GPU-11111111-2222-3333-4444-555555555555"
WRITE_BYTES = 4 * MIB

Line = tuple[float, str, object]
"""Seconds after the start, file, and record (or, for the log, a line of text)."""


class Clock:
    """Turns seconds after the start into the stamps of records."""

    def __init__(self, seconds_ago: float = 0.0) -> None:
        self.monotonic_ns = time.monotonic_ns() - round(seconds_ago * 1e9)
        self.wall_ns = time.time_ns() - round(seconds_ago * 1e9)

    def at(self, seconds: float) -> int:
        return self.monotonic_ns + round(seconds * 1e9)


def timeline(steps: int, *, rate: float, gpu: bool, clock: Clock, log_lines: int = 0) -> Iterator[Line]:
    """Yield all that a run of `steps` measured steps writes, in order of time; a sample every 0.1 s.

    Args:
        steps: Measured steps; warm-up, one for memory and two profiled ones come on top.
        rate: Steps in a second.
        gpu: On a card of 24 GiB, else on a CPU.
        clock: The run's.
        log_lines: Equal lines of output a step.
    """
    chance = random.Random(7)
    number = 0

    def event(at_seconds: float, kind: type[ev.Event], /, **fields: object) -> Line:
        nonlocal number
        number += 1
        return at_seconds, EVENTS, kind(seq=number - 1, t_ns=clock.at(at_seconds), **fields)

    now = 0.0
    yield now, SAMPLES, _sampler_started(gpu, clock)
    yield event(now, ev.WorkerStarted, **_started(gpu, clock))
    yield event(now, ev.ModelBuilt, **_built())
    yield now, WORKER_LOG, "Loading weights: 100%\n"
    planned = {
        Stage.WARMUP: WARMUP_STEPS,
        Stage.MEASURE: steps,
        Stage.MEMORY: 1,
        Stage.PROFILE: PROFILED_STEPS,
    }
    step, sampled = 0, 0
    for stage, count in planned.items():
        yield event(now, ev.StageEntered, stage=stage, steps=count)
        if stage is Stage.PROFILE:
            wall_ns = clock.wall_ns + round(now * 1e9)
            yield event(now, ev.ProfileStarted, window=1, first_step=step + 1, steps=count, wall_ns=wall_ns)
        for _ in range(count):
            step += 1
            seconds = chance.gauss(1, 0.05) / rate * (1 if stage is Stage.MEASURE else 3)
            now += max(0.2 / rate, seconds)
            while (sampled + 1) * 0.1 <= now:
                sampled += 1
                yield sampled * 0.1, SAMPLES, _sample(sampled, step, gpu, clock, chance)
            yield event(now, ev.Step, **_step(step, stage, seconds * 1000, gpu, chance))
            if log_lines:
                yield (
                    now,
                    WORKER_LOG,
                    "UserWarning: use_cache is incompatible with gradient checkpointing\n" * log_lines,
                )
            if step == WARMUP_STEPS:
                yield event(now, ev.MemoryMeasured, **_categories(step))
        if stage is Stage.MEMORY:
            yield event(now, ev.MemoryMeasured, **_peaks(step))
    wall_ns = clock.wall_ns + round(now * 1e9)
    yield event(now, ev.ProfileEnded, window=1, steps=PROFILED_STEPS, wall_ns=wall_ns, error="made up")
    yield event(
        now,
        ev.Totals,
        steps=steps,
        samples=8 * steps,
        tokens=1024 * steps,
        seconds=steps / rate,
        instrumentation_ms=0.05 * steps,
    )
    yield event(now, ev.StageEntered, stage=Stage.AUDIT)
    yield event(now, ev.Audited, error=0.0, bound=1e-6, passed=True)
    yield event(now, ev.WorkerEnded, reason="finished")


def record(out: Path, steps: int, *, rate: float = 10.0, gpu: bool = False, log_lines: int = 0) -> Path:
    """Write a finished run at once and return its folder."""
    run_dir = _create(out, steps, gpu)
    clock = Clock()
    encode = msgspec.json.Encoder().encode
    buffers = {name: bytearray() for name in (EVENTS, SAMPLES, WORKER_LOG)}
    for _, name, line in timeline(steps, rate=rate, gpu=gpu, clock=clock, log_lines=log_lines):
        buffers[name] += line.encode() if isinstance(line, str) else encode(line) + b"\n"
        if len(buffers[name]) > WRITE_BYTES:
            _append(run_dir / name, buffers[name])
    for name, buffer in buffers.items():
        _append(run_dir / name, buffer)
    _write_status(run_dir, Status.DONE)
    return run_dir


def replay(
    run_dir: Path,
    steps: int,
    *,
    rate: float = 10.0,
    written: int = 0,
    gpu: bool = False,
    log_lines: int = 0,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Let a run grow in `run_dir`, made by `prepare`, as it would while it trains; returns when it is over.

    Its first `written` steps are there at once, stamped as if it had started that long ago; then `ready` is called.
    """
    clock = Clock(seconds_ago=written / rate)
    encode = msgspec.json.Encoder().encode
    waiting = {name: bytearray() for name in (EVENTS, SAMPLES, WORKER_LOG)}
    status, caught_up = Status.STARTING, False
    for seconds, name, line in timeline(steps, rate=rate, gpu=gpu, clock=clock, log_lines=log_lines):
        wait = clock.at(seconds) / 1e9 - time.monotonic()
        if wait > 0:
            for file, lines in waiting.items():
                _append(run_dir / file, lines)
            if not caught_up:
                caught_up = True
                ready()
            time.sleep(wait)
        waiting[name] += line.encode() if isinstance(line, str) else encode(line) + b"\n"
        if isinstance(line, ev.StageEntered) and (now := STATUS_OF.get(line.stage)) is not None and now is not status:
            status = now
            _write_status(run_dir, status)
    for file, lines in waiting.items():
        _append(run_dir / file, lines)
    _write_status(run_dir, Status.DONE)


STATUS_OF = {
    Stage.WARMUP: Status.WARMUP,
    Stage.MEASURE: Status.MEASURING,
    Stage.PROFILE: Status.PROFILING,
    Stage.AUDIT: Status.AUDITING,
}


def prepare(out: Path, steps: int, *, gpu: bool = False) -> Path:
    """Make the folder of a run that is about to grow; this process is its supervisor."""
    run_dir = _create(out, steps, gpu)
    _write_status(run_dir, Status.STARTING)
    register(run_dir)
    return run_dir


def _create(out: Path, steps: int, gpu: bool) -> Path:
    preset = load_preset("llama-tiny", [f"budget.updates={steps}", f"run.warmup={WARMUP_STEPS}", "profile.steps=2"])
    run_dir = create_run_directory(out, preset.name)
    write_manifest(run_dir, make_manifest(run_dir.name, preset, ["gradscope", "run", preset.name]))
    return run_dir


def _append(path: Path, content: bytearray) -> None:
    if not content:
        return
    with path.open("ab", buffering=0) as file:
        file.write(content)
    content.clear()


def _write_status(run_dir: Path, status: Status) -> None:
    manifest = make_manifest(run_dir.name, load_preset("llama-tiny"), [])
    write_json(
        run_dir / STATUS,
        StatusRecord(
            status=status,
            host=manifest.host,
            boot_id=manifest.boot_id,
            supervisor=process_id(),
            worker=process_id(),
            updated_wall_ns=time.time_ns(),
            updated_monotonic_ns=time.monotonic_ns(),
            exit_code=0 if status.is_final else None,
        ),
    )


def _started(gpu: bool, clock: Clock) -> dict[str, object]:
    return {
        "pid": 4242,
        "wall_ns": clock.wall_ns,
        "device": "cuda:0" if gpu else "cpu",
        "device_name": "Made-up Card 24" if gpu else "Made-up CPU",
        "device_uuid": CARD if gpu else None,
        "device_memory_bytes": 24 * GIB if gpu else None,
        "threads": 2,
        "versions": {"torch": "2.13.0"},
        "import_seconds": 1.5,
        "resident_bytes": 200 * MIB,
    }


def _built() -> dict[str, object]:
    return {
        "model": "llama",
        "parameters": 25 * MIB,
        "trainable_parameters": 25 * MIB,
        "batch_rows": 8,
        "micro_steps": 1,
        "strategy": "standard",
        "optimizer": "adam",
        "build_seconds": 0.5,
    }


def _step(step: int, stage: Stage, wall_ms: float, gpu: bool, chance: random.Random) -> dict[str, object]:
    shares = {"data": 0.02, "h2d": 0.01, "forward": 0.31, "backward": 0.55, "optimizer": 0.08, "other": 0.03}
    return {
        "step": step,
        "stage": stage,
        "wall_ms": wall_ms,
        "phases": ev.Phases(**{name: share * wall_ms for name, share in shares.items()}),
        "loss": 0.5 + 6 / (1 + step / 200) + chance.gauss(0, 0.05),
        "samples": 8,
        "tokens": 1024,
        "allocated_peak_bytes": 6 * GIB + step % 7 * MIB if gpu else None,
        "reserved_bytes": 8 * GIB if gpu else None,
    }


def _categories(step: int) -> dict[str, object]:
    return {
        "step": step,
        "source": "hooks",
        "parameters_bytes": 100 * MIB,
        "buffers_bytes": 1 * MIB,
        "gradients_bytes": 100 * MIB,
        "optimizer_state_bytes": 200 * MIB,
        "inputs_bytes": 4 * MIB,
        "saved_activations_bytes": 600 * MIB,
    }


def _peaks(step: int) -> dict[str, object]:
    return {
        "step": step,
        "source": "allocator",
        "peak_activations_bytes": 650 * MIB,
        "forward_end_bytes": 600 * MIB,
        "phase_peak_bytes": {"forward": 900 * MIB, "backward": 1000 * MIB, "optimizer": 500 * MIB},
        "allocated_peak_bytes": 1000 * MIB,
    }


def _sampler_started(gpu: bool, clock: Clock) -> sm.SamplerStarted:
    card = {
        "device": "cuda:0",
        "uuid": CARD,
        "name": "Made-up Card 24",
        "nvml_index": "0",
        "mapped_by": "uuid",
        "power_limit_w": "450",
        "total_bytes": str(24 * GIB),
    }
    return sm.SamplerStarted(
        t_ns=clock.at(0),
        wall_ns=clock.wall_ns,
        interval_ms=100.0,
        gpus=[card] if gpu else [],
        no_gpu_reason=None if gpu else "NVML library not found (driver not installed?)",
        host_memory_bytes=32 * GIB,
        cores=2,
    )


def _sample(number: int, step: int, gpu: bool, clock: Clock, chance: random.Random) -> sm.Sample:
    slow = number % 10 == 0
    host = sm.HostSample(
        tree_cpu_pct=chance.gauss(180, 10),
        core_busy_pct=[chance.gauss(90, 5), chance.gauss(90, 5)] if slow else None,
        worker_resident_bytes=1 * GIB + chance.randrange(MIB),
        tree_resident_bytes=1 * GIB + chance.randrange(MIB),
        available_bytes=16 * GIB,
        disk_free_bytes=100 * GIB if slow else None,
    )
    card = sm.GpuSample(
        uuid=CARD,
        gpu_busy_pct=float(chance.randrange(70, 100)),
        memory_busy_pct=float(chance.randrange(30, 60)),
        used_bytes=9 * GIB,
        process_bytes=8 * GIB if slow else None,
        power_w=chance.gauss(300, 20),
        energy_mj=30_000 * number,
        temperature_c=65.0,
        sm_clock_mhz=1500,
        memory_clock_mhz=5000,
        throttle=[] if number % 50 else ["power cap"],
    )
    return sm.Sample(
        t_ns=clock.at(number * 0.1), interval_ms=100.0, step=step - 1, host=host, gpus=[card] if gpu else []
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rate", type=float, help="steps in a second; without it, all is written at once")
    parser.add_argument("--written", type=int, default=0, help="steps that are there from the start, with --rate")
    parser.add_argument("--gpu", action="store_true", help="on a made-up card")
    parser.add_argument("--log-lines", type=int, default=0, help="equal lines of output a step")
    args = parser.parse_args()
    if args.rate is None:
        print(record(args.out, args.steps, gpu=args.gpu, log_lines=args.log_lines))
        return
    run_dir = prepare(args.out, args.steps, gpu=args.gpu)
    replay(
        run_dir,
        args.steps,
        rate=args.rate,
        written=args.written,
        gpu=args.gpu,
        log_lines=args.log_lines,
        ready=lambda: print(run_dir, flush=True),
    )
    unregister(run_dir)


if __name__ == "__main__":
    main()
