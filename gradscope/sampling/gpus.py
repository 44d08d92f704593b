"""The cards of one run: opening NVML, finding the run's device, reading it, and slow readings beside it."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from gradscope.core.samples import GpuSample
from gradscope.sampling import nvml
from gradscope.sampling.cards import CardReader
from gradscope.sampling.devices import list_cards
from gradscope.sampling.gate import Say
from gradscope.sampling.lane import Lane
from gradscope.sampling.nvml import Unavailable
from gradscope.sampling.visible import Card, MappedDevice, map_devices

CLOSE_WAIT_S = 0.2
"""How long closing waits for a slow call; NVML stays open under one that takes longer."""


class Gpus:
    """The watched cards. Made and read in one thread; without a card it is empty and `reason` says why."""

    def __init__(
        self, env: Mapping[str, str], device: str, pids: Callable[[], frozenset[int]], slow_period_s: float, say: Say
    ) -> None:
        self.reason: str | None = None
        self.driver: str | None = None
        self.cpu_seconds = 0.0
        """CPU time spent by slow readings that have ended."""
        self._env = env
        self._pids = pids
        self._slow_period_s = slow_period_s
        self._say = say
        self._cards: list[Card] = []
        self._open = False
        self._readers: list[tuple[CardReader, list[Lane]]] = []
        if device == "cpu":
            self.reason = "the run is on the CPU"
            return
        trouble = nvml.open_library()
        if trouble is not None:
            self.reason = f"{trouble.reason}; {trouble.remedy}"
            return
        self._open = True
        driver = nvml.driver_version()
        self.driver = driver if isinstance(driver, str) else None
        cards = list_cards()
        if isinstance(cards, Unavailable):
            self.reason = f"{cards.reason}; {cards.remedy}"
            return
        self._cards = cards
        self._watch(_of_run(map_devices(cards, env), ordinal_of(device)))

    def worker_started(self, device: str, device_uuid: str | None) -> None:
        """Watch the device that the worker says it is on, and only that."""
        if device == "cpu":
            before = self.reason  # why there was no card to be had, if that is so: it says more
            self._watch([])
            self.reason = before or "the run is on the CPU"
            return
        ordinal = ordinal_of(device)
        mapped = map_devices(self._cards, self._env, device_uuid, ordinal)
        own = [entry for entry in mapped if entry.device == f"cuda:{ordinal}"]
        if device_uuid is not None and len(self._cards) > 1 and own and own[0].mapped_by == "uncertain":
            self._watch([])
            self.reason = f"NVML does not list the card that torch uses ({device_uuid})"
            return
        self._watch(own)

    def describe(self) -> list[dict[str, str]]:
        """Return the watched cards as `SamplerStarted.gpus` holds them."""
        return [{**reader.device.as_text(), **reader.limits()} for reader, _ in self._readers]

    def read(self, now_ns: int) -> list[GpuSample]:
        """Return a sample of each watched card, with the slow figures that came in since the last call."""
        samples: list[GpuSample] = []
        for reader, lanes in self._readers:
            sample = reader.read(now_ns)
            for lane in lanes:
                sample = msgspec.structs.replace(sample, **lane.take())
            samples.append(sample)
        return samples

    def close(self) -> None:
        """End the slow readings and close NVML, unless one of them hangs in it."""
        ended = self._drop(self._readers)
        self._readers = []
        if self._open and ended:
            nvml.close_library()
        self._open = False

    def _watch(self, devices: list[MappedDevice]) -> None:
        """Watch these and no others; a reader that is there already goes on, with what it knows of its card."""
        wanted = {(device.device, device.uuid): device for device in devices}
        kept: list[tuple[CardReader, list[Lane]]] = []
        dropped: list[tuple[CardReader, list[Lane]]] = []
        for pair in self._readers:
            device = wanted.pop((pair[0].device.device, pair[0].device.uuid), None)
            if device is None:
                dropped.append(pair)
            else:
                pair[0].device = device
                kept.append(pair)
        self._drop(dropped)
        self._readers = kept + [self._start(device) for device in wanted.values()]
        if devices:
            self.reason = None
        elif self.reason is None:
            self.reason = self._why_none()

    def _why_none(self) -> str:
        if not self._cards:
            return "NVML lists no card"
        if not map_devices(self._cards, self._env):
            return "CUDA_VISIBLE_DEVICES hides all cards"
        return "no card has the device's number"

    def _start(self, device: MappedDevice) -> tuple[CardReader, list[Lane]]:
        reader = CardReader(device, self._say, time.monotonic_ns())
        lanes = [
            Lane(f"{device.device} PCIe", partial(_now, reader.read_pcie), self._slow_period_s, self._say),
            Lane(
                f"{device.device} process list",
                lambda: reader.read_processes(time.monotonic_ns(), self._pids()),
                self._slow_period_s,
                self._say,
            ),
        ]
        for lane in lanes:
            lane.start()
        return reader, lanes

    def _drop(self, readers: list[tuple[CardReader, list[Lane]]]) -> bool:
        lanes = [lane for _, several in readers for lane in several]
        for lane in lanes:
            lane.stop()
        until = time.monotonic() + CLOSE_WAIT_S
        ended = [lane.ended(max(0.0, until - time.monotonic())) for lane in lanes]
        self.cpu_seconds += sum(lane.cpu_seconds for lane in lanes)
        return all(ended)


def ordinal_of(device: str) -> int:
    """Return N of `cuda:N`; 0 for `cuda` and `auto`, which mean the first device."""
    _, _, number = device.partition(":")
    return int(number) if number.isdecimal() else 0


def _of_run(mapped: list[MappedDevice], ordinal: int) -> list[MappedDevice]:
    """Return the run's device; where it is uncertain which that is, all that it may be, until the worker says so."""
    own = [entry for entry in mapped if entry.device == f"cuda:{ordinal}"]
    if own and own[0].mapped_by == "uncertain":
        return [entry for entry in mapped if entry.mapped_by == "uncertain"]
    return own


def _now(read: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    return read(time.monotonic_ns())
