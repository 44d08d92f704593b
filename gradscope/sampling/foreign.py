"""Is somebody else on the card? Asked before a run begins, while none of its processes are there."""

from collections.abc import Mapping

from gradscope.sampling import nvml
from gradscope.sampling.devices import list_cards
from gradscope.sampling.gpu_processes import called, process_exists
from gradscope.sampling.gpus import ordinal_of
from gradscope.sampling.nvml import Trouble, Unavailable
from gradscope.sampling.visible import MappedDevice, map_devices


def visible_devices(env: Mapping[str, str]) -> list[MappedDevice]:
    """Return the cards (or slices) that CUDA would show to a process with this environment; empty without NVML."""
    if nvml.open_library() is not None:
        return []
    try:
        cards = list_cards()
        return [] if isinstance(cards, Unavailable) else map_devices(cards, env)
    finally:
        nvml.close_library()


def guests(env: Mapping[str, str], device: str) -> list[str]:
    """Return the processes that compute on a run's card before it begins, as `PID NAME`.

    Where the driver lists ids of another namespace, as in a container, they are told apart from nobody of ours, since
    nobody of ours is there yet. Empty where there is no card, or where it is uncertain which card the run will have.

    Args:
        env: The run's environment.
        device: Its `run.device`.
    """
    name = f"cuda:{ordinal_of(device)}"
    mapped = [] if device == "cpu" else [entry for entry in visible_devices(env) if entry.device == name]
    if not mapped or mapped[0].mapped_by == "uncertain" or nvml.open_library() is not None:
        return []
    try:
        handle = nvml.handle_of(mapped[0].uuid)
        found = handle if isinstance(handle, Trouble) else nvml.processes(handle)
    finally:
        nvml.close_library()
    if isinstance(found, Trouble):
        return []
    return [_words(process.pid) for process in found if process.compute]


def _words(pid: int) -> str:
    return called(pid) if process_exists(pid) else f"{pid}, of another container"
