"""The cards of this machine as NVML lists them."""

from gradscope.sampling import nvml
from gradscope.sampling.nvml import Handle, Trouble, Unavailable
from gradscope.sampling.visible import Card, Slice


def list_cards() -> list[Card] | Unavailable:
    """Return every card that answers to its index and has a UUID, leaving out the others; NVML is open."""
    count = nvml.card_count()
    if isinstance(count, Trouble):
        return Unavailable(f"NVML does not list the cards: {count.text}", "run nvidia-smi to see what the driver says")
    cards = (_card(index) for index in range(count))
    return [card for card in cards if card is not None]


def _card(index: int) -> Card | None:
    handle = nvml.handle_at(index)
    if isinstance(handle, Trouble):
        return None
    uuid, name, bus_id = nvml.uuid_of(handle), nvml.name_of(handle), nvml.pci_bus_id(handle)
    if isinstance(uuid, Trouble):
        return None
    mig = nvml.mig_enabled(handle)
    return Card(
        index=index,
        uuid=uuid,
        name="unnamed" if isinstance(name, Trouble) else name,
        pci_bus_id="" if isinstance(bus_id, Trouble) else bus_id,
        mig=mig,
        slices=tuple(_slices(handle)) if mig else (),
    )


def _slices(handle: Handle) -> list[Slice]:
    found: list[Slice] = []
    for entry in nvml.mig_slices(handle):
        uuid = nvml.uuid_of(entry)
        if not isinstance(uuid, Trouble):
            gpu, compute = nvml.mig_instances(entry)
            found.append(Slice(uuid=uuid, gpu_instance=gpu, compute_instance=compute))
    return found
