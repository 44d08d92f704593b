"""Which device a preset's `run.device` means here, and what it is called."""

import platform
from dataclasses import dataclass

import torch

from gradscope.config.schema import RunSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.undisturbed import seed_everything


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What is worth recording about a device."""

    name: str
    uuid: str | None
    memory_bytes: int | None


def choose_device(settings: RunSettings) -> torch.device:
    """Return the torch device of `run.device`.

    Raises:
        GradscopeError: It asks for a CUDA device that is not there, or for fp16 without one.
    """
    available = torch.cuda.is_available()
    if settings.device == "auto":
        device = torch.device("cuda", 0) if available else torch.device("cpu")
    else:
        device = torch.device(settings.device)
        if device.type == "cuda":
            device = torch.device("cuda", device.index or 0)
    if device.type == "cuda" and (not available or (device.index or 0) >= torch.cuda.device_count()):
        count = torch.cuda.device_count() if available else 0
        raise GradscopeError(
            f"run.device = {settings.device}: torch sees {count} CUDA devices",
            "run `gradscope doctor` to see why, or use -s run.device=cpu",
            exit_code=ExitCode.ENVIRONMENT,
        )
    if settings.precision == "fp16" and device.type != "cuda":
        raise GradscopeError(
            "run.precision = fp16 needs a CUDA device, and this run is on the CPU",
            "use -s run.precision=bf16 or fp32",
        )
    return device


def describe_device(device: torch.device) -> DeviceFacts:
    """Return name, UUID and memory of a device."""
    if device.type != "cuda":
        return DeviceFacts(platform.processor() or platform.machine(), None, None)
    properties = torch.cuda.get_device_properties(device)
    return DeviceFacts(properties.name, str(properties.uuid), properties.total_memory)


def prepare(settings: RunSettings, device: torch.device) -> None:
    """Set threads and seeds, so that the same preset, seed and threads give the same losses on a CPU, bit for bit."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    seed_everything(settings.seed)
    if device.type == "cuda":
        torch.cuda.set_device(device)
