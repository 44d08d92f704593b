"""What NVML can do on this machine, check by check."""

import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from gradscope.core.check import Check
from gradscope.core.samples import GpuSample
from gradscope.core.units import format_bytes
from gradscope.sampling import nvml
from gradscope.sampling.cards import CardReader
from gradscope.sampling.devices import list_cards
from gradscope.sampling.nvml import Unavailable
from gradscope.sampling.visible import Card, MappedDevice, map_devices

ORDER_REMEDY = "a run finds out by itself; CUDA_DEVICE_ORDER=PCI_BUS_ID makes it certain beforehand"


def diagnose(env: Mapping[str, str], device_uuid: str | None = None) -> list[Check]:
    """Check the NVML library, the driver, each card, and which card is torch's `cuda:0`.

    Args:
        env: Where CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are.
        device_uuid: What torch says of `cuda:0`, where it was asked.
    """
    trouble = nvml.open_library()
    if trouble is not None:
        return [Check(name="NVML", ok=False, detail=trouble.reason, remedy=trouble.remedy), *_shell_package()]
    try:
        return [_driver(), *_shell_package(), *_cards(env, device_uuid)]
    finally:
        nvml.close_library()


def _driver() -> Check:
    driver, cuda = nvml.driver_version(), nvml.cuda_version()
    known = [
        f"driver {driver}" if isinstance(driver, str) else "a driver that does not say its version",
        *([f"for CUDA up to {cuda}"] if isinstance(cuda, str) else []),
    ]
    return Check(name="NVML", ok=True, detail=", ".join(known))


def _shell_package() -> list[Check]:
    """The module `pynvml` is nvidia-ml-py's; a deprecated package of that name makes torch warn in every run."""
    try:
        found = version("pynvml")
    except PackageNotFoundError:
        return []
    remedy = "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py"
    return [Check(name="pynvml", ok=False, detail=f"the deprecated package pynvml {found} is here", remedy=remedy)]


def _cards(env: Mapping[str, str], device_uuid: str | None) -> list[Check]:
    cards = list_cards()
    if isinstance(cards, Unavailable):
        return [Check(name="cards", ok=False, detail=cards.reason, remedy=cards.remedy)]
    count = nvml.card_count()
    silent = (count if isinstance(count, int) else 0) - len(cards)
    checks = [_card(card) for card in cards]
    if silent > 0:
        remedy = "see dmesg for Xid errors; reset the card with nvidia-smi --gpu-reset, or reboot"
        checks.append(Check(name="cards", ok=False, detail=f"{silent} of {count} do not answer", remedy=remedy))
    return [*checks, *_mapping(cards, env, device_uuid)]


def _card(card: Card) -> Check:
    """Read every figure once, and name those that are missing."""
    missing: list[str] = []
    device = MappedDevice(
        device=f"card {card.index}", uuid=card.uuid, name=card.name, nvml_index=card.index, mapped_by="uuid"
    )
    reader = CardReader(device, missing.append, time.monotonic_ns())
    sample = reader.read(time.monotonic_ns())
    reader.read_pcie(time.monotonic_ns())
    parts = [f"{card.name}, {card.uuid}, PCI {card.pci_bus_id or 'unknown'}", *_memory(sample)]
    if card.mig:
        parts.append(f"MIG with {len(card.slices)} slices")
    if missing:
        prefix = f"{device.device} ({card.name}): "
        parts.append("; ".join(message.removeprefix(prefix) for message in missing))
    remedy = "reset it with nvidia-smi --gpu-reset, or reboot" if sample.lost else ""
    return Check(name=device.device, ok=not sample.lost, detail=", ".join(parts), remedy=remedy)


def _memory(sample: GpuSample) -> list[str]:
    if sample.used_bytes is None or sample.total_bytes is None:
        return []
    return [f"{format_bytes(sample.used_bytes)} of {format_bytes(sample.total_bytes)} in use ({sample.used_by})"]


def _mapping(cards: list[Card], env: Mapping[str, str], device_uuid: str | None) -> list[Check]:
    hidden = env.get("CUDA_VISIBLE_DEVICES")
    mapped = map_devices(cards, env, device_uuid)
    if not mapped:
        detail = "NVML lists no card" if not cards else f"CUDA_VISIBLE_DEVICES={hidden} hides all cards"
        return [
            Check(name="CUDA devices", ok=False, detail=detail, remedy="unset CUDA_VISIBLE_DEVICES" if cards else "")
        ]
    return [
        Check(
            name=entry.device,
            ok=True,
            detail=f"{entry.name}, {entry.uuid}, NVML index {entry.nvml_index}, mapped by {entry.mapped_by}"
            if entry.mapped_by != "uncertain"
            else f"uncertain: perhaps {entry.name}, {entry.uuid}",
            remedy=ORDER_REMEDY if entry.mapped_by == "uncertain" else "",
        )
        for entry in mapped
    ]
