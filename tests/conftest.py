"""Fixtures that several test files share."""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pynvml
import pytest
from nvml_stub.build import build

# two OpenMP threads wait for each other whenever anything else runs: up to thirty times as long on a busy machine
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML stub, built once a session. Its folder in LD_LIBRARY_PATH gives it to another process."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml_script(
    nvml_library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[Sequence[str]], Path]]:
    """Put the stub under the real pynvml in this process, and return a function that gives it a script."""
    library = ctypes.CDLL(str(nvml_library))
    path = tmp_path / "nvml.script"
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("NVML_STUB_SCRIPT", str(path))

    def write(lines: Sequence[str]) -> Path:
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    library.stub_reset()
    write([])
    yield write
    library.stub_reset()


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without NVML's library, whatever this one has."""

    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", missing)
