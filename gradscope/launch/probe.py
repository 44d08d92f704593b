"""What torch itself says, asked in a process of its own: an import that hangs or aborts there harms nobody."""

import subprocess
import sys
from dataclasses import dataclass

import msgspec

PROBE_SECONDS = 90.0

CODE = """
import json, torch
devices = []
if torch.cuda.is_available():
    for place in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(place)
        devices.append({"name": properties.name, "uuid": str(getattr(properties, "uuid", "")) or None})
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "devices": devices}))
"""


class TorchDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A CUDA device as torch sees it."""

    name: str
    uuid: str | None


class TorchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What torch says of itself; `cuda` is the version it was built for, `None` for a build without."""

    version: str
    cuda: str | None
    devices: list[TorchDevice]


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """Why there is no answer: one line."""

    reason: str


def probe_torch(timeout_s: float = PROBE_SECONDS) -> TorchFacts | ProbeFailed:
    """Import torch in a fresh interpreter and ask for its CUDA devices."""
    output = run_python(CODE, timeout_s)
    if isinstance(output, ProbeFailed):
        return output
    try:
        return msgspec.json.decode(output.splitlines()[-1], type=TorchFacts)
    except (IndexError, msgspec.DecodeError) as error:
        return ProbeFailed(f"torch imports, but its answer is not understood: {error}")


def run_python(code: str, timeout_s: float) -> str | ProbeFailed:
    """Run code in this environment's interpreter; return what it printed, or the last line of its error."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return ProbeFailed(f"no answer within {timeout_s:g} s")
    except OSError as error:
        return ProbeFailed(f"Python does not start: {error.strerror}")
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return ProbeFailed(said[-1])
    return done.stdout
