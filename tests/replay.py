"""A recorded run, made up with round numbers and seeded noise, written as a worker and a supervisor would write it.

It is a process of its own, which stands for both, so that readers take the run for a running one.

Usage: python tests/replay.py OUT [--steps N] [--rate PER_SECOND] [--seconds S] [--gpu] [--warn]
Prints the run directory, then writes; `--steps` are there from the start, the others come at `--rate`.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gradscope.config.convert import preset_to_dict
from gradscope.config.schema import BudgetSettings, ModelSettings, Preset, RunSettings
from gradscope.core import events as ev
from gradscope.core import samples as sm
from gradscope.core.events import Stage
from gradscope.core.status import Status, StatusRecord
from gradscope.rundir.files import write_json
from gradscope.rundir.host import boot_id, host_name, process_id
from gradscope.rundir.layout import EVENTS, SAMPLES, STATUS, WORKER_LOG, create_run_directory
from gradscope.rundir.manifest import Manifest, write_manifest
from gradscope.rundir.registry import register, unregister

MIB = 1024**2
GIB = 1024**3
WARMUP = 10
STEP_MS = 100.0
SAMPLE_SECONDS = 0.1
CARD = "GPU-00000000-0000-0000-0000-000000000001"
WARNING = "UserWarning: the same warning once more, at every step, as some libraries do it"


def preset(planned: int) -> Preset:
    return Preset(
        name="llama-tiny",
        model=ModelSettings(name="llama"),
        budget=BudgetSettings(updates=planned),
        run=RunSettings(warmup=WARMUP, threads=2),
    )


class Recording:
    """The records of a run; time is monotonic nanoseconds."""

    def __init__(self, *, gpu: bool) -> None:
        self._random = random.Random(7)
        self._gpu = gpu
        self._seq = 0

    def _event(self, kind: type[ev.Event], t_ns: int, **fields: Any) -> ev.Event:
        self._seq += 1
        return kind(seq=self._seq - 1, t_ns=t_ns, **fields)

    def opening(self, t_ns: int) -> Iterator[ev.Event]:
        device, name = ("cuda:0", "NVIDIA Test 24G") if self._gpu else ("cpu", "Test CPU")
        yield self._event(
            ev.WorkerStarted,
            t_ns,
            pid=1,
            wall_ns=time.time_ns(),
            device=device,
            device_name=name,
            threads=2,
            versions={"torch": "2.13.0"},
            import_seconds=3.0,
            resident_bytes=300 * MIB,
        )
        yield self._event(
            ev.ModelBuilt,
            t_ns,
            model="llama",
            parameters=86_000_000,
            trainable_parameters=86_000_000,
            batch_rows=8,
            micro_steps=1,
            strategy="standard",
            optimizer="adam",
            build_seconds=1.0,
        )
        yield self._event(ev.StageEntered, t_ns, stage=Stage.WARMUP, steps=WARMUP)

    def step(self, number: int, t_ns: int, planned: int) -> Iterator[ev.Event]:
        if number == WARMUP + 1:
            yield self._event(
                ev.MemoryMeasured,
                t_ns,
                step=WARMUP,
                source="hooks",
                parameters_bytes=328 * MIB,
                buffers_bytes=2 * MIB,
                gradients_bytes=328 * MIB,
                optimizer_state_bytes=656 * MIB,
                inputs_bytes=MIB,
                saved_activations_bytes=420 * MIB,
            )
            yield self._event(ev.StageEntered, t_ns, stage=Stage.MEASURE, steps=planned)
        noise = self._random.random
        wall = STEP_MS * (1 + 0.06 * noise())
        phases = ev.Phases(
            data=2 + noise(),
            h2d=1.0,
            forward=0.31 * wall,
            backward=0.48 * wall,
            optimizer=14.0,
            other=wall * 0.21 - 18 - noise(),
        )
        memory = (
            {"allocated_peak_bytes": round(1.8 * GIB + 40 * MIB * noise()), "reserved_bytes": 2 * GIB}
            if self._gpu
            else {}
        )
        yield self._event(
            ev.Step,
            t_ns,
            step=number,
            stage=Stage.WARMUP if number <= WARMUP else Stage.MEASURE,
            wall_ms=wall,
            phases=phases,
            loss=1.5 + 8 * math.exp(-number / 300) + 0.3 * noise(),
            samples=8,
            tokens=1024,
            **memory,
        )

    def sampler(self, t_ns: int) -> sm.SamplerStarted:
        card = {
            "device": "cuda:0",
            "uuid": CARD,
            "name": "NVIDIA Test 24G",
            "nvml_index": "0",
            "mapped_by": "uuid",
            "power_limit_w": "350",
            "total_bytes": str(24 * GIB),
        }
        return sm.SamplerStarted(
            t_ns=t_ns,
            wall_ns=time.time_ns(),
            interval_ms=SAMPLE_SECONDS * 1000,
            gpus=[card] if self._gpu else [],
            no_gpu_reason=None if self._gpu else "NVML library not found (driver not installed?)",
            host_memory_bytes=16 * GIB,
            cores=2,
        )

    def sample(self, number: int, step: int, t_ns: int) -> sm.Sample:
        noise = self._random.random
        host = sm.HostSample(
            tree_cpu_pct=180 + 20 * noise(),
            core_busy_pct=[90 + 10 * noise(), 85 + 10 * noise()] if number % 10 == 0 else None,
            worker_resident_bytes=round(1.1 * GIB + number * 4096),
            tree_resident_bytes=round(1.3 * GIB + number * 4096),
            available_bytes=9 * GIB,
            disk_free_bytes=50 * GIB,
        )
        card = sm.GpuSample(
            uuid=CARD,
            gpu_busy_pct=round(80 + 15 * noise()),
            memory_busy_pct=round(40 + 10 * noise()),
            used_bytes=round(2.4 * GIB),
            total_bytes=24 * GIB,
            process_bytes=round(2.3 * GIB),
            power_w=240 + 60 * noise(),
            energy_mj=number * 25_000,
            temperature_c=round(60 + 10 * min(1, number / 600)),
            sm_clock_mhz=1980 - (90 if number % 70 < 20 else 0),
            memory_clock_mhz=9501,
            throttle=["power cap"] if number % 70 < 20 else [],
        )
        gpus = [card] if self._gpu else []
        return sm.Sample(t_ns=t_ns, interval_ms=SAMPLE_SECONDS * 1000, step=step or None, host=host, gpus=gpus)


def start_run(out: Path, planned: int, status: Status) -> Path:
    path = create_run_directory(out, "llama-tiny")
    manifest = Manifest(
        run_id=path.name,
        preset=preset_to_dict(preset(planned)),
        argv=["gradscope", "run", "llama-tiny"],
        created_wall_ns=time.time_ns(),
        host=host_name(),
        boot_id=boot_id(),
        versions={"gradscope": "0.1.0"},
    )
    write_manifest(path, manifest)
    record = StatusRecord(
        status=status,
        host=host_name(),
        boot_id=boot_id(),
        supervisor=process_id(),
        worker=process_id(),
        updated_wall_ns=time.time_ns(),
        updated_monotonic_ns=time.monotonic_ns(),
    )
    write_json(path / STATUS, record)
    register(path)
    return path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--warn", action="store_true")
    options = parser.parse_args()
    planned = max(3000, options.steps + 100, round(options.rate * options.seconds))
    path = start_run(options.out, planned, Status.MEASURING)
    encode, recording = msgspec.json.encode, Recording(gpu=options.gpu)
    # a run with steps in it from the start began when the first of them did
    begin = time.monotonic_ns() - round(options.steps * STEP_MS * 1e6)
    step = samples = 0
    with (
        (path / EVENTS).open("ab", buffering=0) as events,
        (path / SAMPLES).open("ab", buffering=0) as sampled,
        (path / WORKER_LOG).open("ab", buffering=0) as log,
    ):

        def write(file: Any, records: Iterator[Any] | list[Any]) -> None:
            file.write(b"".join(encode(record) + b"\n" for record in records))

        write(events, recording.opening(begin))
        write(sampled, [recording.sampler(begin)])
        for first in range(0, options.steps, 1000):
            numbers = range(first + 1, min(first + 1000, options.steps) + 1)
            times = {number: begin + round(number * STEP_MS * 1e6) for number in numbers}
            write(events, (event for number in numbers for event in recording.step(number, times[number], planned)))
            write(sampled, (recording.sample(number, number, times[number]) for number in numbers))
        step = samples = options.steps
        print(path, flush=True)
        started, log_lines = time.monotonic(), 0
        while (elapsed := time.monotonic() - started) < options.seconds:
            now = time.monotonic_ns()
            for number in range(step + 1, options.steps + int(elapsed * options.rate) + 1):
                write(events, recording.step(number, now, planned))
                step = number
                if options.warn:
                    log.write(f"{WARNING}\n".encode())
                    log_lines += 1
            for number in range(samples + 1, options.steps + int(elapsed / SAMPLE_SECONDS) + 1):
                write(sampled, [recording.sample(number, step, now)])
                samples = number
            time.sleep(min(0.05, 1 / options.rate))
    unregister(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
