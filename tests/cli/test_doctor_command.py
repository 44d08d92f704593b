"""`gradscope doctor`, as a user runs it: with packages that break and cards that are made up (P24, P28, P36)."""

import json
import os
import subprocess
import sys

import pytest
from nvml_stub.build import GPU_IS_LOST, NOT_SUPPORTED, VERSION_MISMATCH, gpu

TORCH = """
__version__ = "2.13.0"
class version: cuda = "13.0"
class cuda:
    is_available = staticmethod(lambda: {count} > 0)
    device_count = staticmethod(lambda: {count})
    get_device_properties = staticmethod(lambda n: type("P", (), dict(name="Big", uuid="b0", total_memory=1)))
"""


class Doctor:
    """Runs the command with packages of ours before the installed ones."""

    def __init__(self, folder):
        self.folder = folder
        self.packages = folder / "packages"
        self.packages.mkdir()
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}
        self.env |= {"PYTHONPATH": str(self.packages), "XDG_STATE_HOME": str(folder / "state")}
        self.package("torch", TORCH.format(count=0))
        self.package("tensorboard/main", "")
        self.package("torch_tb_profiler/plugin", "")

    def package(self, name, text):
        """Put a module, or a package with one, before what is installed."""
        path = self.packages / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if path.parent != self.packages:
            (path.parent / "__init__.py").touch()

    def nvml(self, library, lines):
        """Let the stub stand for NVML."""
        script = self.folder / "nvml.script"
        script.write_text("".join(f"{line}\n" for line in lines))
        self.env |= {"LD_LIBRARY_PATH": str(library.parent), "NVML_STUB_SCRIPT": str(script)}

    def run(self, *arguments):
        command = [sys.executable, "-c", "from gradscope.cli.app import main; main()", "doctor", *arguments]
        return subprocess.run(
            command, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False, timeout=110
        )

    def checks(self, *arguments):
        """Return the exit code and the checks by name."""
        done = self.run("--json", *arguments)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert "Traceback" not in done.stderr
        return done.returncode, {row["name"]: row for row in rows}


@pytest.fixture
def doctor(tmp_path):
    return Doctor(tmp_path)


def test_what_is_installed_here_is_enough_for_runs_on_the_cpu(doctor):
    for name in ("torch.py", "tensorboard", "torch_tb_profiler"):
        path = doctor.packages / name
        path.rename(doctor.folder / name)
    done = doctor.run()
    assert done.returncode == 0, done.stdout
    assert "importing torch" in done.stderr
    assert "built" in done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("torch", "TensorBoard"))] == [
        "ok",
        "ok",
    ]


def test_a_torch_that_does_not_import_is_exit_code_6(doctor):
    doctor.package("torch", "raise ImportError('libcudart.so.13: cannot open shared object file')")
    code, checks = doctor.checks()
    assert code == 6
    assert not checks["torch"]["ok"]
    assert "libcudart.so.13" in checks["torch"]["detail"]
    assert "pip install" in checks["torch"]["remedy"]


def test_a_tensorboard_without_pkg_resources_is_told_with_its_remedy_and_is_no_failure(doctor):
    doctor.package("tensorboard/main", "raise ModuleNotFoundError(\"No module named 'pkg_resources'\")")
    code, checks = doctor.checks()
    assert code == 0
    assert not checks["TensorBoard"]["ok"]
    assert "pkg_resources" in checks["TensorBoard"]["detail"]
    assert "setuptools<81" in checks["TensorBoard"]["remedy"]


def test_an_environment_without_the_profilers_plugin_is_told(doctor):
    doctor.package("torch_tb_profiler/plugin", "raise ModuleNotFoundError(\"No module named 'torch_tb_profiler'\")")
    code, checks = doctor.checks()
    assert code == 0
    assert "torch_tb_profiler" in checks["TensorBoard"]["detail"]
    assert "torch-tb-profiler" in checks["TensorBoard"]["remedy"]


def test_a_driver_mismatch_names_its_remedy_and_is_no_failure(doctor, nvml_library):
    doctor.nvml(nvml_library, [f"error Init * {VERSION_MISMATCH}"])
    code, checks = doctor.checks()
    assert code == 0
    assert (checks["NVML"]["ok"], checks["NVML"]["remedy"]) == (False, "reboot")


def test_cards_and_the_mapping_that_torch_confirms(doctor, nvml_library):
    doctor.package("torch", TORCH.format(count=1))
    doctor.nvml(
        nvml_library,
        [
            "driver 580.1 13000",
            *gpu("GPU-a0", "00000000:05:00.0", "Small"),
            *gpu("GPU-b0", "00000000:3B:00.0", "Big"),
            *gpu("GPU-c0", "00000000:AF:00.0", "Old"),
            f"error DeviceGetTemperature GPU-b0 {NOT_SUPPORTED}",
            f"error * GPU-c0 {GPU_IS_LOST}",
        ],
    )
    code, checks = doctor.checks()
    assert code == 0
    assert checks["NVML"]["detail"] == "driver 580.1, for CUDA up to 13.0"
    assert "1000 MiB of 7.81 GiB in use (v2)" in checks["card 0"]["detail"]
    assert "no temperature" in checks["card 1"]["detail"]
    assert not checks["cards"]["ok"]
    assert "1 of 3 do not answer" in checks["cards"]["detail"]
    assert checks["cuda:0"]["detail"] == "Big, GPU-b0, NVML index 1, mapped by uuid"
    assert checks["cuda:1"]["detail"].startswith("uncertain")
    assert checks["CUDA"]["ok"]


def test_a_card_that_torch_does_not_see_is_told(doctor, nvml_library):
    doctor.nvml(nvml_library, gpu("GPU-a0"))
    doctor.env["CUDA_VISIBLE_DEVICES"] = "-1"
    code, checks = doctor.checks()
    assert code == 0
    assert not checks["CUDA"]["ok"]
    assert checks["CUDA devices"]["detail"] == "CUDA_VISIBLE_DEVICES=-1 hides all cards"


def test_an_output_root_that_cannot_be_written_is_exit_code_6(doctor):
    (doctor.folder / "file").write_text("")
    done = doctor.run("--out", "file/traces", "-q")
    assert done.returncode == 6
    assert done.stderr == ""
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("output root")][:1]
    assert row.split()[2] == "NO"
    assert "cannot be written" in row
