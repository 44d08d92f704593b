"""Rules about what the device does, and what it waits for."""

import numpy as np
import polars as pl

from gradscope.core.text import visible
from gradscope.core.units import format_ms, format_pct
from gradscope.trace.categories import is_op, is_synchronisation
from gradscope.trace.facts import SLICE, Facts, gaps_after
from gradscope.trace.finding import Calm, Unjudged, Verdict, finding
from gradscope.trace.intervals import Intervals
from gradscope.trace.kernels import MATRIX_OPERATOR
from gradscope.trace.kernels import kernels as kernel_table
from gradscope.trace.thresholds import Thresholds

PRODUCT = r"(?i)gemm|nvjet|xmma|cutlass|conv(?:[123]d|olve|olution)|fprop|[dw]grad_|winograd|flash_(?:fwd|bwd)|fmha"
"""Kernels that multiply matrices: those for which tensor cores exist. Matrix times vector is none."""
NO_PRODUCT = r"(?i)splitk_?reduce|nchwtonhwc|nhwctonchw|depthwise|im2col|col2im|adagrad_"
"""Kernels beside a product, which only move or add, and names that read like one."""
LIBRARY = r"(?i)fbgemm|GenericPackedTensorAccessor"
"""Words of names that have nothing to do with a product."""
AMD_PRODUCT = "^Cijk_"
COPY = r"^(?:cuda|hip)Memcpy\w*(?:Async|WithStream)$"
"""Calls that may come back before the copy is done, or not."""
WAITING = ("aten::_local_scalar_dense", "aten::copy_", "aten::_to_copy")
"""Operators within which the host waits on behalf of another: the one around them is named."""
HALF = r"(?i)half|bfloat16|float8"
FLOAT = r'^\["float"'
ASKERS_SHOWN = 3


def many_small_kernels(facts: Facts, limits: Thresholds) -> Verdict:
    """Is the device waiting for kernels that are too small to be launched in time?"""
    rule = "small-kernels"
    kernels = facts.kernels
    if kernels.is_empty():
        return Unjudged(rule=rule, reason="no kernels in this trace")
    durations_us = (kernels["end_ns"] - kernels["ts_ns"]).to_numpy() / 1000
    small = durations_us < limits.small_kernel_us
    small_pct = 100 * float(small.mean())
    per_step = facts.per_step(kernels.height)
    seen = (
        f"{facts.count(kernels.height, 'kernel')}, median {np.median(durations_us):.1f} us, "
        f"{format_pct(small_pct)} below {limits.small_kernel_us:g} us"
    )
    if kernels["launch_ns"].null_count() == kernels.height:
        return Unjudged(rule=rule, reason=f"kernels carry no correlation with their launches ({seen})")
    waits = _launch_waits_ns(facts, kernels, limits)
    starved_pct = 100 * float((waits > 0).mean())
    lost_ns = int(waits.sum())
    seen += f"; {format_pct(starved_pct)} began when their launch let them, after {facts.amount(lost_ns)} without work"
    few = (kernels.height if per_step is None else per_step) < limits.small_kernels_least
    if few or small_pct < limits.small_kernels_pct or facts.pct(lost_ns) < limits.launch_bound_pct:
        return Calm(rule=rule, evidence=seen)
    return finding(
        facts,
        limits,
        rule=rule,
        title="many small kernels: launching takes longer than running",
        evidence=seen,
        remedy="fuse or replay them: torch.compile(mode='reduce-overhead'), CUDA graphs, fused operators",
        saving_ns=lost_ns,
        saving_formula=(
            f"idle time in gaps up to {limits.launch_gap_longest_us:g} us that ended with a kernel whose launch began "
            "only after the device had run out of work"
        ),
    )


def _launch_waits_ns(facts: Facts, kernels: pl.DataFrame, limits: Thresholds) -> np.ndarray:
    """Return for each kernel how long the device had been idle when it began, if its launch came too late; 0 if not."""
    starts, launched = kernels["ts_ns"].to_numpy(), kernels["launch_ns"].fill_null(-1).to_numpy()
    waits = np.zeros(len(starts), np.int64)
    idle = facts.idle
    if not len(idle):
        return waits
    position = np.searchsorted(idle.ends, starts)
    at = np.minimum(position, len(idle) - 1)
    ended = (position < len(idle)) & (idle.ends[at] == starts)  # the kernel ended this idle range
    late = ended & (launched >= idle.starts[at])
    lengths = idle.durations_ns[at]
    waits[late] = lengths[late]
    waits[waits > limits.launch_gap_longest_us * 1000] = 0
    first = np.unique(at[waits > 0], return_index=True)[1]  # several kernels may begin at once
    kept = np.zeros(len(starts), bool)
    kept[np.flatnonzero(waits > 0)[first]] = True
    return np.where(kept, waits, 0)


def synchronisation(facts: Facts, limits: Thresholds) -> Verdict:
    """Does the host wait for the device, and the device then for the host?"""
    rule = "synchronisation"
    if not facts.has_device:
        return Unjudged(rule=rule, reason=f"no device events in {facts.trace.extent}")
    calls = facts.inside(_waiting_calls(facts))
    if calls.is_empty():
        if not facts.has_runtime:
            return Unjudged(rule=rule, reason="no runtime calls in this trace")
        return Calm(rule=rule, evidence="the host never waits for the device")
    lost = _followed(gaps_after(facts.idle, calls), facts)
    per_step = facts.per_step(calls.height)
    seen = f"{facts.count(calls.height, 'wait')} of the host"
    seen += f", {facts.amount(facts.within(calls).length_ns)}, asked for by {_askers(facts, calls)}"
    seen += f"; the device then had no work for {facts.amount(lost.length_ns)}"
    many = per_step is not None and per_step >= limits.synchronisations_per_step
    if facts.pct(lost.length_ns) < limits.synchronisation_pct and not many:
        return Calm(rule=rule, evidence=seen)
    return finding(
        facts,
        limits,
        rule=rule,
        title="the host waits for the device",
        evidence=seen,
        remedy=(
            "read losses and norms late (keep tensors, call .item() every N steps), copy with pinned memory and "
            "non_blocking=True, avoid nonzero, masks as indices and torch.cuda.synchronize() in the step"
        ),
        saving_ns=lost.length_ns,
        saving_formula="idle time that began while the host waited and lasted longer than the wait",
    )


def _waiting_calls(facts: Facts) -> pl.DataFrame:
    """Return calls that synchronise, and asynchronous copies that came back only when the copy was done."""
    events = facts.trace.events
    waits = events.filter(is_synchronisation()).select(SLICE)
    copies = facts.work.table.filter(pl.col("kind") == "memcpy", pl.col("launch_ns").is_not_null())
    blocking = copies.filter(
        pl.col("launch_name").cast(pl.String).str.contains(COPY),
        pl.col("launch_ns") + pl.col("launch_dur_ns") >= pl.col("end_ns"),
    ).select(name="launch_name", pid="launch_pid", tid="launch_tid", ts_ns="launch_ns", dur_ns="launch_dur_ns")
    text = pl.col("name", "pid", "tid").cast(pl.String)
    return pl.concat([waits.with_columns(text), blocking.with_columns(text)])


def _followed(gaps: Intervals, facts: Facts) -> Intervals:
    """Leave out a gap that no work follows: the window ends there."""
    if not len(gaps) or not len(facts.busy):
        return gaps
    kept = gaps.ends <= facts.busy.starts[-1]
    return Intervals(gaps.starts[kept], gaps.ends[kept])


def _askers(facts: Facts, calls: pl.DataFrame) -> str:
    """Name the operators, else the runtime calls, that most waits come from, with their counts a window."""
    tree = facts.operators
    inner = tree.innermost(calls)
    mere = tree.frame["name"].cast(pl.String).is_in(WAITING).fill_null(value=False).to_numpy()
    names = tree.names(tree.beyond(inner, mere)).alias("name")
    asked = pl.DataFrame({"name": names, "call": calls["name"]}).select(pl.coalesce("name", "call").alias("name"))
    counts = asked.group_by("name").len().sort("len", "name", descending=[True, False])
    return ", ".join(f"{visible(name)} ({count})" for name, count in counts.head(ASKERS_SHOWN).iter_rows())


def tensor_cores(facts: Facts, limits: Thresholds) -> Verdict:
    """Are matrix products run without tensor cores?"""
    rule = "tensor-cores"
    if facts.kernels.is_empty():
        return Unjudged(rule=rule, reason="no kernels in this trace")
    table = kernel_table(facts.trace).filter(pl.col("kind") == "kernel", ~pl.col("communication"))
    products = table.filter(_is_product())
    with_them = int(products.filter("tensor_cores")["total_ns"].sum())
    if (known := _without_judging(facts, limits, table, seen_at_work=with_them > 0)) is not None:
        return known
    kernel_ns, product_ns = int(table["total_ns"].sum()), int(products["total_ns"].sum())
    without_ns = product_ns - with_them
    product_pct = 100 * product_ns / kernel_ns if kernel_ns else 0.0
    if not product_ns:
        return Calm(rule=rule, evidence="no kernel that multiplies matrices, as far as names tell")
    without_pct = 100 * without_ns / product_ns
    seen = (
        f"matrix products take {format_pct(product_pct)} of kernel time, {format_pct(without_pct)} of it without "
        "tensor cores"
    )
    if product_pct < limits.matrix_products_least_pct or without_pct < limits.no_tensor_cores_pct:
        return Calm(rule=rule, evidence=seen)
    worst = products.filter(~pl.col("tensor_cores"))["name"][0]
    fp32_pct = _fp32_pct(facts)
    seen += f"; most in {visible(worst)[:60]}"
    if fp32_pct is not None:
        seen += f"; inputs are fp32 in {format_pct(fp32_pct)} of the matrix operators' calls"
    sizes = "make sizes multiples of 8 (16 for 8-bit types), the batch, the vocabulary and padding included"
    types = "torch.autocast('cuda', torch.bfloat16), or torch.set_float32_matmul_precision('high') for TF32"
    return finding(
        facts,
        limits,
        rule=rule,
        title="matrix products run without tensor cores",
        evidence=seen,
        remedy=types if fp32_pct is None or fp32_pct >= limits.fp32_products_least_pct else sizes,
        saving_ns=None,
        saving_formula="not in the trace: how much faster tensor cores are depends on the card, the type and the sizes",
        unknown_severity="warning",
    )


def _is_product() -> pl.Expr:
    name = pl.col("name").str.replace_all(LIBRARY, "")
    return name.str.contains(PRODUCT) & ~name.str.contains(NO_PRODUCT)


def _without_judging(facts: Facts, limits: Thresholds, table: pl.DataFrame, *, seen_at_work: bool) -> Verdict | None:
    """Return the verdict where the card has no tensor cores or the trace does not tell."""
    rule = "tensor-cores"
    if table["name"].str.contains(AMD_PRODUCT).any():
        return Unjudged(rule=rule, reason="AMD's kernels do not tell reliably which units they run on")
    capable = _has_tensor_cores(facts, limits)
    if capable is False:
        return Calm(rule=rule, evidence="the card has no tensor cores")
    if capable is None and not seen_at_work:
        return Unjudged(rule=rule, reason="the trace does not name the card, and no kernel uses tensor cores")
    return None


def _has_tensor_cores(facts: Facts, limits: Thresholds) -> bool | None:
    found = []
    for card in facts.trace.metadata.devices:
        major, minor = card.get("computeMajor"), card.get("computeMinor")
        if isinstance(major, int) and isinstance(minor, int):
            found.append((major, minor) >= limits.tensor_core_capability)
    return any(found) if found else None


def _fp32_pct(facts: Facts) -> float | None:
    """Return the share of the matrix operators' calls whose first input is fp32, in percent; `None`: not recorded."""
    named = pl.col("name").cast(pl.String).str.contains(MATRIX_OPERATOR)
    types = facts.trace.events.filter(is_op() & named & pl.col("types").is_not_null())["types"].cast(pl.String)
    known = types.filter(types.str.contains(FLOAT) | types.str.contains(HALF))
    return 100 * float(known.str.contains(FLOAT).mean() or 0.0) if len(known) else None  # type: ignore[arg-type]


def idle_device(facts: Facts, limits: Thresholds) -> Verdict:
    """Is the device idle for much of the time?"""
    rule = "device-idle"
    if not facts.has_device:
        return Unjudged(rule=rule, reason=f"no device events in {facts.trace.extent}")
    if not len(facts.idle_window):
        return Unjudged(rule=rule, reason="every step has lost kernels: when the device idled is not known")
    idle = facts.idle
    idle_pct = 100 * idle.length_ns / facts.idle_window.length_ns
    longest_ms = int(idle.durations_ns.max()) / 1e6 if len(idle) else 0.0
    seen, formula = f"no device works for {facts.amount(idle.length_ns)}", "all time in steps"
    if facts.steps.is_empty():
        of = format_ms(facts.idle_window.length_ns / 1e6)
        seen = (
            f"from the first device event to the last no device works for {format_ms(idle.length_ns / 1e6)} of {of} "
            f"({format_pct(idle_pct)}), which is {format_pct(facts.pct(idle.length_ns))} of the whole trace"
        )
        formula = "as a share of the whole trace, all time from the first device event to the last"
    seen += f"; the longest gap is {format_ms(longest_ms)}"
    if idle_pct < limits.idle_pct:
        return Calm(rule=rule, evidence=seen)
    return finding(
        facts,
        limits,
        rule=rule,
        title="the device has no work for much of the time",
        evidence=seen,
        remedy="the other findings and the idle view say what it waits for; a larger batch gives it more to do",
        saving_ns=idle.length_ns,
        saving_formula=f"at most: {formula} with no kernel, copy or fill on any device",
    )
