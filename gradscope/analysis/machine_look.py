"""Finding out what this machine offers, as far as can be told without torch.

Apart from what it returns, since NVML's bindings take their time to import and screens want to be there before.
"""

import os
from collections.abc import Mapping

import psutil

from gradscope.analysis.machine import Gpu, Machine
from gradscope.sampling import nvml
from gradscope.sampling.cgroup import memory_allowance, memory_groups
from gradscope.sampling.devices import list_cards
from gradscope.sampling.nvml import Trouble, Unavailable
from gradscope.sampling.visible import map_devices


def look_at_machine(env: Mapping[str, str] = os.environ) -> Machine:
    """Ask the system and NVML; takes some milliseconds, more where a driver has to wake up."""
    allowance = memory_allowance(memory_groups())
    memory_bytes = int(psutil.virtual_memory().total)
    found = _first_gpu(env)
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=memory_bytes if allowance is None else min(memory_bytes, allowance.limit_bytes),
        gpu=found if isinstance(found, Gpu) else None,
        no_gpu="" if isinstance(found, Gpu) else found.reason,
        no_gpu_remedy="" if isinstance(found, Gpu) else found.remedy,
    )


def _first_gpu(env: Mapping[str, str]) -> Gpu | Unavailable:
    trouble = nvml.open_library()
    if trouble is not None:
        return trouble
    try:
        cards = list_cards()
        if isinstance(cards, Unavailable):
            return cards
        devices = map_devices(cards, env)
        if not devices:
            return _none_visible(bool(cards), env)
        handle = nvml.handle_of(devices[0].uuid)
        return Gpu(devices[0].name, None if isinstance(handle, Trouble) else _memory_bytes(handle))
    finally:
        nvml.close_library()


def _none_visible(any_card: bool, env: Mapping[str, str]) -> Unavailable:
    if not any_card:
        return Unavailable("NVML lists no card", "run nvidia-smi to see what the driver says")
    hidden = env.get("CUDA_VISIBLE_DEVICES", "")
    return Unavailable(f"CUDA_VISIBLE_DEVICES={hidden} hides all cards", "unset CUDA_VISIBLE_DEVICES")


def _memory_bytes(handle: nvml.Handle) -> int | None:
    for read in (nvml.memory_v2, nvml.memory_v1):
        memory = read(handle)
        if not isinstance(memory, Trouble):
            return memory.total_bytes
    return None
