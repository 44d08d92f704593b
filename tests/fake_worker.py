"""A worker without torch: writes a real worker's records, and does on request what no real worker should.

    python tests/fake_worker.py BEHAVIOUR RUN_DIR --parent-fd N

Behaviours: see `BEHAVIOURS`. Run by tests of the supervisor, never imported by them.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradscope.core import events as ev
from gradscope.core.events import Stage
from gradscope.rundir.append import JsonlWriter
from gradscope.rundir.control import CaptureRequested, ControlReader, SnapshotRequested, StopRequested
from gradscope.rundir.layout import EVENTS

PHASES = ev.Phases(data=1.0, forward=4.0, backward=8.0, optimizer=2.0, other=0.0)


class Fake:
    """The records of one made-up run."""

    def __init__(self, run_dir: Path, parent_fd: int) -> None:
        self.run_dir = run_dir
        self.writer = JsonlWriter(run_dir / EVENTS)
        self.control = ControlReader(run_dir)
        self.seq = self.step_number = 0
        self.stopped = False
        threading.Thread(target=self.lifeline, args=(parent_fd,), daemon=True).start()

    def lifeline(self, parent_fd: int) -> None:
        while os.read(parent_fd, 1):
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)

    def emit(self, kind: type[ev.Event], **fields: Any) -> None:
        self.writer.append(kind(seq=self.seq, t_ns=time.monotonic_ns(), **fields))
        self.seq += 1

    def start(self, device: str = "cpu", uuid: str | None = None) -> None:
        self.emit(
            ev.WorkerStarted,
            pid=os.getpid(),
            wall_ns=time.time_ns(),
            device=device,
            device_uuid=uuid,
            device_name="Fake device",
            threads=1,
            versions={},
            import_seconds=0.1,
            resident_bytes=1,
        )
        self.emit(ev.StageEntered, stage=Stage.WARMUP, steps=1)
        self.step(Stage.WARMUP)
        self.emit(ev.StageEntered, stage=Stage.MEASURE, steps=None)

    def step(self, stage: Stage = Stage.MEASURE) -> None:
        self.step_number += 1
        self.emit(
            ev.Step,
            step=self.step_number,
            stage=stage,
            wall_ms=15.0,
            phases=PHASES,
            loss=1.0 / self.step_number,
            samples=8,
        )

    def wants_stop(self) -> bool:
        asked = any(isinstance(request, StopRequested) for request in self.control.poll())
        return asked or self.stopped

    def end(self, reason: str = "finished") -> None:
        self.emit(ev.WorkerEnded, reason=reason)


def listen(fake: Fake) -> None:
    def stop(number: int, frame: object) -> None:
        fake.stopped = True

    signal.signal(signal.SIGTERM, stop)


def finishes(fake: Fake) -> int:
    """Trains five steps and is done."""
    fake.start()
    for _ in range(5):
        fake.step()
    fake.end()
    return 0


def trains(fake: Fake, device: str = "cpu", uuid: str | None = None) -> int:
    """Trains until it is asked to stop."""
    listen(fake)
    fake.start(device, uuid)
    while not fake.wants_stop():
        fake.step()
        time.sleep(0.02)
    fake.end("stopped")
    return 0


def on_card(fake: Fake) -> int:
    """Trains on a card whose UUID is `A`, until it is asked to stop."""
    return trains(fake, "cuda:0", "A")


def deaf(fake: Fake) -> int:
    """Trains, and takes no notice of anybody."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    fake.start()
    while True:
        fake.step()
        time.sleep(0.02)


def captures(fake: Fake) -> int:
    """Trains, and says of each capture that it was made; 13 steps bring bad luck, and so does a second snapshot."""
    listen(fake)
    fake.start()
    window = snapshots = 0
    while not fake.stopped:
        for request in fake.control.poll():
            if isinstance(request, CaptureRequested):
                window += 1
                steps, now = request.steps, time.time_ns()
                fake.emit(
                    ev.ProfileStarted,
                    window=window,
                    first_step=fake.step_number + 1,
                    steps=steps,
                    wall_ns=now,
                    requested=True,
                )
                file = None if steps == 13 else f"w{window}-{steps}.pt.trace.json.gz"
                error = "unlucky" if steps == 13 else None
                fake.emit(ev.ProfileEnded, window=window, steps=steps, wall_ns=now, file=file, error=error)
            if isinstance(request, SnapshotRequested):
                snapshots += 1
                lucky = snapshots == 1
                fake.emit(ev.SnapshotWritten, **({"file": "memory/1.pickle"} if lucky else {"error": "unlucky"}))
        fake.step()
        time.sleep(0.02)
    fake.end("stopped")
    return 0


def family(fake: Fake) -> int:
    """Trains with a child in its group, a grandchild, and one that has left group and session."""
    sleep = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(1000)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    children = [
        subprocess.Popen([sys.executable, "-c", nested], stdout=subprocess.PIPE, text=True),
        subprocess.Popen([sys.executable, "-c", sleep], stdout=subprocess.PIPE, text=True, start_new_session=True),
    ]
    pids = [child.pid for child in children] + [int(child.stdout.readline()) for child in children if child.stdout]
    (fake.run_dir / "family.txt").write_text(" ".join(map(str, pids)))
    return trains(fake)


def loads(fake: Fake) -> int:
    """Trains with a child that is tied to it as its loader processes are to a real worker."""
    tied = "import ctypes, time; ctypes.CDLL(None).prctl(1, 9); print(flush=True); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", tied], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    (fake.run_dir / "family.txt").write_text(str(child.pid))
    return trains(fake)


def raises(fake: Fake) -> int:
    """Fails in training."""
    fake.start()
    fake.step()
    print("Traceback (most recent call last):\n  ...\nRuntimeError: the model is broken", flush=True)
    fake.emit(ev.TrainingFailed, error_type="RuntimeError", message="broken [/red]\x1b[2J", out_of_memory=False, step=2)
    fake.end("failed")
    return 1


def starves(fake: Fake) -> int:
    """Runs out of memory, in its own words."""
    fake.start()
    fake.emit(
        ev.TrainingFailed,
        error_type="OutOfMemoryError",
        message="CUDA out of memory",
        out_of_memory=True,
        step=2,
        phase="backward",
        exit_code=3,
    )
    fake.end("failed")
    return 3


def mute(fake: Fake) -> int:
    """Leaves with exit code 5 and says something only to its log."""
    print("first line\nlast words", flush=True)
    return 5


def crashes(fake: Fake) -> int:
    """Dies of native code."""
    fake.start()
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def chatters(fake: Fake) -> int:
    """Fills pipes: 4 MiB of output."""
    for number in range(64):
        print(f"{number:02d}" + "x" * 65533, flush=True)
    return finishes(fake)


def fills(fake: Fake) -> int:
    """Trains until the disk is full, as a real worker would find out."""
    listen(fake)
    fake.start()
    junk = (fake.run_dir / "junk").open("ab", buffering=0)
    try:
        while True:
            fake.step()
            junk.write(b"x" * 65536)
    except OSError as error:
        while True:  # somebody else's writer takes what is left, to the last byte
            try:
                fake.writer.append({"kind": "x"})
            except OSError:
                break
        print(f"OSError: {error}", flush=True)
        return 1


BEHAVIOURS: dict[str, Callable[[Fake], int]] = {
    function.__name__: function
    for function in (
        finishes,
        trains,
        on_card,
        captures,
        deaf,
        family,
        loads,
        raises,
        starves,
        mute,
        crashes,
        chatters,
        fills,
    )
}


def main() -> int:
    behaviour, run_dir, _, parent_fd = sys.argv[1:5]
    return BEHAVIOURS[behaviour](Fake(Path(run_dir), int(parent_fd)))


if __name__ == "__main__":
    sys.exit(main())
