"""Which card torch's ordinals mean, whatever CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER say (P24, P25)."""

import pytest

from gradscope.sampling.visible import Card, Slice, map_devices

A = Card(index=0, uuid="GPU-aaaa1111-0000-0000-0000-000000000000", name="Big", pci_bus_id="00000000:05:00.0")
B = Card(index=1, uuid="GPU-bbbb2222-0000-0000-0000-000000000000", name="Big", pci_bus_id="00000000:3B:00.0")
C = Card(index=2, uuid="GPU-bbcc3333-0000-0000-0000-000000000000", name="Big", pci_bus_id="00000000:AF:00.0")
ALIKE = [A, B, C]
SMALL_B = Card(index=1, uuid=B.uuid, name="Small", pci_bus_id=B.pci_bus_id)
UNLIKE = [A, SMALL_B, C]
SLICED = Card(
    index=0,
    uuid="GPU-dddd4444-0000-0000-0000-000000000000",
    name="Sliced",
    pci_bus_id="00000000:01:00.0",
    mig=True,
    slices=(
        Slice(uuid="MIG-377e0000-0000-0000-0000-000000000000", gpu_instance=7, compute_instance=0),
        Slice(uuid="MIG-499f0000-0000-0000-0000-000000000000", gpu_instance=8, compute_instance=0),
    ),
)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (None, [A, B, C]),
        ("2,0", [C, A]),
        (" 1 , 2", [B, C]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [A]),
        ("0,3,1", [A]),
        ("0,,1", [A]),
        ("0,x,1", [A]),
        ("1gpu,2", [B, C]),
        ("1,1", []),
        ("NoDevFiles", []),
        (C.uuid, [C]),
        (C.uuid.upper(), [C]),
        ("GPU-aaaa,GPU-bbcc", [A, C]),
        ("GPU-bb", []),
        ("GPU-bbbb", [B]),
        ("GPU-bbcc,GPU-aaaa", [C, A]),
        ("GPU-aaaa,GPU-aaaa1111", []),
        ("GPU-aaaa,1", [A]),
        ("GPU-ffff,GPU-aaaa", []),
        ("0,GPU-bbbb", [A]),
    ],
)
def test_a_selection_means_the_cards_that_torch_would_take(selection, expected):
    env = {} if selection is None else {"CUDA_VISIBLE_DEVICES": selection}
    mapped = map_devices(ALIKE, env)
    assert [device.uuid for device in mapped] == [card.uuid for card in expected]
    assert [device.device for device in mapped] == [f"cuda:{n}" for n in range(len(expected))]


def test_numbers_follow_the_bus_and_not_nvmls_index():
    swapped = [
        Card(index=0, uuid=B.uuid, name="Big", pci_bus_id=B.pci_bus_id),
        Card(index=1, uuid=A.uuid, name="Big", pci_bus_id=A.pci_bus_id),
    ]
    first, second = map_devices(swapped, {})
    assert (first.uuid, first.nvml_index, first.mapped_by) == (A.uuid, 1, "pci id")
    assert (second.uuid, second.nvml_index) == (B.uuid, 0)


def test_bus_ids_are_compared_as_numbers():
    short = Card(index=0, uuid="GPU-s", name="Big", pci_bus_id="0000:0a:00.0")
    long = Card(index=1, uuid="GPU-l", name="Big", pci_bus_id="00000000:09:00.0")
    assert [device.uuid for device in map_devices([short, long], {})] == ["GPU-l", "GPU-s"]


@pytest.mark.parametrize(
    ("cards", "env", "mapped_by"),
    [
        (UNLIKE, {}, "uncertain"),
        (UNLIKE, {"CUDA_VISIBLE_DEVICES": "2,0"}, "uncertain"),
        (UNLIKE, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "uncertain"),
        (UNLIKE, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "pci id"),
        (UNLIKE, {"CUDA_VISIBLE_DEVICES": A.uuid}, "uuid"),
        (ALIKE, {}, "pci id"),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "2,0"}, "pci id"),
        ([SMALL_B], {}, "pci id"),
        ([Card(index=0, uuid="GPU-1", name="Big", pci_bus_id=""), B], {}, "uncertain"),
    ],
)
def test_a_mapping_says_how_sure_it_is(cards, env, mapped_by):
    assert {device.mapped_by for device in map_devices(cards, env)} == {mapped_by}


def test_torchs_uuid_settles_an_uncertain_mapping():
    bare = C.uuid.removeprefix("GPU-")
    mapped = map_devices(UNLIKE, {}, device_uuid=bare)
    assert [(device.device, device.uuid, device.mapped_by) for device in mapped] == [
        ("cuda:0", C.uuid, "uuid"),
        ("cuda:1", B.uuid, "uncertain"),
        ("cuda:2", A.uuid, "uncertain"),
    ]


def test_torchs_uuid_settles_another_ordinal():
    mapped = map_devices(ALIKE, {"CUDA_VISIBLE_DEVICES": "2,0"}, device_uuid=A.uuid, ordinal=1)
    assert [(device.uuid, device.mapped_by) for device in mapped] == [(C.uuid, "pci id"), (A.uuid, "uuid")]


def test_a_uuid_that_no_card_has_makes_every_guess_uncertain():
    mapped = map_devices(ALIKE, {}, device_uuid="0000")
    assert {device.mapped_by for device in mapped} == {"uncertain"}


def test_a_device_that_the_rules_do_not_find_is_taken_from_torch():
    mapped = map_devices(ALIKE, {"CUDA_VISIBLE_DEVICES": "odd"}, device_uuid=B.uuid)
    assert [(device.device, device.uuid) for device in mapped] == [("cuda:0", B.uuid)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("MIG-377e0000-0000-0000-0000-000000000000", ["MIG-377e0000-0000-0000-0000-000000000000"]),
        ("MIG-499f", ["MIG-499f0000-0000-0000-0000-000000000000"]),
        (f"MIG-{SLICED.uuid}/8/0", ["MIG-499f0000-0000-0000-0000-000000000000"]),
        (f"MIG-{SLICED.uuid}/9/0", []),
        ("MIG-0000", []),
    ],
)
def test_mig_slices_are_found_by_their_names_old_and_new(selection, expected):
    mapped = map_devices([SLICED], {"CUDA_VISIBLE_DEVICES": selection})
    assert [device.uuid for device in mapped] == expected
    assert all(device.mig and device.mapped_by == "uuid" and device.nvml_index == 0 for device in mapped)


def test_a_sliced_card_taken_by_number_is_a_guess_until_torch_names_the_slice():
    (guess,) = map_devices([SLICED], {"CUDA_VISIBLE_DEVICES": "0"})
    assert (guess.uuid, guess.mapped_by, guess.mig) == (SLICED.slices[0].uuid, "uncertain", True)
    (settled,) = map_devices(
        [SLICED], {"CUDA_VISIBLE_DEVICES": "0"}, device_uuid="499f0000-0000-0000-0000-000000000000"
    )
    assert (settled.uuid, settled.mapped_by) == (SLICED.slices[1].uuid, "uuid")


def test_a_slice_named_by_the_user_stands_where_torch_names_the_whole_card():
    env = {"CUDA_VISIBLE_DEVICES": "MIG-499f"}
    (device,) = map_devices([SLICED], env, device_uuid=SLICED.uuid.removeprefix("GPU-"))
    assert (device.uuid, device.mapped_by) == (SLICED.slices[1].uuid, "uuid")
