"""Builds the NVML stub with the system's C compiler, and writes scripts for it.

A script has one directive a line:

    gpu UUID BUS_ID NAME...                a card, in NVML's order
    mig PARENT_UUID UUID GI CI             a slice of a card
    set UUID KEY VALUE...                  what successive calls answer, the last for ever; unset is "not supported"
    process UUID compute|graphics PID BYTES
    error FUNCTION UUID|* CODE [FROM [TO]] an error code from the FROMth call on (`*` as function: every call on a card)
    sleep FUNCTION MILLISECONDS            how long each call takes
    driver VERSION CUDA                    e.g. `driver 580.1 13000`

FUNCTION is NVML's name without `nvml` and the version of the symbol (but `DeviceGetMemoryInfo_v2` is a function of its
own, and `DeviceGetClockInfo.sm` and `.memory` are two). Values are numbers, or up to three with `/` between them.
"""

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("stub.c")
LIBRARY = "libnvidia-ml.so.1"

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND = 3, 4, 9, 13
GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN = 15, 18, 999
SENTINEL = 2**64 - 1

MIB = 2**20


def compiler() -> list[str]:
    """Return the system's C compiler as the start of a command; none is a failure, not a skip."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        raise RuntimeError("some tests build a small C library and found no C compiler: install one, or set CC")
    return found.split()


def build(folder: Path) -> Path:
    """Compile the stub into `folder` and return the library's path."""
    library = folder / LIBRARY
    command = [*compiler(), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the NVML stub does not compile:\n{done.stderr}")
    return library


FIGURES = {
    "utilization": "50/20",
    "memory_v1": f"{1308 * MIB}/{8000 * MIB}",
    "memory_v2": f"{1000 * MIB}/{308 * MIB}/{8000 * MIB}",
    "power": "150500",
    "power_limit": "300000",
    "energy": "1000000",
    "temperature": "61",
    "sm_clock": "1410",
    "memory_clock": "1215",
    "throttle": "0",
    "pcie": "2000/3000",
}
"""What a healthy card answers, by key of `set`."""


def gpu(uuid: str, bus_id: str = "00000000:01:00.0", name: str = "NVIDIA Stub", **figures: str | None) -> list[str]:
    """Return the script's lines of a healthy card; figures given replace its own, `None` takes one away."""
    lines = [f"gpu {uuid} {bus_id} {name}"]
    for key, value in {**FIGURES, **figures}.items():
        if value is not None:
            lines.append(f"set {uuid} {key} {value}")
    return lines
