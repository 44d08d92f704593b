"""What kind of thing an event is: one vocabulary over what torch 1.13 to 2.14 wrote on CPU, CUDA and ROCm.

Each function gives a polars expression over the columns of `frames.EVENT_SCHEMA`: true or false, never null.
Matching goes over the categories of a column, not over its rows, as far as polars allows.
"""

import polars as pl

OPERATOR = ("cpu_op", "Operator", "operator", "async_cpu_op", "xpu_op")
KERNEL = ("kernel", "Kernel", "gpu_op", "concurrent_kernel", "mtia_ccp_events", "mtia_workloadd")
RUNTIME = (
    "cuda_runtime",
    "Runtime",
    "cuda_driver",
    "hip_runtime",
    "hip_driver",
    "privateuse1_runtime",
    "privateuse1_driver",
    "xpu_runtime",
    "mtia_runtime",
)
MEMCPY = ("gpu_memcpy", "Memcpy")
MEMSET = ("gpu_memset", "Memset")
USER_ANNOTATION = ("user_annotation", "UserAnnotation")
GPU_ANNOTATION = ("gpu_user_annotation",)
PYTHON = ("python_function", "python_call", "PythonFunction")
SYNCHRONISATION = ("cuda_sync", "cuda_event")
COLLECTIVE_CATEGORIES = ("collective_comm", "gloo")

MEMORY_EVENT = "[memory]"
STEP_PREFIX = "ProfilerStep#"
GRADSCOPE_PREFIX = "gradscope: "
COMMUNICATION_KERNEL = r"(?i)^(?:void )?(?:nccl|rccl|mscclKernel|oneccl|hccl)|nccl(?:Dev)?Kernel|ncclSymk"
COMMUNICATION_RANGE = r"^(?:nccl|gloo|mpi|ucc|xccl|hccl|rccl):|^c10d::|^_?c10d_functional::|^record_param_comms$"
SYNCHRONISING_CALL = (
    r"(?:cuda|hip|cu)(?:Device|Stream|Event|Ctx)Synchronize|(?:cuda|hip)Memcpy$|cuMemcpy(?:HtoD|DtoH|DtoD)(?:_v2)?$"
)
LAUNCH_CALL = (
    r"^(?:cuda|hip|cu|hipExt|hipModule|hipExtModule|hipCooperative|cudaGraph|hipGraph)(?:Launch|ExtLaunch)"
    r"|^cudaLaunch|^hipLaunch|^hip.*LaunchKernel|^cu.*LaunchKernel|^urEnqueueKernelLaunch"
)


def _category(names: tuple[str, ...]) -> pl.Expr:
    return pl.col("cat").is_in(list(names)).fill_null(value=False)


def _name(pattern: str) -> pl.Expr:
    return pl.col("name").cast(pl.String).str.contains(pattern).fill_null(value=False)


def is_slice() -> pl.Expr:
    """Whether it is a complete slice: a beginning and a duration."""
    return (pl.col("ph") == "X").fill_null(value=False)


def is_op() -> pl.Expr:
    """Whether it is an operator that ran on the host."""
    return _category(OPERATOR) & is_slice()


def is_kernel() -> pl.Expr:
    """Whether it is a kernel on a device, communication kernels included; annotations and copies are none."""
    return _category(KERNEL) & is_slice()


def is_runtime() -> pl.Expr:
    """Whether it is a call of a device's runtime or driver on the host."""
    return _category(RUNTIME) & is_slice()


def is_launch() -> pl.Expr:
    """Whether it is a runtime call that launches a kernel or a graph of kernels."""
    return is_runtime() & _name(LAUNCH_CALL)


def is_synchronisation() -> pl.Expr:
    """Whether it is a runtime call in which the host waits for the device."""
    return is_runtime() & _name(SYNCHRONISING_CALL)


def is_memcpy() -> pl.Expr:
    """Whether it is a copy on a device."""
    return _category(MEMCPY) & is_slice()


def is_memset() -> pl.Expr:
    """Whether it is a fill on a device."""
    return _category(MEMSET) & is_slice()


def on_device() -> pl.Expr:
    """Whether it is work of a device: a kernel, a copy or a fill. Annotations mirrored onto the device are none."""
    return _category(KERNEL + MEMCPY + MEMSET) & is_slice()


def is_annotation() -> pl.Expr:
    """Whether it is a range that the user or a library marked on the host."""
    return _category(USER_ANNOTATION) & is_slice()


def is_gpu_annotation() -> pl.Expr:
    """Whether it is such a range mirrored onto a device: never busy time."""
    return _category(GPU_ANNOTATION) & is_slice()


def is_python() -> pl.Expr:
    """Whether it is a frame of Python code."""
    return _category(PYTHON) & is_slice()


def is_step() -> pl.Expr:
    """Whether it is a step mark (`ProfilerStep#N`) on the host; old builds wrote it as an operator."""
    return _category(USER_ANNOTATION + OPERATOR) & is_slice() & _name(f"^{STEP_PREFIX}[0-9]+$")


def is_memory() -> pl.Expr:
    """Whether it is an allocation or a release: found by name, since its category differs (pytorch/pytorch#166121)."""
    return (pl.col("name") == MEMORY_EVENT).fill_null(value=False)


def is_communication() -> pl.Expr:
    """Whether it is communication: a collective's kernel on the device, or its range on the host."""
    on_card = _category(KERNEL) & _name(COMMUNICATION_KERNEL)
    on_host = _category(OPERATOR + USER_ANNOTATION) & _name(COMMUNICATION_RANGE)
    return (on_card | on_host | _category(COLLECTIVE_CATEGORIES)) & is_slice()


def is_gradscope_phase() -> pl.Expr:
    """Whether it is a phase range of gradscope's own worker."""
    return is_annotation() & _name(f"^{GRADSCOPE_PREFIX}")
