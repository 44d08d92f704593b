"""Work on the device by name: kernels, copies and fills, how well kernels fill it, and which operators launch them."""

import polars as pl

from gradscope.trace.calls import Calls, calls, in_step, launchers
from gradscope.trace.device import device_events
from gradscope.trace.frames import Trace

COPIES = ("memcpy", "memset")
"""Kinds of device work that are no kernels."""
LAUNCHERS_SHOWN = 3
"""Operators named beside a kernel, by the time they gave it."""

TENSOR_CORE_NAME = (
    r"(?i)[hsci]_?(?:884|1688|16816|8816|16832)|[hid]mma|wgmma|mma_sync|xmma_|tensor_?op|wmma|nvjet"
    r"|dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv2d_c1_k1"
    r"|flash_(?:fwd|bwd)|fmha|mfma|Cijk_.*_MI[0-9]"
)
"""Names of kernels on tensor cores (AMD: matrix cores): cuBLAS, cuDNN, CUTLASS, FlashAttention, hipBLASLt."""

PLAIN_CORE_NAME = r"(?i)simt|[^t]f32f32_f32f32_f32"
"""Names among these of kernels that multiply in plain 32-bit floats."""

MATRIX_OPERATOR = (
    r"^aten::_?(?:mm|addmm|bmm|baddbmm|addbmm|matmul|linear|einsum|addmm_activation|scaled_mm|int_mm|grouped_mm"
    r"|convolution|convolution_backward|cudnn_convolution\w*|miopen_convolution\w*|conv[123]d|conv_transpose\w*"
    r"|thnn_conv2d|slow_conv\w*|scaled_dot_product\w*|flash_attention\w*|efficient_attention\w*|cudnn_rnn\w*"
    r"|cudnn_attention\w*)(?:_backward|_forward)?$"
)
"""Operators whose kernels tensor cores could run, given types and sizes that they take."""


def kernels(trace: Trace, step: int | None = None, *, nested: Calls | None = None) -> pl.DataFrame:
    """Sum the device's work by name.

    Args:
        trace: The trace.
        step: Only what begins on the device in this step; a step that the trace does not have gives no rows.
        nested: `calls(trace)`, where it is at hand.

    Returns:
        By descending time, one row a name and kind: `name`, `kind` (kernel, memcpy, memset), `calls`, `total_ns`,
        `mean_ns`, `min_ns`, `max_ns`, of what lasts too long only until what follows (`device`); `stamped_ns`, the sum
        as stamped; `blocks_per_sm` and `occupancy_pct`, means by time over the calls that tell, null
        if none does; `bytes` (copies and fills); `communication`; `tensor_cores`, a guess by name, null for what is no
        kernel; `could_use_tensor_cores`, whether an operator that multiplies matrices launches it, null if no launcher
        is known; `launched_by`, up to three operators, annotations or runtime calls by the time they gave it;
        `launchers`, how many there are.
    """
    nested = nested or calls(trace)
    work = device_events(trace, "blocks", "occupancy_pct", "bytes", "external_id")
    work = work.with_columns(
        name=pl.col("name").cast(pl.String),
        kind=pl.when(pl.col("kind").is_in(COPIES)).then("kind").otherwise(pl.lit("kernel")),
        communication=pl.col("kind") == "communication",
        dur_ns=pl.col("end_ns") - pl.col("ts_ns"),
        launcher=launchers(work, nested),
    )
    work = in_step(work, trace, step)
    keys = ["name", "kind"]
    summed = work.group_by(keys, maintain_order=True).agg(
        calls=pl.len().cast(pl.Int64),
        total_ns=pl.col("dur_ns").sum(),
        mean_ns=pl.col("dur_ns").mean(),
        min_ns=pl.col("dur_ns").min(),
        max_ns=pl.col("dur_ns").max(),
        stamped_ns=pl.col("raw_dur_ns").sum(),
        blocks_per_sm=_mean_by_time("blocks"),
        occupancy_pct=_mean_by_time("occupancy_pct"),
        bytes=pl.when(pl.col("bytes").is_not_null().any()).then(pl.col("bytes").sum()),
        communication=pl.col("communication").any(),
    )
    by_launcher = (
        work.filter(pl.col("launcher").is_not_null())
        .group_by(*keys, "launcher", maintain_order=True)
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", "launcher", descending=[True, False])
        .group_by(keys, maintain_order=True)
        .agg(
            launched_by=pl.col("launcher").head(LAUNCHERS_SHOWN),
            launchers=pl.len().cast(pl.Int64),
            could_use_tensor_cores=pl.col("launcher").str.contains(MATRIX_OPERATOR).any(),
        )
    )
    name = pl.col("name").str
    guess = pl.when(pl.col("kind") == "kernel").then(name.contains(TENSOR_CORE_NAME) & ~name.contains(PLAIN_CORE_NAME))
    return (
        summed.join(by_launcher, on=keys, how="left", maintain_order="left", nulls_equal=True)
        .with_columns(
            tensor_cores=guess,
            launched_by=pl.col("launched_by").fill_null(pl.lit([], pl.List(pl.String))),
            launchers=pl.col("launchers").fill_null(0),
        )
        .sort("total_ns", "name", "kind", descending=[True, False, False])
        .select(*summed.columns, "tensor_cores", "could_use_tensor_cores", "launched_by", "launchers")
    )


def _mean_by_time(column: str) -> pl.Expr:
    """Mean weighted by duration over the rows that have a value; a plain mean where all of these last 0 ns."""
    value = pl.col(column).cast(pl.Float64)
    told = value.is_not_null() & value.is_finite()
    weight = pl.col("dur_ns").filter(told)
    weighted = (value.filter(told) * weight).sum() / weight.sum()
    return pl.when(weight.sum() > 0).then(weighted).otherwise(value.filter(told).mean())
