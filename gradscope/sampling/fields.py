"""The figures of a card: one entry each, so that one that does not exist takes no other with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from gradscope.sampling import nvml
from gradscope.sampling.nvml import Handle, Memory, Trouble

Figures = Mapping[str, Any]
"""Values for fields of `GpuSample`, by name."""


@dataclass(frozen=True, slots=True)
class Field:
    """A figure (or a pair that one call yields)."""

    name: str
    """For people, in notes."""
    read: Callable[[Handle], Figures | Trouble]


def _pair(first: str, second: str, call: Callable[[Handle], tuple[Any, Any] | Trouble]) -> Callable[..., Any]:
    def read(handle: Handle) -> Figures | Trouble:
        answer = call(handle)
        return answer if isinstance(answer, Trouble) else {first: answer[0], second: answer[1]}

    return read


def _one(
    field: str, call: Callable[[Handle], Any], change: Callable[[Any], Any] = lambda value: value
) -> Callable[..., Any]:
    def read(handle: Handle) -> Figures | Trouble:
        answer = call(handle)
        if isinstance(answer, Trouble):
            return answer
        return {} if answer is None else {field: change(answer)}

    return read


def _memory(label: str, call: Callable[[Handle], Memory | Trouble]) -> Callable[..., Any]:
    def read(handle: Handle) -> Figures | Trouble:
        answer = call(handle)
        return answer if isinstance(answer, Trouble) else _memory_figures(label, answer)

    return read


def _memory_figures(label: str, memory: Memory) -> Figures:
    used, total = memory.used_bytes, memory.total_bytes
    if used is not None and total is not None and used > total:  # rubbish: no card uses more than it has
        used = None
    return {
        "used_bytes": used,
        "used_by": None if used is None else label,
        "total_bytes": total,
        "reserved_bytes": memory.reserved_bytes,
    }


def system_memory() -> Figures:
    """Return the host's memory as that of a card which shares it and has none of its own."""
    memory = psutil.virtual_memory()
    return _memory_figures("system", Memory(used_bytes=memory.total - memory.available, total_bytes=memory.total))


CARD_FIELDS: tuple[Field, ...] = (
    Field("utilization", _pair("gpu_busy_pct", "memory_busy_pct", nvml.utilization)),
    Field("power draw", _one("power_w", nvml.power_mw, lambda milliwatts: milliwatts / 1000)),
    Field("energy counter", _one("energy_mj", nvml.energy_mj)),
    Field("temperature", _one("temperature_c", nvml.temperature_c, float)),
    Field("SM clock", _one("sm_clock_mhz", nvml.sm_clock_mhz)),
    Field("memory clock", _one("memory_clock_mhz", nvml.memory_clock_mhz)),
    Field("throttle reasons", _one("throttle", nvml.throttle_reasons)),
)
"""Read in every sample, each on its own."""

MEMORY_FIELDS: tuple[Field, ...] = (
    Field("memory figure with the driver's reserve apart", _memory("v2", nvml.memory_v2)),
    Field("memory figure", _memory("v1", nvml.memory_v1)),
)
"""In order of preference: the first that the card supports."""

PCIE = Field("PCIe throughput", _pair("pcie_tx_kb_s", "pcie_rx_kb_s", nvml.pcie_kb_s))
"""Slow: 40 ms in the driver."""
