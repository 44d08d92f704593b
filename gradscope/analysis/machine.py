"""What this machine offers a run: cores, memory, and torch's first card. `machine_look` finds it out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """The card that torch calls `cuda:0`."""

    name: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where a run would run."""

    cores: int
    """That this process may use."""
    memory_bytes: int
    """Of the host, or what its control group is allowed, whichever is less."""
    gpu: Gpu | None = None
    no_gpu: str = ""
    """Why there is none."""
    no_gpu_remedy: str = ""
