"""Which card is torch's `cuda:0`? The rules of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, as pure functions.

Sources: the CUDA programming guide (environment variables), the MIG user guide (names of slices), and the way torch
parses the list in `torch.cuda` (what a malformed entry, a repeated one, or a change from numbers to names does).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

MappedBy = Literal["uuid", "pci id", "uncertain"]
"""`uuid`: named so, by the user or by torch. `pci id`: by CUDA's order, which is that of the bus. `uncertain`: a guess,
since CUDA puts the fastest of unlike cards first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG slice of a card."""

    uuid: str
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card as NVML lists it. `index` is NVML's, which says nothing about CUDA's order."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str
    mig: bool = False
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedDevice:
    """A CUDA device of torch, with the card or slice behind it."""

    device: str
    """torch's name, e.g. `cuda:0`."""
    uuid: str
    """NVML's name of the card or slice, under which its handle is found."""
    name: str
    nvml_index: int
    mapped_by: MappedBy
    mig: bool = False

    def as_text(self) -> dict[str, str]:
        """Return it as `SamplerStarted.gpus` holds it."""
        return {
            "device": self.device,
            "uuid": self.uuid,
            "name": self.name,
            "nvml_index": str(self.nvml_index),
            "mapped_by": self.mapped_by,
        }


def map_devices(
    cards: Sequence[Card], env: Mapping[str, str], device_uuid: str | None = None, ordinal: int = 0
) -> list[MappedDevice]:
    """Return torch's CUDA devices in the order of their ordinals.

    `device_uuid` is what torch says of `cuda:<ordinal>`, once a process with torch has said it; it settles that device
    whatever the rules below guessed.
    """
    visible = _visible(cards, env)
    devices = [replace(entry, device=f"cuda:{place}") for place, entry in enumerate(visible)]
    return devices if device_uuid is None else _settle(devices, cards, device_uuid, ordinal)


def cuda_order(cards: Sequence[Card], env: Mapping[str, str]) -> tuple[list[Card], MappedBy]:
    """Return the cards in CUDA's order before any selection, and how sure that is.

    CUDA's default order is the fastest first, with the rest left open. Among equal models that is the bus order; among
    unlike ones only torch can tell.
    """
    ordered = sorted(cards, key=lambda card: _bus_key(card.pci_bus_id))
    by_bus = env.get("CUDA_DEVICE_ORDER", "").strip() == "PCI_BUS_ID"
    alike = len({card.name for card in cards}) <= 1
    known = len(cards) <= 1 or all(card.pci_bus_id for card in cards)
    return ordered, "pci id" if known and (by_bus or alike) else "uncertain"


def _visible(cards: Sequence[Card], env: Mapping[str, str]) -> list[MappedDevice]:
    ordered, sure = cuda_order(cards, env)
    by_number = [_as_device(card, sure) for card in ordered]
    selection = env.get("CUDA_VISIBLE_DEVICES")
    if selection is None:
        return by_number
    entries = [entry.strip() for entry in selection.split(",")]
    named = entries[0].startswith(("GPU-", "MIG-"))
    found: list[MappedDevice] = []
    for entry in entries:
        device = _by_name(entry, cards) if named else _by_number(entry, by_number)
        if device is None:  # what is not understood hides itself and everything after it
            break
        if any(device.uuid == other.uuid for other in found):  # a device named twice hides all of them
            return []
        found.append(device)
    return found


def _by_number(entry: str, by_number: Sequence[MappedDevice]) -> MappedDevice | None:
    digits = re.match(r"\+?\d+", entry)
    place = int(digits.group()) if digits else -1
    return by_number[place] if 0 <= place < len(by_number) else None


def _by_name(entry: str, cards: Sequence[Card]) -> MappedDevice | None:
    """Find what a UUID, or a prefix of only one, names; slices also by the old `MIG-GPU-<uuid>/<gi>/<ci>`."""
    names = [(card.uuid, _as_device(card, "uuid")) for card in cards]
    for card in cards:
        for piece in card.slices:
            device = _slice_device(card, piece, "uuid")
            names.append((piece.uuid, device))
            names.append((f"MIG-{card.uuid}/{piece.gpu_instance}/{piece.compute_instance}", device))
    exact = [device for name, device in names if name.lower() == entry.lower()]
    if exact:
        return exact[0]
    fitting = {device.uuid: device for name, device in names if name.lower().startswith(entry.lower())}
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def _as_device(card: Card, mapped_by: MappedBy) -> MappedDevice:
    """A card cut into slices stands for its first one: which one CUDA takes, only torch can tell."""
    if card.mig and card.slices:
        return _slice_device(card, card.slices[0], "uncertain" if len(card.slices) > 1 else mapped_by)
    return MappedDevice(device="", uuid=card.uuid, name=card.name, nvml_index=card.index, mapped_by=mapped_by)


def _slice_device(card: Card, piece: Slice, mapped_by: MappedBy) -> MappedDevice:
    return MappedDevice(
        device="", uuid=piece.uuid, name=card.name, nvml_index=card.index, mapped_by=mapped_by, mig=True
    )


def _settle(devices: list[MappedDevice], cards: Sequence[Card], device_uuid: str, ordinal: int) -> list[MappedDevice]:
    wanted = bare_uuid(device_uuid)
    place = next((i for i, device in enumerate(devices) if device.device == f"cuda:{ordinal}"), None)
    truth = _owner(cards, wanted, devices[place] if place is not None else None)
    if truth is None:
        return [replace(device, mapped_by="uncertain") for device in devices]
    truth = replace(truth, device=f"cuda:{ordinal}")
    if place is None:
        return [*devices, truth]
    settled = list(devices)
    displaced = devices[place]
    for i, device in enumerate(devices):
        if i != place and device.uuid == truth.uuid:  # the guess had it elsewhere: the two change places
            settled[i] = replace(displaced, device=device.device, mapped_by="uncertain")
    settled[place] = truth
    return settled


def _owner(cards: Sequence[Card], wanted: str, guess: MappedDevice | None) -> MappedDevice | None:
    """Find what has torch's UUID. Under MIG torch may name the whole card: then a guess that is its slice stands."""
    for card in cards:
        for piece in card.slices:
            if bare_uuid(piece.uuid) == wanted:
                return _slice_device(card, piece, "uuid")
        if bare_uuid(card.uuid) == wanted:
            if guess is not None and guess.mig and any(guess.uuid == piece.uuid for piece in card.slices):
                return guess
            return _as_device(card, "uuid")
    return None


def bare_uuid(uuid: str) -> str:
    """Return a UUID without `GPU-` or `MIG-` and in small letters: torch writes it bare."""
    return re.sub(r"^(GPU-|MIG-(?!GPU-))", "", uuid.strip()).lower()


def _bus_key(bus_id: str) -> tuple[int, ...]:
    """Order of `domain:bus:device.function`, all hexadecimal, whatever the padding."""
    parts = re.findall(r"[0-9A-Fa-f]+", bus_id)
    return tuple(int(part, 16) for part in parts)
