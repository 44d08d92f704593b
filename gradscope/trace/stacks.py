"""The Python stack of each call: as the trace writes it, or made of the Python frames around the call."""

from dataclasses import dataclass

import polars as pl

from gradscope.trace.calls import Calls
from gradscope.trace.nesting import nearest

BACKWARD_PREFIX = "autograd::engine::evaluate_function: "
"""How the engine names the call around a node's own, which has the rest of the name."""

UNWANTED_FRAMES = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
)
"""Frames that torch leaves out of stacks: (part of the path, part of the name)."""


DEEPEST = 128
"""Innermost frames that are kept of a stack: deep recursion would need memory by the square of its depth."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stacks of calls, each different one kept once."""

    number: pl.Series
    """Number of each call's stack, by row of `Calls.frame`; 0 is the stack of no frames."""
    frames: pl.Series
    """Frames by number, innermost first."""


def number_stacks(nested: Calls, depth: int | None = None) -> Stacks:
    """Tell each call's Python frames.

    Args:
        nested: The calls; with stacks, if the trace was loaded with them and has any.
        depth: Innermost frames by which stacks differ; `None`: `DEEPEST`.
    """
    depth = DEEPEST if depth is None else min(depth, DEEPEST)
    frame = nested.frame
    if frame["stack"].null_count() == frame.height:
        return _by_nesting(nested, depth)
    numbers = _Numbers(depth)
    texts = frame["stack"].unique().drop_nulls().cast(pl.String)
    table = pl.DataFrame({"stack": texts, "number": [numbers.of(tuple(_frames(text))) for text in texts]})
    rows = _with_forward_stacks(frame).cast(pl.String).alias("stack").to_frame()
    number = rows.join(table, on="stack", how="left", maintain_order="left")["number"].cast(pl.Int64).fill_null(0)
    return Stacks(number, numbers.series())


class _Numbers:
    """Numbers stacks in the order they come."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._number: dict[tuple[str, ...], int] = {(): 0}
        self.stacks: list[tuple[str, ...]] = [()]

    def of(self, stack: tuple[str, ...]) -> int:
        kept = stack[: self._depth]
        number = self._number.setdefault(kept, len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(kept)
        return number

    def series(self) -> pl.Series:
        return pl.Series([list(stack) for stack in self.stacks], dtype=pl.List(pl.String))


def _frames(text: str) -> list[str]:
    frames = [entry for entry in text.split(";") if entry]
    return [entry for entry in frames if not any(path in entry and name in entry for path, name in UNWANTED_FRAMES)]


def _with_forward_stacks(frame: pl.DataFrame) -> pl.Series:
    """Give each call inside a backward node the stack of the forward call with its sequence number, as torch does.

    A node without such a call, and what lies in it, has no stack. A sequence number belongs to a thread of the forward
    pass, which a trace does not name in the terms of `Fwd thread id`: where two threads share a number, the earlier
    call's stack is taken.
    """
    name = frame["name"].cast(pl.String)
    is_node = (name.gather(frame["parent"]) == BACKWARD_PREFIX + name).fill_null(value=False)
    node = nearest(frame["parent"].fill_null(-1).to_numpy(), is_node.to_numpy())
    rows = frame.with_row_index("row").with_columns(node=pl.Series(node))
    forward = (
        rows.filter((pl.col("node") < 0) & pl.col("stack").is_not_null() & pl.col("sequence").is_not_null())
        .sort("ts_ns", "dur_ns", "row", descending=[False, True, False])
        .unique("sequence", keep="first")
        .select("sequence", forward="stack")
    )
    nodes = rows.select(node=pl.col("row").cast(pl.Int64), node_sequence="sequence")
    stack = pl.when(pl.col("node") < 0).then("stack").otherwise("forward")
    return (
        rows.select("node", "stack")
        .join(nodes, on="node", how="left", maintain_order="left")
        .join(forward, left_on="node_sequence", right_on="sequence", how="left", maintain_order="left")
        .select(stack)
        .to_series()
    )


def _by_nesting(nested: Calls, depth: int) -> Stacks:
    """Make stacks of the Python frames around each call: a trace with frames, but without `Call stack`."""
    frame = nested.frame
    numbers = _Numbers(depth)
    number = [0] * frame.height
    if (frame["kind"] == "python").any():
        names = frame["name"].cast(pl.String).fill_null("").to_list()
        python = (frame["kind"] == "python").to_list()
        parent = frame["parent"].fill_null(-1).to_list()
        known: dict[tuple[int, str], int] = {}  # by the stack of a Python frame, and its name
        for row in nested.rows[nested.nesting.order].tolist():  # parents first
            above = parent[row]
            if above < 0:
                continue
            if not python[above]:
                number[row] = number[above]
                continue
            key = number[above], names[above]
            if key not in known:
                known[key] = numbers.of((names[above], *numbers.stacks[number[above]]))
            number[row] = known[key]
    return Stacks(pl.Series(number, dtype=pl.Int64), numbers.series())
