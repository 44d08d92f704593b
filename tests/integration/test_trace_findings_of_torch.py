"""What torch itself writes: memory to the byte, and the rules that go by names of torch's own."""

import torch
from torch.profiler import profile, record_function
from torch.utils.checkpoint import checkpoint

from gradscope.trace.finding import Calm, Finding, Unjudged
from gradscope.trace.findings import findings
from gradscope.trace.frames import Trace
from gradscope.trace.load import load_trace
from gradscope.trace.memory_timeline import memory
from gradscope.trace.thresholds import Thresholds

ANY = Thresholds(optimizer_pct=0, recomputation_pct=0, input_bound_pct=0)
"""No share of time decides: how long something takes is not a test's business."""


def recorded(tmp_path, work) -> Trace:
    with profile(profile_memory=True, record_shapes=True) as profiler, record_function("ProfilerStep#0"):
        work()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    return load_trace(path)


def verdict(trace: Trace, rule: str) -> Finding | Calm | Unjudged:
    answer = findings(trace, thresholds=ANY)
    return next(one for one in [*answer.found, *answer.calm, *answer.unjudged] if one.rule == rule)


def test_memory_is_right_to_the_byte(tmp_path):
    kept = []

    def work():
        kept.append(torch.empty(1000))  # 4000 bytes
        passing = torch.zeros(5000)  # 20000 bytes: the peak
        del passing
        kept.append(torch.empty(10))

    (device,) = memory(recorded(tmp_path, work)).devices
    assert device.device == "CPU"
    assert device.peak_step == 0
    assert device.peak_bytes - device.older_at_peak_bytes == 24_000
    assert device.alive_at_peak.rows() == [
        ("aten::empty", "aten::zeros", 20_000, 1),
        ("aten::empty", "aten::empty", 4_000, 1),
    ]
    assert device.never_freed.rows() == [("aten::empty", "aten::empty", 4_040, 2)]
    assert (device.allocations, device.allocated_bytes) == (3, 24_040)


def test_updates_tensor_by_tensor_and_together_are_told_apart(tmp_path):
    def run(**options):
        parameters = [torch.ones(4, requires_grad=True) for _ in range(30)]
        for parameter in parameters:
            parameter.grad = torch.ones(4)
        optimizer = torch.optim.Adam(parameters, **options)
        optimizer.step()
        return verdict(recorded(tmp_path, optimizer.step), "optimizer")

    assert isinstance(run(foreach=False), Finding)
    assert isinstance(run(foreach=True), Calm)
    assert isinstance(run(fused=True), Calm)


def test_recomputation_is_seen_in_anybodys_trace(tmp_path):
    blocks = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))

    def run(forward):
        rows = torch.ones(2, 8, requires_grad=True)
        return verdict(recorded(tmp_path, lambda: forward(rows).sum().backward()), "recomputation")

    assert isinstance(run(blocks), Calm)
    assert isinstance(run(lambda rows: checkpoint(blocks, rows, use_reentrant=False)), Finding)
    assert isinstance(run(lambda rows: checkpoint(blocks, rows, use_reentrant=True)), Finding)


def test_data_loading_is_seen(tmp_path):
    loader = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2)
    found = verdict(recorded(tmp_path, lambda: list(loader)), "input-bound")
    assert isinstance(found, Finding)
    assert found.saving_ms_per_step is not None
    assert found.saving_ms_per_step > 0
