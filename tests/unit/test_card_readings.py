"""What a card says, read by the real pynvml from a library that can misbehave in every way (P25 to P28)."""

import os

import pytest
from nvml_stub.build import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    MIB,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SENTINEL,
    UNKNOWN,
    VERSION_MISMATCH,
    gpu,
)

from gradscope.core.samples import GpuSample
from gradscope.sampling import nvml
from gradscope.sampling.cards import CardReader
from gradscope.sampling.devices import list_cards
from gradscope.sampling.gpu_processes import called, tree_bytes
from gradscope.sampling.nvml import GpuProcess, Unavailable
from gradscope.sampling.visible import MappedDevice, map_devices

SECOND = 1_000_000_000

HEALTHY = GpuSample(
    uuid="GPU-A",
    gpu_busy_pct=50,
    memory_busy_pct=20,
    used_bytes=1000 * MIB,
    used_by="v2",
    reserved_bytes=308 * MIB,
    total_bytes=8000 * MIB,
    power_w=150.5,
    energy_mj=1_000_000,
    temperature_c=61.0,
    sm_clock_mhz=1410,
    memory_clock_mhz=1215,
    throttle=[],
)

FUNCTION_OF = {
    "DeviceGetUtilizationRates": {"gpu_busy_pct", "memory_busy_pct"},
    "DeviceGetPowerUsage": {"power_w"},
    "DeviceGetTotalEnergyConsumption": {"energy_mj"},
    "DeviceGetTemperature": {"temperature_c"},
    "DeviceGetClockInfo.sm": {"sm_clock_mhz"},
    "DeviceGetClockInfo.memory": {"memory_clock_mhz"},
}
"""NVML's call and the fields of a sample that it yields."""


@pytest.fixture
def card(nvml_script):
    """Open NVML with a script and return a reader of one of its cards, with the list of what it said."""

    def make(lines, uuid="GPU-A", mig=False):
        nvml_script(lines)
        assert nvml.open_library() is None
        said = []

        def say(message):
            if message not in said:
                said.append(message)

        device = MappedDevice(device="cuda:0", uuid=uuid, name="Stub", nvml_index=0, mapped_by="uuid", mig=mig)
        return CardReader(device, say, 0), said

    yield make
    nvml.close_library()


def test_a_healthy_card_gives_every_figure(card):
    reader, said = card(gpu("GPU-A"))
    assert reader.read(SECOND) == HEALTHY
    assert reader.limits() == {"power_limit_w": "300", "total_bytes": str(8000 * MIB)}
    assert reader.read_pcie(SECOND) == {"pcie_tx_kb_s": 2000, "pcie_rx_kb_s": 3000}
    assert said == []


@pytest.mark.parametrize("code", [NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_PERMISSION])
@pytest.mark.parametrize(("function", "fields"), FUNCTION_OF.items())
def test_a_figure_that_does_not_exist_takes_no_other_with_it_and_is_said_once(card, function, fields, code):
    reader, said = card([*gpu("GPU-A"), f"error {function} * {code}"])
    for moment in (1, 2, 3):
        sample = reader.read(moment * SECOND)
        for field in GpuSample.__struct_fields__:
            assert getattr(sample, field) == (None if field in fields else getattr(HEALTHY, field)), field
    assert len(said) == 1


def test_a_card_that_supports_nothing_gives_nothing_and_shows_the_systems_memory(card):
    reader, said = card(["gpu GPU-A 00000000:01:00.0 Stub"])
    sample = reader.read(SECOND)
    assert sample.used_by == "system"
    assert 0 < sample.used_bytes <= sample.total_bytes
    for field in set(GpuSample.__struct_fields__) - {"uuid", "lost", "used_by", "used_bytes", "total_bytes"}:
        assert getattr(sample, field) is None, field
    assert reader.limits() == {}
    assert reader.read_pcie(SECOND) == {}
    assert any("the system's is shown" in message for message in said)


def test_the_sentinel_for_not_available_is_no_number(card):
    figures = {"memory_v2": f"{SENTINEL}/{SENTINEL}/{SENTINEL}", "energy": str(SENTINEL), "power": str(2**32 - 1)}
    reader, _ = card(gpu("GPU-A", **figures))
    sample = reader.read(SECOND)
    assert (sample.used_bytes, sample.total_bytes, sample.reserved_bytes, sample.used_by) == (None, None, None, None)
    assert (sample.energy_mj, sample.power_w) == (None, None)


def test_no_share_is_above_the_whole(card):
    reader, _ = card(gpu("GPU-A", utilization="4000000000/20", memory_v2=f"{9000 * MIB}/0/{8000 * MIB}"))
    sample = reader.read(SECOND)
    assert (sample.gpu_busy_pct, sample.memory_busy_pct, sample.used_bytes) == (None, 20, None)


def test_a_failure_that_may_pass_is_tried_again_after_a_while(card):
    reader, said = card([*gpu("GPU-A"), f"error DeviceGetPowerUsage * {UNKNOWN} 2 2"])
    watts = [reader.read(moment * SECOND // 10).power_w for moment in (1, 2, 3, 11, 12)]
    assert watts == [150.5, None, None, None, 150.5]
    assert said == ["cuda:0 (Stub): power draw could not be read (Unknown Error)"]


def test_memory_by_the_old_call_is_labelled(card):
    reader, said = card([*gpu("GPU-A", memory_v1=f"{308 * MIB}/{8000 * MIB}", memory_v2=f"0/{308 * MIB}/{8000 * MIB}")])
    sample = reader.read(SECOND)
    assert (sample.used_bytes, sample.reserved_bytes, sample.used_by) == (0, 308 * MIB, "v2")
    assert said == []


def test_the_old_call_stands_in_where_the_new_one_does_not_exist(card):
    lines = [
        *gpu("GPU-A", memory_v1=f"{308 * MIB}/{8000 * MIB}"),
        f"error DeviceGetMemoryInfo_v2 * {FUNCTION_NOT_FOUND}",
    ]
    reader, said = card(lines)
    sample = reader.read(SECOND)
    assert (sample.used_bytes, sample.reserved_bytes, sample.used_by) == (308 * MIB, None, "v1")
    assert len(said) == 1


def test_memory_does_not_change_its_definition_because_one_call_failed(card):
    reader, _ = card([*gpu("GPU-A"), f"error DeviceGetMemoryInfo_v2 * {UNKNOWN} 2 2"])
    labels = [reader.read(moment * SECOND).used_by for moment in (1, 2, 3)]
    assert labels == ["v2", None, "v2"]


def test_memory_that_one_may_not_see_is_not_replaced_by_the_systems(card):
    lines = [
        *gpu("GPU-A"),
        f"error DeviceGetMemoryInfo * {NO_PERMISSION}",
        f"error DeviceGetMemoryInfo_v2 * {NO_PERMISSION}",
    ]
    reader, _ = card(lines)
    assert reader.read(SECOND).used_bytes is None


MIG_UUID = "MIG-377e1234-0000-0000-0000-000000000000"
MIG_LINES = [
    *gpu("GPU-A"),
    f"mig GPU-A {MIG_UUID} 7 0",
    f"set {MIG_UUID} memory_v1 {500 * MIB}/{4864 * MIB}",
    f"error DeviceGetMemoryInfo GPU-A {NO_PERMISSION}",
    f"error DeviceGetMemoryInfo_v2 GPU-A {NO_PERMISSION}",
]


def test_a_mig_slice_gives_its_own_memory_and_no_utilization(card):
    reader, _ = card(MIG_LINES, uuid=MIG_UUID, mig=True)
    sample = reader.read(SECOND)
    assert (sample.used_bytes, sample.total_bytes, sample.used_by) == (500 * MIB, 4864 * MIB, "mig")
    assert (sample.gpu_busy_pct, sample.memory_busy_pct, sample.power_w) == (None, None, None)


@pytest.fixture
def listed(nvml_script):
    """Return a function that gives the cards of a script."""

    def make(lines):
        nvml_script(lines)
        assert nvml.open_library() is None
        return list_cards()

    yield make
    nvml.close_library()


def test_a_mig_id_in_the_environment_finds_its_slice(listed):
    cards = listed(MIG_LINES)
    (device,) = map_devices(cards, {"CUDA_VISIBLE_DEVICES": "MIG-377e1234"})
    assert (device.uuid, device.mig, device.mapped_by) == (MIG_UUID, True, "uuid")
    (old,) = map_devices(cards, {"CUDA_VISIBLE_DEVICES": "MIG-GPU-A/7/0"})
    assert old.uuid == MIG_UUID


def test_three_cards_in_swapped_order_are_mapped_by_the_bus(listed):
    cards = listed(
        [
            *gpu("GPU-C", "00000000:AF:00.0"),
            *gpu("GPU-A", "00000000:05:00.0"),
            *gpu("GPU-B", "00000000:3B:00.0"),
        ]
    )
    mapped = map_devices(cards, {"CUDA_VISIBLE_DEVICES": "2,0"})
    assert [device.uuid for device in mapped] == ["GPU-C", "GPU-A"]
    assert [device.as_text()["mapped_by"] for device in mapped] == ["pci id", "pci id"]


def test_unlike_cards_are_uncertain_until_torch_has_said_a_uuid(listed):
    cards = listed([*gpu("GPU-A", "00000000:05:00.0", "Big"), *gpu("GPU-B", "00000000:3B:00.0", "Small")])
    assert {device.mapped_by for device in map_devices(cards, {})} == {"uncertain"}
    assert [device.uuid for device in map_devices(cards, {}, device_uuid="B")] == ["GPU-B", "GPU-A"]


def test_a_card_that_does_not_answer_hides_no_other(listed):
    cards = listed(
        [
            *gpu("GPU-A", "00000000:05:00.0"),
            *gpu("GPU-B", "00000000:3B:00.0"),
            f"error DeviceGetHandleByIndex GPU-A {GPU_IS_LOST}",
        ]
    )
    assert [card.uuid for card in cards] == ["GPU-B"]


def test_a_lost_card_is_marked_asked_again_later_and_its_energy_goes_on(card):
    reader, said = card(
        [
            *gpu("GPU-A", energy="100000 100500 200"),
            f"error DeviceGetUtilizationRates GPU-A {GPU_IS_LOST} 3 3",
        ]
    )
    seen = [(sample.lost, sample.energy_mj) for sample in (reader.read(n * SECOND // 4) for n in range(1, 9))]
    assert seen == [
        (False, 100_000),
        (False, 100_500),
        (True, None),
        (True, None),
        (True, None),
        (True, None),
        (False, 100_700),
        (False, 100_700),
    ]
    assert [message.split(": ", 1)[1] for message in said] == [
        "it does not answer any more (GPU is lost); it is asked again from time to time",
        "it answers again",
        "the energy counter started anew, what was used meanwhile is missing",
    ]


@pytest.mark.parametrize(
    ("code", "reason", "remedy"),
    [
        (VERSION_MISMATCH, "differ in version", "reboot"),
        (NO_PERMISSION, "no permission", "/dev/nvidiactl"),
        (DRIVER_NOT_LOADED, "not loaded", "modprobe"),
        (UNKNOWN, "code 999", "nvidia-smi"),
    ],
)
def test_nvml_that_does_not_start_is_one_line_of_cause_and_one_of_cure(nvml_script, code, reason, remedy):
    nvml_script([f"error Init * {code}"])
    trouble = nvml.open_library()
    assert isinstance(trouble, Unavailable)
    assert reason in trouble.reason
    assert remedy in trouble.remedy
    assert "\n" not in trouble.reason + trouble.remedy


def test_a_machine_without_the_library_is_told_so(no_nvml):
    trouble = nvml.open_library()
    assert isinstance(trouble, Unavailable)
    assert "libnvidia-ml.so.1" in trouble.reason


def test_names_of_throttle_reasons(card):
    reader, _ = card(gpu("GPU-A", throttle=f"1 {0x4 | 0x40 | 0x1} {0x1000}"))
    assert [reader.read(n * SECOND).throttle for n in (1, 2, 3)] == [
        [],
        ["power cap", "thermal (hardware)"],
        ["bit 0x1000"],
    ]


def test_throttle_reasons_by_the_calls_old_name(card):
    lines = [*gpu("GPU-A", throttle="4"), f"error DeviceGetCurrentClocksEventReasons * {FUNCTION_NOT_FOUND}"]
    reader, _ = card(lines)
    assert reader.read(SECOND).throttle == ["power cap"]


def test_memory_of_our_processes_counts_each_once_and_no_neighbour(card):
    own, parent = os.getpid(), os.getppid()
    reader, _ = card(
        [
            *gpu("GPU-A"),
            f"process GPU-A compute {own} {300 * MIB}",
            f"process GPU-A graphics {own} {300 * MIB}",
            f"process GPU-A compute {parent} {50 * MIB}",
            f"process GPU-A compute 1 {7000 * MIB}",
        ]
    )
    reader.read(SECOND)
    both, alone = (reader.read_processes(SECOND, frozenset(pids)) for pids in ({own, parent}, {own}))
    assert both == {"process_bytes": 350 * MIB, "foreign": [called(1)]}
    assert alone == {"process_bytes": 300 * MIB, "foreign": [called(parent), called(1)]}
    assert reader.read_processes(SECOND, frozenset({999_999})) == {}


def test_whoever_only_draws_on_a_card_is_no_stranger(card):
    own = os.getpid()
    reader, _ = card([*gpu("GPU-A"), f"process GPU-A compute {own} 5", f"process GPU-A graphics {os.getppid()} 9"])
    assert reader.read_processes(SECOND, frozenset({own})) == {"process_bytes": 5}


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([GpuProcess(10, 5), GpuProcess(11, 7)], 12),
        ([GpuProcess(10, None), GpuProcess(11, 7)], None),
        ([GpuProcess(10, 5), GpuProcess(4040, 9)], None),
        ([GpuProcess(20, 9)], None),
        ([], None),
    ],
    ids=["both ours", "one unknown", "a host's id that is not ours to see", "only a neighbour", "empty"],
)
def test_process_memory_is_unknown_rather_than_a_neighbours(listed, expected):
    assert tree_bytes(listed, frozenset({10, 11}), exists=lambda pid: pid < 100) == expected


def test_a_list_with_the_hosts_process_ids_is_said_once(card):
    own = os.getpid()
    reader, said = card([*gpu("GPU-A"), f"process GPU-A compute {own} 5", "process GPU-A compute 3999999999 9"])
    assert [reader.read_processes(n * SECOND, frozenset({own})) for n in range(5)] == [{}] * 5
    assert said == [
        "cuda:0 (Stub): the driver lists processes of another pid namespace, ours are not told apart",
    ]


def test_process_memory_that_the_driver_does_not_say_is_none(card):
    reader, _ = card([*gpu("GPU-A"), f"process GPU-A compute {os.getpid()} {SENTINEL}"])
    assert reader.read_processes(SECOND, frozenset({os.getpid()})) == {}


def test_a_missing_graphics_list_leaves_the_compute_list(card):
    lines = [*gpu("GPU-A"), f"process GPU-A compute {os.getpid()} 77"]
    reader, said = card([*lines, f"error DeviceGetGraphicsRunningProcesses * {NOT_SUPPORTED}"])
    assert reader.read_processes(SECOND, frozenset({os.getpid()})) == {"process_bytes": 77}
    assert said == []
