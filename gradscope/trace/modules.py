"""Time by module: the calls of `nn.Module`s, found among Python frames, with the host and device time inside them.

torch writes such frames with `with_stack=True`: `nn.Module: Linear_0`, a class and a number per object of that class.
They stand for calls of `forward`: the backward pass runs outside them.
"""

from dataclasses import dataclass, field

import polars as pl

from gradscope.trace.calls import Calls, calls, in_step
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.nesting import nearest

MODULE_PREFIX = "nn.Module: "

SEPARATOR = " / "
"""Between a module and one inside it, in a path."""

DEEPEST = 64
"""Innermost modules that a path keeps: a file of nothing but nested modules would need memory by their square."""

SCHEMA = {
    "path": pl.String,
    "module": pl.String,
    "class": pl.String,
    "level": pl.Int64,
    "calls": pl.Int64,
    "self_host_ns": pl.Int64,
    "host_ns": pl.Int64,
    "self_device_ns": pl.Int64,
    "device_ns": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class ModulesAnswer:
    """What a trace tells of modules."""

    frame: pl.DataFrame
    """One row a path of modules, a module before those inside it, the longest first.

    `path`, `module`, `class`, `level` (0: in no other module), `calls`, times in ns. Self times leave out modules
    inside. `device_ns` is null where nothing ran on a device, `calls` where the trace tells of modules only in stacks:
    then times are those of the operators that name the module in their stack.
    """
    notes: list[TraceNote] = field(default_factory=list)


def modules(trace: Trace, step: int | None = None, *, nested: Calls | None = None) -> ModulesAnswer:
    """Sum the calls of modules, by the path of modules around them.

    Args:
        trace: The trace; load it with stacks if it may have stacks but no Python frames.
        step: Only calls that begin in this step; a step that the trace does not have gives no rows.
        nested: `calls(trace)`, where it is at hand.
    """
    nested = nested or calls(trace)
    frame = nested.frame
    is_module = (frame["kind"] == "python") & frame["name"].cast(pl.String).str.starts_with(MODULE_PREFIX).fill_null(
        value=False
    )
    if is_module.any():
        return ModulesAnswer(_by_frames(trace, nested, is_module, step))
    by_stacks = _by_stacks(trace, frame, step)
    if by_stacks is not None:
        note = "modules are read from operators' stacks: calls are not known"
        return ModulesAnswer(by_stacks, [TraceNote("modules_from_stacks", note)])
    note = "the trace does not tell of modules: record it with with_stack=True"
    return ModulesAnswer(pl.DataFrame(schema=SCHEMA), [TraceNote("no_modules", note)])


def _by_frames(trace: Trace, nested: Calls, is_module: pl.Series, step: int | None) -> pl.DataFrame:
    frame = nested.frame
    parent = frame["parent"].fill_null(-1).to_numpy()
    flags = is_module.to_numpy()
    rows = is_module.arg_true().cast(pl.Int64).to_numpy()
    around = nearest(parent, flags, parent[rows])
    chosen = frame.select("name", "ts_ns", host_ns="dur_ns", device_ns="device_ns")[rows].with_columns(
        row=pl.Series(rows), around=pl.Series(around)
    )
    inner = chosen.filter(pl.col("around") >= 0).group_by("around").agg(pl.col("host_ns", "device_ns").sum())
    chosen = chosen.join(inner, left_on="row", right_on="around", how="left", maintain_order="left", suffix="_inside")
    chosen = chosen.with_columns(
        self_host_ns=pl.col("host_ns") - pl.col("host_ns_inside").fill_null(0),
        self_device_ns=pl.col("device_ns") - pl.col("device_ns_inside").fill_null(0),
        path=_paths(chosen["name"].cast(pl.String).str.strip_prefix(MODULE_PREFIX), rows.tolist(), around.tolist()),
    )
    chosen = in_step(chosen, trace, step)
    return _summed(chosen.with_columns(calls=pl.lit(1, pl.Int64)))


def _paths(names: pl.Series, rows: list[int], around: list[int]) -> pl.Series:
    """Return the names of all modules around each call and of its own, outermost first."""
    above = dict(zip(rows, zip(names.to_list(), around, strict=True), strict=True))
    known: dict[int, tuple[str, ...]] = {}
    for row in rows:
        open_rows = []
        at = row
        while at >= 0 and at not in known:
            open_rows.append(at)
            at = above[at][1]
        path = known.get(at, ())
        for inner in reversed(open_rows):
            path = (*path, above[inner][0])[-DEEPEST:]
            known[inner] = path
    return pl.Series([list(known[row]) for row in rows], dtype=pl.List(pl.String))


def _by_stacks(trace: Trace, frame: pl.DataFrame, step: int | None) -> pl.DataFrame | None:
    texts = frame["stack"].unique().drop_nulls().cast(pl.String)
    texts = texts.filter(texts.str.contains(MODULE_PREFIX, literal=True))
    if texts.is_empty():
        return None
    paths = [
        [entry.removeprefix(MODULE_PREFIX) for entry in reversed(text.split(";")) if entry.startswith(MODULE_PREFIX)][
            -DEEPEST:
        ]
        for text in texts
    ]
    table = pl.DataFrame({"stack": texts, "path": pl.Series(paths, dtype=pl.List(pl.String))})
    operators = frame.filter(pl.col("kind") == "operator").with_columns(pl.col("stack").cast(pl.String))
    named = in_step(
        operators.join(table, on="stack", maintain_order="left").filter(pl.col("path").list.len() > 0), trace, step
    )
    own = named.select("path", self_host_ns="self_ns", self_device_ns="self_device_ns")
    depths = pl.int_ranges(1, pl.col("path").list.len() + 1)
    whole = own.with_columns(depth=depths).explode("depth")
    whole = whole.with_columns(
        innermost=pl.col("depth") == pl.col("path").list.len(), path=pl.col("path").list.head(pl.col("depth"))
    )
    mine = pl.col("innermost").cast(pl.Int64)
    return _summed(
        whole.with_columns(
            calls=pl.lit(None, pl.Int64),
            host_ns="self_host_ns",
            device_ns="self_device_ns",
            self_host_ns=pl.col("self_host_ns") * mine,
            self_device_ns=pl.col("self_device_ns") * mine,
        )
    )


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    columns = ("calls", "self_host_ns", "host_ns", "self_device_ns", "device_ns")
    sums = [pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name) for name in columns]
    summed = rows.group_by("path", maintain_order=True).agg(*sums)
    summed = summed.with_columns(pl.col("self_host_ns", "self_device_ns").clip(lower_bound=0))  # where some overlap
    ordered = summed[_tree_order(summed)]
    module = pl.col("path").list.last()
    told = {"module": module, "class": module.str.replace(r"_[0-9]+$", ""), "level": pl.col("path").list.len() - 1}
    texts = ordered.with_columns(**told).with_columns(pl.col("path").list.join(SEPARATOR))
    return texts.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())


def _tree_order(summed: pl.DataFrame) -> list[int]:
    """Return the rows in the order of a tree: a module before those inside it, and of these the longest first."""
    paths = [tuple(path) for path in summed["path"].to_list()]
    host = dict(zip(paths, summed["host_ns"].to_list(), strict=True))

    def place(row: int) -> list[tuple[int, str]]:
        path = paths[row]
        return [(-host.get(path[:level], 0), path[level - 1]) for level in range(1, len(path) + 1)]

    return sorted(range(len(paths)), key=place)
