"""The checks behind `gradscope doctor`, one by one."""

import socket

import pytest

from gradscope.core.check import Check
from gradscope.launch import checks
from gradscope.launch.probe import ProbeFailed, TorchDevice, TorchFacts, run_python

CPU_BUILD = TorchFacts(version="2.13.0+cpu", cuda=None, devices=[])
CUDA_BUILD = TorchFacts(version="2.13.0+cu130", cuda="13.0", devices=[])
WITH_CARD = TorchFacts(version="2.13.0", cuda="13.0", devices=[TorchDevice(name="Big", uuid="b0")])
CARD = Check(name="card 0", ok=True, detail="")


@pytest.mark.parametrize(
    ("version", "ok"),
    [((3, 10, 14), False), ((3, 11, 0), True), ((3, 13, 9), True), ((3, 14, 0), False)],
)
def test_python_versions(version, ok):
    check = checks.python_check(version)
    assert (check.ok, check.needed, bool(check.remedy)) == (ok, True, not ok)


@pytest.mark.parametrize(
    ("facts", "ok", "detail"),
    [
        (CPU_BUILD, True, "2.13.0+cpu, built without CUDA"),
        (CUDA_BUILD, True, "2.13.0+cu130, built for CUDA 13.0"),
        (TorchFacts(version="2.4.1", cuda=None, devices=[]), False, "2.4.1, built without CUDA"),
    ],
)
def test_torch_versions(facts, ok, detail):
    check = checks.torch_check(facts)
    assert (check.ok, check.detail) == (ok, detail)


def test_packages_that_are_not_installed(monkeypatch):
    monkeypatch.setattr(checks, "_version", lambda package: None)
    assert checks.torch_check(ProbeFailed("No module named 'torch'")).detail == "not installed"
    assert not checks.transformers_check().ok


@pytest.mark.parametrize(
    ("facts", "cards", "ok", "said"),
    [
        (WITH_CARD, [CARD], True, "cuda:0 Big"),
        (CPU_BUILD, [], False, "none needed"),
        (CPU_BUILD, [CARD], False, "CUDA build"),
        (CUDA_BUILD, [CARD], False, "CUDA_VISIBLE_DEVICES"),
        (ProbeFailed("hangs"), [CARD], False, "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_cuda_is_what_torch_sees_beside_what_nvml_sees(facts, cards, ok, said):
    check = checks.cuda_check(facts, cards)
    assert (check.ok, check.needed) == (ok, False)
    assert said in check.detail + check.remedy


def test_a_taken_port_is_told_with_a_free_one_and_the_way_to_it():
    with socket.socket() as holder:
        try:
            holder.bind(("127.0.0.1", 6006))
        except OSError:
            pass  # somebody else holds it, which is as good
        else:
            holder.listen()
        check = checks.port_check({"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"})
    assert not check.ok
    assert "ssh -N -L" in check.detail


def test_a_registry_that_cannot_be_written_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert checks.registry_check().detail == "none"
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    check = checks.registry_check()
    assert (check.ok, check.needed) == (False, False)


def test_little_disk_space_is_told(monkeypatch, tmp_path):
    assert checks.disk_check(tmp_path / "not" / "yet" / "there").ok
    monkeypatch.setattr(checks, "LITTLE_DISK_BYTES", 2**80)
    assert not checks.disk_check(tmp_path).ok


def test_a_probe_that_hangs_or_dies_is_one_line():
    assert run_python("print('fine')", 60) == "fine\n"
    assert run_python("import time; time.sleep(600)", 0.2) == ProbeFailed("no answer within 0.2 s")
    assert run_python("import os; os._exit(9)", 60) == ProbeFailed("exit code 9")
    assert run_python("import no_such_module", 60) == ProbeFailed(
        "ModuleNotFoundError: No module named 'no_such_module'"
    )
