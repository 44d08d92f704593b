"""Operators: calls, self and total time of host and device, self and total memory, by name, shape or stack.

The figures equal torch.profiler's `key_averages()` of the same run as far as a trace tells what that knows:

- exact to the ns where the file holds ns (newer torch writes us with three decimals), else to the file's resolution;
- `by="stack"` needs `Call stack` in the trace (`with_stack=True` and a verbose `experimental_config`). Without it torch
  has no stacks at all; here they are made of the Python frames around a call;
- a trace does not say which operators were asynchronous (torch gives them no self time and no children).

Totals count each call whole, as torch does: a call inside one of its own name counts on its own and in the outer one.
Only where it is all that the outer one called are the two one call, counted once.
"""

import json
from collections.abc import Collection
from typing import Any, Literal

import polars as pl

from gradscope.trace.calls import Calls, calls, in_step, is_device_memory, is_host_memory, unclaimed_memory
from gradscope.trace.frames import Trace
from gradscope.trace.intervals import merge_frame
from gradscope.trace.stacks import number_stacks

Grouping = Literal["name", "name+shape", "stack"]

KINDS = ("operator", "annotation", "python", "runtime", "overhead", "memory")
"""Kinds of calls; `memory` is the one row `[memory]` of what was allocated or released outside every call."""

OPERATOR_KINDS = ("operator", "annotation", "runtime")
"""Those that a table of operators shows."""

SUMS = (
    "self_host_ns",
    "host_ns",
    "self_device_ns",
    "device_ns",
    "self_memory_bytes",
    "memory_bytes",
    "self_device_memory_bytes",
    "device_memory_bytes",
    "flops",
)
"""Columns that are sums over calls; null where the trace does not tell."""


def operators(
    trace: Trace,
    by: Grouping = "name",
    step: int | None = None,
    *,
    kinds: Collection[str] = OPERATOR_KINDS,
    stack_depth: int | None = None,
    nested: Calls | None = None,
    signed: bool = False,
) -> pl.DataFrame:
    """Sum the host calls of a trace.

    Args:
        trace: Loaded with shapes for `name+shape`, with stacks for `stack`.
        by: What a row stands for, beside the kind and the name.
        step: Only calls that begin in this step; a step that the trace does not have gives no rows.
        kinds: Kinds to take, of `KINDS`.
        stack_depth: Innermost frames by which stacks differ; `None`: as many as `stacks.DEEPEST`.
        nested: `calls(trace)`, where it is at hand.
        signed: Whether a sum of own times stays below 0 where children overlap, as torch has it; else such a one is 0.

    Returns:
        `name`, `kind`, `shapes` (JSON text, a list of tensors is `[]`, as torch has it) or `stack` (frames, innermost
        first) as `by` says, `calls`, and `SUMS` in ns and bytes; by descending self time of the host.
    """
    nested = nested or calls(trace)
    frame = nested.frame.rename({"dur_ns": "host_ns", "self_ns": "self_host_ns"})
    keys = ["name", "kind"]
    if by == "name+shape":
        frame = frame.with_columns(shapes=_flat_shapes(frame["shapes"]))
        keys.append("shapes")
    elif by == "stack":
        stacks = number_stacks(nested, stack_depth)
        frame = frame.with_columns(stack=stacks.number)
        keys.append("stack")
    chosen = in_step(frame, trace, step).filter(pl.col("kind").is_in(list(kinds)))
    taken = chosen.select(*keys, *SUMS)
    if "memory" in kinds:
        taken = pl.concat([taken.cast({"name": pl.String}), _outside(trace, nested, step, taken)])
    summed = taken.group_by(keys, maintain_order=True).agg(calls=pl.len().cast(pl.Int64), **_sums())
    if not signed:
        summed = summed.with_columns(pl.col("self_host_ns").clip(lower_bound=0))
    order = ["self_host_ns", "host_ns", "name", "kind"]
    ordered = summed.with_columns(pl.col("name").cast(pl.String)).sort(order, descending=[True, True, False, False])
    if by == "stack":
        ordered = ordered.with_columns(stack=stacks.frames.gather(ordered["stack"]))
    return ordered.select(*keys, "calls", *SUMS)


def host_time_ns(trace: Trace, step: int | None = None, *, nested: Calls | None = None) -> int:
    """Return the time in which the host was in a step or a call of `OPERATOR_KINDS`: what shares of operators are of.

    A union over threads, so that a step marked on two of them counts once; what several threads do at once may add up
    to more.

    Args:
        trace: The trace.
        step: Only of this step's mark and of calls that begin in it.
        nested: `calls(trace)`, where it is at hand.
    """
    nested = nested or calls(trace)
    frame = in_step(nested.frame, trace, step).filter(pl.col("kind").is_in(list(OPERATOR_KINDS)))
    return merge_frame(frame).length_ns


def _sums() -> dict[str, pl.Expr]:
    """Sum each column; a sum of nothing but nulls stays null."""
    return {column: pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum()) for column in SUMS}


def _outside(trace: Trace, nested: Calls, step: int | None, like: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each `[memory]` event outside every call, with the columns of `like`."""
    events = in_step(unclaimed_memory(trace, nested), trace, step)
    memory = {
        "": pl.when(is_host_memory()).then("bytes").otherwise(0),
        "device_": pl.when(is_device_memory()).then("bytes").otherwise(0),
    }
    sums = {f"{own}{prefix}memory_bytes": value for prefix, value in memory.items() for own in ("", "self_")}
    given = {"name": pl.col("name").cast(pl.String), "kind": pl.lit("memory")}
    times = {column: pl.lit(0, pl.Int64) for column in ("host_ns", "self_host_ns")}
    rows = events.select(**given, **times, **sums)
    empty = {"shapes": pl.lit("[]"), "stack": pl.lit(0)}
    missing = [column for column in like.columns if column not in rows.columns]
    filled = rows.with_columns(empty.get(column, pl.lit(None)).alias(column) for column in missing)
    return filled.select(pl.col(column).cast(_plain(like.schema[column])) for column in like.columns)


def _plain(kind: pl.DataType) -> pl.DataType | type[pl.DataType]:
    return pl.String if kind == pl.Categorical else kind


def _flat_shapes(shapes: pl.Series) -> pl.Series:
    """Return shapes as torch groups by them: a list of tensors is `[]`, an operator without inputs has `[]`."""
    distinct = shapes.unique().drop_nulls().cast(pl.String)
    flat = pl.Series([_flat(text) for text in distinct], dtype=pl.String)
    return shapes.cast(pl.String).replace_strict(distinct, flat, default="[]")


def _flat(text: str) -> str:
    try:
        shapes: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(shapes, list):
        return text
    flat = [
        [] if isinstance(shape, list) and any(isinstance(size, list) for size in shape) else shape for shape in shapes
    ]
    return json.dumps(flat, separators=(",", ":"))
