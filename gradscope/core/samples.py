"""What the supervisor samples beside a run: one JSON object a line in `samples.jsonl`.

Every figure is optional on its own: a card, a driver or a container that does not report it leaves it `None`, never 0.
Figures that are slow to get (a card's processes and PCIe traffic; the host's cores, disk and I/O) are read about once a
second: they stand in the first sample after each reading and are absent from the others.
"""

import msgspec

from gradscope.core.status import SCHEMA_VERSION


class GpuSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    foreign: list[str] | None = None
    """Processes beside this run's that compute on the card, as `PID NAME`; `None` where there are none or none is seen.
    Read about once a second."""
    lost: bool = False
    """The card does not answer any more."""


class HostSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The host and this run's process tree at one instant."""

    tree_cpu_pct: float | None = None
    """CPU time of the worker's process tree over the interval since the last sample, 100 = one core."""
    core_busy_pct: list[float] | None = None
    worker_resident_bytes: int | None = None
    """Resident memory of the training process alone."""
    tree_resident_bytes: int | None = None
    """Sum of resident memory; pages that processes share count in each."""
    available_bytes: int | None = None
    """Memory that can be had without swapping: the least of the host's and of what its control groups leave."""
    memory_limit_bytes: int | None = None
    """The tightest limit of the control groups around the sampler; `None` where there is none."""
    disk_free_bytes: int | None = None
    """Free to this user on the run directory's file system."""
    disk_read_bytes: int | None = None
    """Bytes the process tree had read from storage since it started; what the page cache answered is not in it."""
    disk_write_bytes: int | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="sample", gc=False):
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
    """First line of the file: what is watched, how it was found, and how often.

    It is written again once the worker has said which card it is on: the last one holds.
    """

    schema: int = SCHEMA_VERSION
    t_ns: int
    wall_ns: int
    interval_ms: float
    gpus: list[dict[str, str]] = []
    """For each card: `device` (torch's name), `uuid`, `name`, `nvml_index`, `mapped_by` (`uuid`, `pci id`,
    `uncertain`), and `power_limit_w` and `total_bytes` where the card gives them."""
    no_gpu_reason: str | None = None
    """Why no card is watched."""
    driver: str | None = None
    """Version of the NVIDIA driver."""
    host_memory_bytes: int | None = None
    cores: int | None = None
    """Logical processors of the host."""


class SamplerEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="ended"):
    """Last line of the file, where the sampler could write one: what it achieved and what it cost."""

    t_ns: int
    samples: int
    missed: int
    """Deadlines that passed while an earlier sample was being taken."""
    interval_ms: float | None
    """Time between samples as achieved, on average."""
    cpu_pct: float
    """CPU time of the sampler's threads over its life, 100 = one core."""


SampleLine = Sample | SamplerNote | SamplerStarted | SamplerEnded
