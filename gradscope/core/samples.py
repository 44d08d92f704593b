"""What the supervisor samples beside a run: one JSON object a line in `samples.jsonl`.

Every figure is optional on its own: a card, a driver or a container that does not report it leaves it `None`, never 0.
"""

import msgspec

from gradscope.core.status import SCHEMA_VERSION


class GpuSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card (or MIG slice) at one instant, as NVML gives it."""

    uuid: str
    gpu_busy_pct: float | None = None
    """Share of *time* in NVML's last window (1/6 to 1 s) in which a kernel ran: not how much of the card was used."""
    memory_busy_pct: float | None = None
    """Share of that time in which device memory was read or written."""
    used_bytes: int | None = None
    """Memory in use on the device by all processes, without the driver's reserve where `used_by` is `v2`."""
    used_by: str | None = None
    """`v2`, `v1` (includes the driver's reserve), `mig` (the slice's own) or `system` (unified memory)."""
    reserved_bytes: int | None = None
    total_bytes: int | None = None
    process_bytes: int | None = None
    """Used by this run's process tree; `None` where the driver does not say or shows another pid namespace."""
    power_w: float | None = None
    energy_mj: int | None = None
    """NVML's energy counter in mJ since the driver was loaded, made monotonic over wraps."""
    temperature_c: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: list[str] | None = None
    """Names of the reasons the clocks are held down; empty where there are none."""
    pcie_tx_kb_s: int | None = None
    pcie_rx_kb_s: int | None = None
    lost: bool = False
    """The card does not answer any more."""


class HostSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The host and this run's process tree at one instant."""

    tree_cpu_pct: float | None = None
    """CPU time of the worker's process tree over the interval since the last sample, 100 = one core."""
    core_busy_pct: list[float] | None = None
    tree_resident_bytes: int | None = None
    available_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_read_bytes: int | None = None
    """Bytes the process tree read since it started."""
    disk_write_bytes: int | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="sample"):
    """One instant. `interval_ms` is the time since the last sample: the sample stands for that interval."""

    t_ns: int
    interval_ms: float
    step: int | None = None
    """The last finished step when the sample was taken."""
    host: HostSample | None = None
    gpus: list[GpuSample] = []


class SamplerNote(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="note"):
    """Something said once: an unsupported field, a lost card, a slow call."""

    t_ns: int
    message: str


class SamplerStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="started"):
    """First line of the file: what is watched, how it was found, and how often."""

    schema: int = SCHEMA_VERSION
    t_ns: int
    wall_ns: int
    interval_ms: float
    gpus: list[dict[str, str]] = []
    """For each card: `device` (torch's name), `uuid`, `name`, `nvml_index`, `mapped_by` (`uuid`, `pci id`, `uncertain`)."""
    no_gpu_reason: str | None = None
SampleLine = Sample | SamplerNote | SamplerStarted
