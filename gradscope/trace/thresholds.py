"""From which value on a finding is one. All numbers that rules compare with stand here, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Limits of the rules. Shares are percent of the time in steps (of the whole window without steps)."""

    warning_pct: float = 5.0
    """A finding that costs less is information: steps of one run differ by some percent anyway."""
    serious_pct: float = 20.0
    """A fifth of the time is worth a day's work."""

    input_bound_pct: float = 5.0
    """Waiting for data; torch-tb-profiler warns from here on as well, so both tools say the same."""

    small_kernel_us: float = 10.0
    """A launch costs the host 3 to 10 us, more under a profiler: the host cannot launch kernels shorter than this as
    fast as the device runs them."""
    small_kernels_pct: float = 33.0
    """Share of kernels that are small: with a third of them, the host falls behind between the longer ones as well."""
    small_kernels_least: int = 50
    """Kernels a step; below it there is too little to fuse."""
    launch_gap_longest_us: float = 200.0
    """A longer wait before a kernel has another cause than launching it: Python, data, a synchronisation."""
    launch_bound_pct: float = 5.0
    """Device time lost waiting for launches."""

    synchronisation_pct: float = 2.0
    """Device time lost refilling its queue after the host waited: low, since a step needs no synchronisation at all."""
    synchronisations_per_step: float = 10.0
    """And from this many a step on even if the device lost little here: each bars the host from running ahead, and the
    loss grows with a faster device. One or two a step, to log a loss or to unscale gradients, are usual."""

    tensor_core_capability: tuple[int, int] = (7, 0)
    """NVIDIA cards have tensor cores from Volta on."""
    no_tensor_cores_pct: float = 20.0
    """Share of the time in matrix products whose kernels use none: some products never do (odd shapes, small ones)."""
    matrix_products_least_pct: float = 10.0
    """Share of kernel time in matrix products; below it their speed hardly matters."""
    fp32_products_least_pct: float = 50.0
    """Share of the matrix products' own host time with fp32 inputs from which on they are named as fp32."""

    optimizer_calls_per_step: float = 50.0
    """Operators called one by one from an optimizer's step: a fused or for-each one calls fewer than 20 for each
    parameter group, one by one it is 3 to 8 for each tensor."""
    optimizer_pct: float = 2.0
    """Share of the optimizer; below it no implementation of it matters."""

    recomputation_pct: float = 5.0
    """Recomputing everything costs about a third of forward and backward; less than this is nothing to win back."""

    device_allocations_per_step: float = 1.0
    """cudaMalloc or cudaFree: once the cache is warm there are none, and each may wait for the device."""
    churn_turnover: float = 20.0
    """Bytes allocated in a step over the peak. On a CPU large blocks come fresh from the operating system each time and
    are zeroed by it. Plain training turns its peak over 2 to 6 times."""

    idle_pct: float = 20.0
    """Share of time in which no device works: with launches ahead of the device, 5 to 10 % are usual."""


DEFAULT = Thresholds()
