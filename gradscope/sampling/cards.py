"""Reading one card: its figures, its loss and its return."""

from collections.abc import Callable
from functools import partial
from typing import Any

from gradscope.core.samples import GpuSample
from gradscope.sampling import nvml
from gradscope.sampling.backoff import Backoff
from gradscope.sampling.counter import MonotonicCounter
from gradscope.sampling.fields import CARD_FIELDS, MEMORY_FIELDS, PCIE, system_memory
from gradscope.sampling.gate import Answer, CardLost, Gate, Say
from gradscope.sampling.gpu_processes import foreign, strangers, tree_bytes
from gradscope.sampling.nvml import Handle, Kind, Trouble
from gradscope.sampling.visible import MappedDevice

SURE_OF_NAMESPACE = 3
"""Readings in a row with processes that do not exist here: one alone may be a process that just ended."""


class CardReader:
    """One card or MIG slice; NVML is open. `read` belongs to one thread, each of the slow readings to one other."""

    def __init__(self, device: MappedDevice, say: Say, now_ns: int) -> None:
        self.device = device
        self._say = say
        self._label = f"{device.device} ({device.name})"
        self._handle: Handle | None = None
        self._away = False
        self._backoff = Backoff()
        self._energy = MonotonicCounter()
        self._fields = [(field, Gate(self._label, field.name, say)) for field in CARD_FIELDS]
        self._memory = [(field, Gate(self._label, field.name, say)) for field in MEMORY_FIELDS]
        self._pcie = Gate(self._label, PCIE.name, say)
        self._processes = Gate(self._label, "process list", say)
        self._foreign = 0
        self._find(now_ns)

    def read(self, now_ns: int) -> GpuSample:
        """Return the figures that the card gives quickly; `lost` where it does not answer.

        A lost card is asked for anew by its UUID, later and later, and what it said before is kept in the energy total.
        """
        handle = self._handle if self._handle is not None else self._find(now_ns)
        if handle is None:
            return GpuSample(uuid=self.device.uuid, lost=True)
        figures: dict[str, Any] = {}
        try:
            for field, gate in self._fields:
                figures.update(gate.ask(now_ns, partial(field.read, handle)) or {})
            figures.update(self._memory_figures(handle, now_ns))
        except CardLost as error:
            self._lose(now_ns, str(error))
            return GpuSample(uuid=self.device.uuid, lost=True)
        if self._away:
            self._away = False
            self._say(f"{self._label}: it answers again")
        self._backoff.succeeded()
        if "energy_mj" in figures:
            figures["energy_mj"] = self._monotonic(figures["energy_mj"], now_ns)
        return GpuSample(uuid=self.device.uuid, **figures)

    def read_pcie(self, now_ns: int) -> dict[str, Any]:
        """Return PCIe traffic, empty where there is none. Slow."""
        return dict(self._slow(self._pcie, now_ns, PCIE.read) or {})

    def read_processes(self, now_ns: int, pids: frozenset[int]) -> dict[str, Any]:
        """Return the device memory of the processes in `pids`, and who else computes there, as far as told. Slow."""
        found = self._slow(self._processes, now_ns, nvml.processes) or []
        self._foreign = self._foreign + 1 if foreign(found) else 0
        if self._foreign >= SURE_OF_NAMESPACE:
            self._say(f"{self._label}: the driver lists processes of another pid namespace, ours are not told apart")
        used, others = tree_bytes(found, pids), strangers(found, pids)
        figures: dict[str, Any] = {} if used is None else {"process_bytes": used}
        return figures | {"foreign": others} if others else figures

    def limits(self) -> dict[str, str]:
        """Return what does not change and the card gives: the power limit in W and the memory in bytes, as text."""
        handle = self._handle
        if handle is None:
            return {}
        limit, memory = nvml.power_limit_mw(handle), nvml.memory_v1(handle)
        known: dict[str, str] = {}
        if isinstance(limit, int):
            known["power_limit_w"] = f"{limit / 1000:g}"
        if not isinstance(memory, Trouble) and memory.total_bytes is not None:
            known["total_bytes"] = str(memory.total_bytes)
        return known

    def _slow(self, gate: Gate, now_ns: int, read: Callable[[Handle], Answer | Trouble]) -> Answer | None:
        handle = self._handle
        if handle is None:
            return None
        try:
            return gate.ask(now_ns, partial(read, handle))
        except CardLost:  # the quick reading notices it too, and says so
            return None

    def _memory_figures(self, handle: Handle, now_ns: int) -> dict[str, Any]:
        for field, gate in self._memory:
            figures = gate.ask(now_ns, partial(field.read, handle))
            if figures is not None:
                mig = {"used_by": "mig"} if self.device.mig and figures["used_by"] else {}
                return {**figures, **mig}
            if gate.closed_by is None:  # failed just now: the next call would answer to another definition
                return {}
        if self.device.mig or any(gate.closed_by is not Kind.UNSUPPORTED for _, gate in self._memory):
            return {}
        self._say(f"{self._label}: it has no memory of its own, the system's is shown")
        return dict(system_memory())

    def _monotonic(self, raw_mj: int, now_ns: int) -> int:
        total = self._energy.advance(raw_mj, now_ns)
        if self._energy.resets:
            self._say(f"{self._label}: the energy counter started anew, what was used meanwhile is missing")
        return total

    def _find(self, now_ns: int) -> Handle | None:
        if not self._backoff.ready(now_ns):
            return None
        handle = nvml.handle_of(self.device.uuid)
        if isinstance(handle, Trouble):
            self._lose(now_ns, handle.text)
            return None
        self._handle = handle
        return handle

    def _lose(self, now_ns: int, text: str) -> None:
        self._handle = None
        self._away = True
        self._backoff.failed(now_ns)
        self._say(f"{self._label}: it does not answer any more ({text}); it is asked again from time to time")
