"""Rules about what the host does: data, optimizer, recomputation, allocations."""

import polars as pl

from gradscope.core.text import visible
from gradscope.core.units import format_bytes, format_count
from gradscope.trace.containment import NOBODY, ranges
from gradscope.trace.facts import Facts
from gradscope.trace.finding import Calm, Unjudged, Verdict, finding
from gradscope.trace.intervals import contains, intersection, merge
from gradscope.trace.memory_timeline import DeviceMemory
from gradscope.trace.phases import PATTERNS
from gradscope.trace.steps import DATA_LOADING
from gradscope.trace.thresholds import Thresholds

DATA = rf"{DATA_LOADING}|{PATTERNS['data']}"
OPTIMIZER_STEP = r"^Optimizer\.step#"
TOGETHER = r"_foreach_|_fused_|multi_tensor|(?i)fused_?(?:adam|sgd|lamb|adagrad)"
"""Operators that update many tensors in one call."""
BACKWARD_NODE = "autograd::engine::evaluate_function"
ALLOCATION_CALL = (
    r"^(?:cuda|hip)(?:Malloc|Free)(?:Async|Managed|Host)?$|^(?:cuda|hip)Host(?:Alloc|Malloc|Free)$"
    r"|^cuMem(?:Create|Map|Unmap|Release|SetAccess)$"
)


def input_bound(facts: Facts, limits: Thresholds) -> Verdict:
    """Is the step waiting for data?"""
    rule = "input-bound"
    loading = facts.named(DATA)
    if loading.is_empty():
        return Unjudged(rule=rule, reason="no range of a DataLoader or of data loading in this trace")
    data = facts.within(loading)
    lost = intersection(data, facts.idle) if facts.has_device else data
    share = facts.pct(lost.length_ns)
    seen = f"loading data takes {facts.amount(data.length_ns)}"
    if facts.has_device:
        seen += f", {facts.amount(lost.length_ns)} of it with no device at work"
    if share < limits.input_bound_pct:
        return Calm(rule=rule, evidence=seen)
    return finding(
        facts,
        limits,
        rule=rule,
        title="the step waits for data",
        evidence=seen,
        remedy=(
            "load ahead in other processes: DataLoader(num_workers=..., persistent_workers=True, prefetch_factor=...), "
            "pin_memory=True with a GPU; move decoding and augmentation out of the step"
        ),
        saving_ns=lost.length_ns,
        saving_formula=(
            "at most: time in data loading while no device worked"
            if facts.has_device
            else "at most: time in data loading; workers also need processor time"
        ),
    )


def optimizer(facts: Facts, limits: Thresholds) -> Verdict:
    """Does the optimizer update tensor after tensor?"""
    rule = "optimizer"
    updates = facts.inside(facts.named(OPTIMIZER_STEP))
    if updates.is_empty():
        return Unjudged(rule=rule, reason="no Optimizer.step range in this trace")
    taken = facts.within(updates)
    nodes = facts.operators.frame.filter(pl.col("name").cast(pl.String).str.starts_with(BACKWARD_NODE))
    if contains(taken, nodes["ts_ns"].to_numpy()).any():
        return Unjudged(rule=rule, reason="the optimizer evaluates the model within its step")
    tree = facts.operators
    outermost = tree.frame.filter(pl.Series(tree.parents == NOBODY, dtype=pl.Boolean))
    called = outermost.filter(pl.Series(ranges(updates).innermost(outermost) != NOBODY, dtype=pl.Boolean))
    calls = called.height / updates.height
    seen = f"{facts.amount(taken.length_ns)}, {format_count(round(calls))} operators a call of the optimizer"
    together = called.filter(pl.col("name").cast(pl.String).str.contains(TOGETHER))
    if not together.is_empty():
        name = visible(str(together["name"].mode().sort()[0]))
        return Calm(rule=rule, evidence=f"{seen}; tensors are updated together ({name})")
    if calls < limits.optimizer_calls_per_step or facts.pct(taken.length_ns) < limits.optimizer_pct:
        return Calm(rule=rule, evidence=seen)
    if facts.has_device:
        saving_ns: int | None = _idle_amid(facts, updates)
        formula = "time with no device at work between the first and the last kernel of each update"
    else:
        saving_ns = _fixed_cost_ns(called, updates.height) or None  # durations of old traces are whole microseconds
        formula = "for each operator, its calls beyond one an update x the shortest call: what a call costs at least"
    return finding(
        facts,
        limits,
        rule=rule,
        title="the optimizer updates tensor after tensor",
        evidence=seen,
        remedy="fused=True (on a CPU: Adam, AdamW, SGD, Adagrad) or foreach=True in the optimizer's constructor",
        saving_ns=saving_ns,
        saving_formula=formula,
    )


def _idle_amid(facts: Facts, updates: pl.DataFrame) -> int:
    """Return the idle time between the first and the last device event that each slice launched."""
    launched = facts.launched_within(updates)
    if launched.is_empty():
        return 0
    points = launched.select(pid="launch_pid", tid="launch_tid", ts_ns="launch_ns")
    spans = (
        launched.with_columns(update=pl.Series(ranges(updates).innermost(points)))
        .group_by("update")
        .agg(pl.col("ts_ns").min(), pl.col("end_ns").max())
    )
    return intersection(merge(spans["ts_ns"].to_numpy(), spans["end_ns"].to_numpy()), facts.idle).length_ns


def _fixed_cost_ns(called: pl.DataFrame, updates: int) -> int:
    costs = called.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("calls"), pl.col("dur_ns").min().alias("least_ns")
    )
    beyond = (costs["calls"] - updates).clip(lower_bound=0)
    return int((beyond * costs["least_ns"]).sum())


def recomputation(facts: Facts, limits: Thresholds) -> Verdict:
    """What does checkpointing cost?"""
    rule = "recomputation"
    answer = facts.phases
    rows = facts.of_steps(answer.table.filter(pl.col("phase") == "recompute"))
    if rows.is_empty():
        if answer.source is None or answer.source == "annotations":
            return Unjudged(rule=rule, reason="nothing in this trace tells recomputation from the rest of backward")
        return Calm(rule=rule, evidence="nothing is recomputed")
    on_device = facts.has_device and rows["device_ns"].sum() > 0
    cost_ns = int(rows["device_ns" if on_device else "host_ns"].sum())
    guessed = "" if answer.source == "gradscope" else ", as autograd's operators within backward tell"
    seen = f"{facts.count(int(rows['ranges'].sum()), 'recomputation')}, {facts.amount(cost_ns)}{guessed}"
    if facts.pct(cost_ns) < limits.recomputation_pct:
        return Calm(rule=rule, evidence=seen)
    return finding(
        facts,
        limits,
        rule=rule,
        title="activations are recomputed in backward",
        evidence=seen,
        remedy=(
            "this time buys memory: where some is left, checkpoint fewer blocks, or keep what is dear to compute "
            "(torch.utils.checkpoint with a selective context_fn)"
        ),
        saving_ns=cost_ns,
        saving_formula=f"all time of recomputation {'on the device' if on_device else 'on the host'}",
    )


def allocator_churn(facts: Facts, limits: Thresholds) -> Verdict:
    """Is memory fetched from the device or the system again and again?"""
    rule = "allocator-churn"
    known = [device for device in facts.memory.devices if device.turnover is not None]
    traced = facts.has_device and facts.has_runtime
    if not traced and not known:
        return Unjudged(rule=rule, reason=facts.memory.missing or "steps are unknown")
    if facts.steps.is_empty():
        return Unjudged(rule=rule, reason="steps are unknown, and allocations before the first are to be expected")
    calls = facts.inside(facts.runtime_calls(ALLOCATION_CALL))
    if calls.height >= limits.device_allocations_per_step * facts.steps.height:
        taken = facts.within(calls)
        most = visible(str(calls["name"].cast(pl.String).mode().sort()[0]))
        return finding(
            facts,
            limits,
            rule=rule,
            title="steps allocate from the device, not from the cache",
            evidence=f"{facts.count(calls.height, 'call')}, most of them {most}, {facts.amount(taken.length_ns)}",
            remedy=(
                "keep shapes alike from step to step (pad to a few lengths), leave out torch.cuda.empty_cache(), or "
                "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; near the card's limit, need less memory"
            ),
            saving_ns=intersection(taken, facts.idle).length_ns,
            saving_formula="time in these calls while no device worked",
        )
    worst = max(known, key=_turnover, default=None)
    if worst is not None and _turnover(worst) >= limits.churn_turnover:
        return finding(
            facts,
            limits,
            rule=rule,
            title=f"steps allocate many times their peak on {worst.device}",
            evidence=_turnover_text(worst),
            remedy="reuse buffers (out=, in-place operators), and gather small tensors into large ones",
            saving_ns=None,
            saving_formula="not in the trace: what an allocation costs is part of its operator's time",
        )
    seen = [f"{facts.count(calls.height, 'allocation')} from the device"] if traced else []
    return Calm(rule=rule, evidence="; ".join(seen + [_turnover_text(device) for device in known]))


def _turnover(device: DeviceMemory) -> float:
    return device.turnover or 0.0


def _turnover_text(device: DeviceMemory) -> str:
    return (
        f"{device.device}: {format_count(round(device.allocations_per_step or 0))} allocations of "
        f"{format_bytes(device.bytes_per_step)} a step, {_turnover(device):.1f} x the peak"
    )
