"""The one place that calls NVML. Every answer is a value or a `Trouble`; nothing here raises for what a driver does.

NVML is NVIDIA's management library (`libnvidia-ml.so.1`, part of the driver), called through `pynvml` of nvidia-ml-py.
Source of the meanings: the NVML API reference. Functions that want a `Handle` take a card's or a MIG slice's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType

import pynvml

Handle = NewType("Handle", object)
"""NVML's own pointer to a card or a MIG slice."""


class Kind(StrEnum):
    """What an error means for the one who asked."""

    UNSUPPORTED = "unsupported"
    """This card or driver never answers this; do not ask again."""
    DENIED = "denied"
    """Not allowed; do not ask again."""
    LOST = "lost"
    """The card fell off the bus or needs a reset; ask for a new handle later."""
    FAILED = "failed"
    """Anything else; may pass."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no value."""

    kind: Kind
    text: str
    """NVML's own words."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why NVML as a whole cannot be used: one line of cause, one line of cure."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Device memory in bytes; `None` where the driver gives its not-available sentinel."""

    used_bytes: int | None
    total_bytes: int | None
    reserved_bytes: int | None = None
    """Held by the driver itself; only the v2 call tells it apart from `used_bytes`."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with a context on the card."""

    pid: int
    used_bytes: int | None
    compute: bool = True
    """Whether it computes there; one that only draws (a desktop) is no guest that a benchmark would notice."""


_KINDS: dict[int, Kind] = {
    pynvml.NVML_ERROR_INVALID_ARGUMENT: Kind.UNSUPPORTED,
    pynvml.NVML_ERROR_NOT_SUPPORTED: Kind.UNSUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Kind.UNSUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Kind.UNSUPPORTED,
    pynvml.NVML_ERROR_DEPRECATED: Kind.UNSUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: Kind.DENIED,
    pynvml.NVML_ERROR_GPU_IS_LOST: Kind.LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: Kind.LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Kind.LOST,
}
"""Invalid argument counts as unsupported: it is what several calls answer for a MIG slice's handle."""

_CURES: dict[int, Unavailable] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Unavailable(
        "NVML's library libnvidia-ml.so.1 was not found: no NVIDIA driver here",
        "install the NVIDIA driver; in a container, start it with GPU access (--gpus all)",
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Unavailable(
        "the NVIDIA driver is not loaded", "load it with `sudo modprobe nvidia`, or reboot"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Unavailable(
        "the NVIDIA driver and its library differ in version, usually after an update", "reboot"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: Unavailable(
        "no permission to use the NVIDIA driver", "get read and write access to /dev/nvidiactl and /dev/nvidia*"
    ),
}

THROTTLE_REASONS: tuple[tuple[int, str], ...] = (
    (pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting, "application clocks"),
    (pynvml.nvmlClocksThrottleReasonSwPowerCap, "power cap"),
    (pynvml.nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown"),
    (pynvml.nvmlClocksThrottleReasonSyncBoost, "sync boost"),
    (pynvml.nvmlClocksThrottleReasonSwThermalSlowdown, "thermal (software)"),
    (pynvml.nvmlClocksThrottleReasonHwThermalSlowdown, "thermal (hardware)"),
    (pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"),
    (pynvml.nvmlClocksThrottleReasonDisplayClockSetting, "display clocks"),
)
"""Bit and name. The bit for an idle card is left out: low clocks with nothing to do are not throttling."""

_IDLE = pynvml.nvmlClocksThrottleReasonGpuIdle
_NO_U64 = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
_NO_U32 = pynvml.NVML_VALUE_NOT_AVAILABLE_uint.value


def open_library() -> Unavailable | None:
    """Load and start NVML; `None` when it is ready. Each success needs one `close_library`."""
    start: Any = pynvml.nvmlInit
    try:
        start()
    except pynvml.NVMLError as error:
        code = _code(error)
        return _CURES.get(code) or Unavailable(
            f"NVML does not start: {error} (code {code})",
            "run nvidia-smi; if it fails too, reload the driver or reboot",
        )
    return None


def close_library() -> None:
    """Shut NVML down, as often as it was opened. A failure is of no consequence to anyone and is passed over."""
    ask(pynvml.nvmlShutdown)


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of `pynvml`; return its value or a `Trouble`."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        return Trouble(_KINDS.get(_code(error), Kind.FAILED), str(error))
    except UnicodeDecodeError as error:  # pynvml decodes names as UTF-8 whatever the driver wrote
        return Trouble(Kind.FAILED, f"not UTF-8: {error.reason}")


def driver_version() -> str | Trouble:
    """Return the driver's version, e.g. `580.159.03`."""
    answer: str | Trouble = ask(pynvml.nvmlSystemGetDriverVersion)
    return answer


def cuda_version() -> str | Trouble:
    """Return the newest CUDA version that the driver supports, e.g. `13.0`."""
    answer = ask(pynvml.nvmlSystemGetCudaDriverVersion)
    return answer if isinstance(answer, Trouble) else f"{answer // 1000}.{answer % 1000 // 10}"


def card_count() -> int | Trouble:
    """Return how many cards NVML sees."""
    answer: int | Trouble = ask(pynvml.nvmlDeviceGetCount)
    return answer


def handle_at(index: int) -> Handle | Trouble:
    """Return the card at an NVML index, which is no CUDA ordinal."""
    answer: Handle | Trouble = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    return answer


def handle_of(uuid: str) -> Handle | Trouble:
    """Return the card or MIG slice with a UUID as NVML writes it (`GPU-...`, `MIG-...`)."""
    answer: Handle | Trouble = ask(pynvml.nvmlDeviceGetHandleByUUID, uuid)
    return answer


def uuid_of(handle: Handle) -> str | Trouble:
    """Return the UUID of a card or slice."""
    answer: str | Trouble = ask(pynvml.nvmlDeviceGetUUID, handle)
    return answer


def name_of(handle: Handle) -> str | Trouble:
    """Return the model's name."""
    answer: str | Trouble = ask(pynvml.nvmlDeviceGetName, handle)
    return answer


def pci_bus_id(handle: Handle) -> str | Trouble:
    """Return the PCI bus id, e.g. `00000000:3B:00.0`."""
    answer = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    if isinstance(answer, Trouble):
        return answer
    raw = answer.busId
    return raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)


def mig_enabled(handle: Handle) -> bool:
    """Return whether the card is cut into MIG slices; a card that cannot say is not."""
    answer = ask(pynvml.nvmlDeviceGetMigMode, handle)
    return not isinstance(answer, Trouble) and answer[0] == 1


def mig_slices(handle: Handle) -> list[Handle]:
    """Return a card's MIG slices; the places that hold none are left out."""
    count = ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    if isinstance(count, Trouble):
        return []
    slices = (ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(count))
    return [entry for entry in slices if not isinstance(entry, Trouble)]


def mig_instances(handle: Handle) -> tuple[int | None, int | None]:
    """Return a slice's GPU instance and compute instance ids."""
    answers = (ask(pynvml.nvmlDeviceGetGpuInstanceId, handle), ask(pynvml.nvmlDeviceGetComputeInstanceId, handle))
    gpu, compute = (None if isinstance(answer, Trouble) else int(answer) for answer in answers)
    return gpu, compute


def utilization(handle: Handle) -> tuple[int | None, int | None] | Trouble:
    """Return the shares of time, in percent, in which a kernel ran and in which memory was read or written."""
    answer = ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return answer if isinstance(answer, Trouble) else (_share(answer.gpu), _share(answer.memory))


def memory_v2(handle: Handle) -> Memory | Trouble:
    """Return device memory, the driver's reserve apart."""
    answer = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if isinstance(answer, Trouble):
        return answer
    return Memory(used_bytes=_u64(answer.used), total_bytes=_u64(answer.total), reserved_bytes=_u64(answer.reserved))


def memory_v1(handle: Handle) -> Memory | Trouble:
    """Return device memory by the old call, whose `used` includes the driver's reserve."""
    answer = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if isinstance(answer, Trouble):
        return answer
    return Memory(used_bytes=_u64(answer.used), total_bytes=_u64(answer.total))


def power_mw(handle: Handle) -> int | Trouble | None:
    """Return the card's draw in mW: an average over up to 1 s on recent cards, an instant on others."""
    return _number(ask(pynvml.nvmlDeviceGetPowerUsage, handle))


def power_limit_mw(handle: Handle) -> int | Trouble | None:
    """Return the limit in mW that holds now."""
    return _number(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle))


def energy_mj(handle: Handle) -> int | Trouble | None:
    """Return the energy counter in mJ since the driver was loaded (Volta and later)."""
    answer = ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    return answer if isinstance(answer, Trouble) else _u64(answer)


def temperature_c(handle: Handle) -> int | Trouble | None:
    """Return the chip's temperature in degrees Celsius."""
    return _number(ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU))


def sm_clock_mhz(handle: Handle) -> int | Trouble | None:
    """Return the clock of the multiprocessors in MHz."""
    return _number(ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM))


def memory_clock_mhz(handle: Handle) -> int | Trouble | None:
    """Return the clock of device memory in MHz."""
    return _number(ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM))


def throttle_reasons(handle: Handle) -> list[str] | Trouble:
    """Return why clocks are held down, empty where they are not; bits NVML has no name for here read `bit 0x...`."""
    answer = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if isinstance(answer, Trouble) and answer.kind is Kind.UNSUPPORTED:  # the name the call had before driver 535
        answer = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if isinstance(answer, Trouble):
        return answer
    names = [name for bit, name in THROTTLE_REASONS if answer & bit]
    rest = answer & ~_IDLE & ~sum(bit for bit, _ in THROTTLE_REASONS)
    return [*names, f"bit {rest:#x}"] if rest else names


def pcie_kb_s(handle: Handle) -> tuple[int | None, int | None] | Trouble:
    """Return PCIe traffic sent and received in KB/s. The driver counts for 20 ms in each of two calls: slow."""
    sent = _number(ask(pynvml.nvmlDeviceGetPcieThroughput, handle, pynvml.NVML_PCIE_UTIL_TX_BYTES))
    if isinstance(sent, Trouble):
        return sent
    received = _number(ask(pynvml.nvmlDeviceGetPcieThroughput, handle, pynvml.NVML_PCIE_UTIL_RX_BYTES))
    return received if isinstance(received, Trouble) else (sent, received)


def processes(handle: Handle) -> list[GpuProcess] | Trouble:
    """Return the processes with a compute or graphics context, one entry a pid. Slow on some drivers.

    A process in both lists has one figure in both, so that the larger is taken, not their sum.
    """
    found: dict[int, int | None] = {}
    computing: set[int] = set()
    troubles: list[Trouble] = []
    compute = pynvml.nvmlDeviceGetComputeRunningProcesses
    for function in (compute, pynvml.nvmlDeviceGetGraphicsRunningProcesses):
        answer = ask(function, handle)
        if isinstance(answer, Trouble):
            troubles.append(answer)
            continue
        for entry in answer:
            used = None if entry.usedGpuMemory in (None, _NO_U64) else int(entry.usedGpuMemory)
            known = found.get(entry.pid)
            found[entry.pid] = used if known is None else max(known, used or 0)
            if function is compute:
                computing.add(entry.pid)
    if len(troubles) == 2 or (troubles and troubles[0].kind is Kind.LOST):
        return troubles[0]
    return [GpuProcess(pid, used, pid in computing) for pid, used in found.items()]


def _code(error: pynvml.NVMLError) -> int:
    return int(getattr(error, "value", pynvml.NVML_ERROR_UNKNOWN))


def _number(answer: Any) -> int | Trouble | None:
    if isinstance(answer, Trouble):
        return answer
    return None if answer == _NO_U32 else int(answer)


def _u64(value: int) -> int | None:
    return None if value == _NO_U64 else int(value)


def _share(value: int) -> int | None:
    # Some drivers answer with rubbish while a card wakes up; a share above the whole is not a measurement.
    return int(value) if value <= 100 else None
