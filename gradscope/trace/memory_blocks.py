"""Blocks of memory out of `[memory]` events: when each was born, when it was freed, and which operator asked for it."""

from dataclasses import dataclass

import polars as pl

from gradscope.trace.containment import Ranges

ALLOCATING = (
    "aten::empty",
    "aten::empty.memory_format",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::empty_permuted",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::resize_",
    "aten::resize_as_",
    "aten::_efficientzerotensor",
)
"""Operators that only make room for another's result: a list of what is alive says more by who called them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of one device, and what did not fit together."""

    frame: pl.DataFrame
    """One row a block born in the window: born, dies (places in the order of memory events; null: never freed),
    ts_ns, pid, tid, bytes."""
    older_freed: int
    """Releases of blocks that were born before the window."""
    reborn: int
    """Births at an address whose block had not been released: a release is missing."""
    other_size: int
    """Releases of another size than the birth's at the same address."""
    without_address: int
    """Events that name no address, so that birth and release cannot be matched."""


def blocks(events: pl.DataFrame) -> Blocks:
    """Match births and releases by address.

    Args:
        events: One device's memory events in the order of time, with a column `order`.
    """
    known = events.filter(pl.col("addr").is_not_null(), pl.col("bytes").is_not_null(), pl.col("bytes") != 0)
    chained = known.sort("addr", "order").with_columns(
        pl.col("bytes").shift(-1).over("addr").alias("next_bytes"),
        pl.col("order").shift(-1).over("addr").alias("dies"),
        pl.col("bytes").shift(1).over("addr").alias("previous_bytes"),
    )
    births = chained.filter(pl.col("bytes") > 0)
    return Blocks(
        frame=births.sort("order").select(pl.col("order").alias("born"), "dies", "ts_ns", "pid", "tid", "bytes"),
        older_freed=chained.filter(
            pl.col("bytes") < 0, pl.col("previous_bytes").is_null() | (pl.col("previous_bytes") < 0)
        ).height,
        reborn=births.filter(pl.col("next_bytes") > 0).height,
        other_size=births.filter(pl.col("next_bytes") < 0, pl.col("next_bytes") != -pl.col("bytes")).height,
        without_address=events.filter(pl.col("addr").is_null()).height,
    )


def name_operators(points: pl.DataFrame, operators: Ranges) -> pl.DataFrame:
    """Return `points` (pid, tid, ts_ns) with two columns more.

    `operator` is the innermost operator that holds the point on its thread; `asked_by` the innermost one that does more
    than allocate, or else `operator`. Both are null where no operator ran.
    """
    inner = operators.innermost(points)
    allocating = operators.frame["name"].cast(pl.String).is_in(ALLOCATING).fill_null(value=False).to_numpy()
    return points.with_columns(
        operators.names(inner).alias("operator"), operators.names(operators.beyond(inner, allocating)).alias("asked_by")
    )
