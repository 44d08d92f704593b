"""Memory foretold: the process that traces presets' updates on tensors without data, asked from here."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec
import psutil

from gradscope.config.convert import preset_to_dict
from gradscope.config.schema import Preset
from gradscope.core.estimate import Answer, Estimate
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.handshake import hear_line
from gradscope.sampling.cgroup import memory_allowance, memory_groups

ESTIMATE_SECONDS = 600.0
"""How long one estimate may take, imports included; a model of a billion parameters takes 10 s."""

COMMAND = ["-P", "-m", "gradscope.worker.estimate"]
"""What Python is started with; `-P` as for the worker."""

ROOM_SHARE = {"cpu": 0.8, "cuda": 0.95}
"""Share of the free memory that an update's peak may take. The rest is for what is no tensor: on a CPU the process
itself, rows in the making, and memory that the C library keeps; on a card what the caching allocator cannot use of its
blocks."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many bytes an update's peak may take, and why."""

    size_bytes: int
    source: str


class Estimator:
    """A process that foretells presets one after another: torch is imported once. A context."""

    def __init__(self, *, timeout_s: float = ESTIMATE_SECONDS) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed in __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._said.close()

    def estimate(self, preset: Preset) -> Estimate:
        """Foretell the memory of one update of a preset.

        Raises:
            GradscopeError: The preset's parts cannot be built, its update cannot be traced, or the process failed.
        """
        process = self._process or self._start()
        if self._cancelled:
            process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(preset_to_dict(preset)) + b"\n")
            process.stdin.flush()
            line = hear_line(process.stdout.fileno(), self._timeout_s)
        except BrokenPipeError:
            line = b""
        if not line:
            self._end()
            reason = f"no answer within {self._timeout_s:g} s" if line is None else self._last_words()
            raise GradscopeError(f"the memory of {preset.name} cannot be foretold: {reason}", "run it instead")
        answer = msgspec.json.decode(line, type=Answer)
        if answer.estimate is not None:
            return answer.estimate
        assert answer.refusal is not None, "an answer is one of the two"
        raise GradscopeError(answer.refusal.message, answer.refusal.hint, exit_code=ExitCode(answer.refusal.exit_code))

    def cancel(self) -> None:
        """End the estimate that another thread waits for, or is about to: it is refused there."""
        self._cancelled = True
        process = self._process
        if process is not None:
            process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            self._process = subprocess.Popen(
                [sys.executable, *COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
            )
        except OSError as error:
            raise GradscopeError(
                f"Python does not start: {error.strerror}",
                "the system may be out of processes or memory",
                exit_code=ExitCode.ENVIRONMENT,
            ) from error
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _last_words(self) -> str:
        self._said.seek(0, os.SEEK_SET)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its process ended"


def estimate(preset: Preset) -> Estimate:
    """Foretell one preset in a process of its own; see `Estimator.estimate`."""
    with Estimator() as estimator:
        return estimator.estimate(preset)


def room_for(found: Estimate) -> Room | None:
    """Return what an update like this may take on this machine now; `None` where it is for a card that is not here."""
    share = ROOM_SHARE[found.device]
    if found.device == "cuda":
        if found.device_free_bytes is None:
            return None
        free, what = found.device_free_bytes, "of the card's free memory"
    else:
        allowance = memory_allowance(memory_groups())
        free, what = psutil.virtual_memory().available, "of the memory available now"
        if allowance is not None and allowance.available_bytes < free:
            free, what = allowance.available_bytes, "of what the control group leaves"
    return Room(int(free * share), f"{share:.0%} {what}".replace("%", " %"))
