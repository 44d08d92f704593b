"""The host's figures, from real processes."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from gradscope.sampling.host import HostReader, TreeReader

SPAWNING = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "block = bytearray(64 << 20); print(flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
input()
child.communicate(b"\\n")
print(flush=True)
input()
"""
"""A process with one child of 64 MiB, which ends when it is told to."""


@pytest.fixture
def parent():
    process = subprocess.Popen(
        [sys.executable, "-c", SPAWNING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.child_pid = int(process.stdout.readline())
    yield process
    process.kill()
    process.communicate()


def tell(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_children_belong_to_the_tree_and_vanish_from_it(parent):
    reader = TreeReader(parent.pid)
    alone = reader.read(time.monotonic_ns())["tree_resident_bytes"]
    reader.renew()
    assert reader.pids == {parent.pid, parent.child_pid}
    figures = reader.read(time.monotonic_ns())
    together = figures["tree_resident_bytes"]
    assert together - alone > 64 << 20
    assert figures["worker_resident_bytes"] < alone + (32 << 20)  # the child's memory is not the worker's
    tell(parent)
    parent.stdout.readline()
    after = reader.read(time.monotonic_ns())["tree_resident_bytes"]  # before the tree is looked at again
    assert together - after > 64 << 20
    reader.renew()
    assert reader.pids == {parent.pid}


def test_cpu_time_of_a_tree_is_that_of_its_processes_over_the_interval():
    reader = TreeReader(os.getpid())
    assert "tree_cpu_pct" not in reader.read(0)
    before = psutil.Process().cpu_times()
    while (spent := sum(psutil.Process().cpu_times()[:2]) - sum(before[:2])) < 0.1:
        pass
    share = reader.read(1_000_000_000)["tree_cpu_pct"]
    assert share == pytest.approx(100 * spent, abs=5)


def test_a_process_that_is_gone_has_no_figures(parent):
    reader = TreeReader(parent.pid)
    parent.kill()
    parent.wait()
    reader.renew()
    assert reader.read(time.monotonic_ns()) == {}
    assert TreeReader(parent.pid).read(0) == {}


def test_a_zombie_has_no_memory_rather_than_none_of_it(parent):
    reader = TreeReader(parent.pid)
    parent.kill()
    os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
    assert reader.read(time.monotonic_ns()) == {}


def test_slow_figures_hold_cores_disk_and_traffic_of_ended_children_too(parent, tmp_path):
    reader = HostReader(parent.pid, tmp_path)
    first = reader.read_slow()
    assert "core_busy_pct" not in first
    assert first["disk_free_bytes"] > 0
    tell(parent)
    parent.stdout.readline()
    while "core_busy_pct" not in (second := reader.read_slow()):
        pass  # the kernel counts in ticks of 10 ms
    for field in ("disk_read_bytes", "disk_write_bytes"):
        assert second[field] >= first[field]
    assert len(second["core_busy_pct"]) == psutil.cpu_count()
    assert all(0 <= share <= 100 for share in second["core_busy_pct"])


def test_a_folder_that_is_gone_leaves_disk_space_unknown(tmp_path):
    figures = HostReader(os.getpid(), tmp_path / "gone").read_slow()
    assert "disk_free_bytes" not in figures


def test_available_memory_is_within_the_host(tmp_path):
    figures = HostReader(os.getpid(), tmp_path).read(time.monotonic_ns())
    assert 0 < figures["available_bytes"] <= psutil.virtual_memory().total
