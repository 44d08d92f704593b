"""What this machine offers a run."""

import pytest
from nvml_stub.build import gpu

from gradscope.analysis.machine_look import look_at_machine


@pytest.mark.usefixtures("no_nvml")
def test_without_a_driver_the_reason_and_the_remedy_are_there():
    machine = look_at_machine({})
    assert machine.gpu is None
    assert machine.no_gpu == "NVML's library libnvidia-ml.so.1 was not found: no NVIDIA driver here"
    assert machine.no_gpu_remedy.startswith("install the NVIDIA driver")
    assert machine.cores >= 1
    assert machine.memory_bytes > 2**20


def test_the_first_card_with_its_memory(nvml_script):
    nvml_script(gpu("GPU-A"))
    machine = look_at_machine({})
    assert machine.gpu is not None
    assert machine.gpu.memory_bytes == 8000 * 1024**2
    assert (machine.no_gpu, machine.no_gpu_remedy) == ("", "")


def test_hidden_cards_are_told_as_hidden(nvml_script):
    nvml_script(gpu("GPU-A"))
    machine = look_at_machine({"CUDA_VISIBLE_DEVICES": "-1"})
    assert machine.gpu is None
    assert machine.no_gpu == "CUDA_VISIBLE_DEVICES=-1 hides all cards"
    assert machine.no_gpu_remedy == "unset CUDA_VISIBLE_DEVICES"


def test_a_driver_without_cards(nvml_script):
    nvml_script([])
    machine = look_at_machine({})
    assert machine.gpu is None
    assert machine.no_gpu == "NVML lists no card"
