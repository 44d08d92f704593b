"""What the numbers on the run screen mean, in a sentence or two each. `docs/metrics.md` says it at length.

Keys are fields of `summary.json`, dotted; those of the trace's answers begin with `trace.`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """One number explained."""

    title: str
    text: str


MEANINGS: dict[str, Meaning] = {
    "status": Meaning(
        "did it work",
        "How the run ended: done, failed, oom (out of memory), cancelled (you stopped it), killed (from outside). "
        "Only steps of the measuring stage count in the numbers below.",
    ),
    "duration.measured_steps": Meaning(
        "steps",
        "One step is one optimizer update. Warm-up pays for lazy initialisation and profiled steps are slowed by being "
        "watched, so neither counts.",
    ),
    "loss": Meaning(
        "loss",
        "Mean over the label tokens or samples of all micro-batches of an update: how rows were split does not change "
        "it. First, last and lowest of the measured steps.",
    ),
    "time.step_ms": Meaning(
        "step time",
        "From the start of a step to the start of the next, so nothing in between is left out. The median is the "
        "usual step, p95 is exceeded by one in twenty, IQR is the spread of the middle half.",
    ),
    "time.steps_per_second": Meaning(
        "throughput",
        "All samples, tokens or steps over all measured seconds: not a mean of rates, which short steps would "
        "dominate. Tokens are label tokens, without padding.",
    ),
    "time.phase_share": Meaning(
        "where time went",
        "Each phase's part of the measured time. data: waiting for the next batch; h2d: copying it to the device; "
        "recompute: blocks run again for checkpointing, a part of backward.",
    ),
    "time.instrumentation_share": Meaning(
        "gradscope's own cost", "What gradscope's own code took within the measured steps, as a share of their time."
    ),
    "memory.allocated_peak_bytes": Meaning(
        "peak memory",
        "Most that torch's allocator had handed out at once: what has to fit into the card. On a CPU it is seen in one "
        "step after the measured ones.",
    ),
    "memory.peak_activations_bytes": Meaning(
        "where memory went",
        "The most that each category had. Activations are what backward needs of forward, and what it recomputes. The "
        "largest need not be at one instant, so the sum may exceed the peak.",
    ),
    "memory.saved_activations_bytes": Meaning(
        "saved activations",
        "Kept for backward at the end of forward, without parameters and inputs. Checkpointing and splitting the batch "
        "make this smaller.",
    ),
    "memory.phase_peak_bytes": Meaning(
        "peak by phase",
        "Most of all bytes handed out at once in each phase: the highest one is the phase that needs the memory.",
    ),
    "memory.resident_growth_bytes": Meaning(
        "resident memory",
        "Largest sampled memory of the training process less what it had when torch had been imported. It holds what "
        "building the model took and what was never given back.",
    ),
    "memory.device_used_peak_bytes": Meaning(
        "card memory", "Largest sampled memory in use on the card by everybody, and by this run's processes (NVML)."
    ),
    "utilization.gpu_busy_pct": Meaning(
        "GPU busy",
        "Share of the time in which at least one kernel ran (NVML). It is not how much of the card was used: one tiny "
        "kernel at a time gives 100 % too.",
    ),
    "utilization.memory_busy_pct": Meaning(
        "GPU memory busy", "Share of the time in which device memory was read or written (NVML), not how full it was."
    ),
    "utilization.cpu_pct": Meaning(
        "CPU", "CPU time of all processes of the run over the measured steps; 100 % is one core for the whole time."
    ),
    "energy.joules_per_step": Meaning(
        "energy",
        "Energy of the card in the measured steps, from its counter or from sampled power. Host, memory and fans do "
        "not count; without a card there is no figure.",
    ),
    "energy.power_w": Meaning("power", "Sampled power of the card in the measured steps, each sample by its time."),
    "flops.model_per_second": Meaning(
        "compute",
        "Floating-point operations of one gradient times gradients a second: products, convolutions and attention. "
        "Executed ones hold recomputation; the share is of the data sheet's rate for this precision.",
    ),
    "trace.findings": Meaning(
        "what to do about it",
        "What costs time in the profiled steps, the largest saving first. Savings do not add up: one idle stretch can "
        "have several causes. The findings tab has evidence and remedies.",
    ),
    "audit.error": Meaning(
        "is the training right",
        "The gradient under the strategy against the plain one, on the same two rows with the same random numbers: "
        "error = |g - g0| / |g0|. Within the bound the strategy computes the same training.",
    ),
    "audit.bound": Meaning(
        "bound", "The largest error that rounding explains; it depends on the strategy and the precision."
    ),
    "audit.without_gradient": Meaning(
        "without gradient", "Trainable parameters that got no gradient at all: usually a layer that is not connected."
    ),
    "audit.no_effect": Meaning("no effect", "Why the strategy changed nothing, such as no block to checkpoint."),
    "windows": Meaning(
        "profile windows",
        "Steps that torch.profiler watched. It slows them, so they are in no measured number: compare times in a trace "
        "with each other, and speed with the step time above.",
    ),
    "remarks": Meaning("notes", "What the worker, the sampler and the supervisor had to say during the run."),
    "trace.operators": Meaning(
        "operators",
        "self: without the operators called inside; total: with them. share: of the time in which the host was in a "
        "step or a call. Figures are those of torch.profiler's key_averages().",
    ),
    "trace.kernels": Meaning(
        "kernels",
        "Work on the device by name. A kernel stamped too long counts only up to what follows on its stream. TC: its "
        "name is one of tensor cores.",
    ),
    "trace.steps": Meaning(
        "steps",
        "Each profiled step split into parts that add up to it; of what runs at one moment the first of kernels, "
        "communication, copies, runtime, data, operators counts. busy: kernels, mean over devices.",
    ),
    "trace.idle": Meaning(
        "idle time",
        "Gaps in which no stream of a device worked. host wait: the next kernel was launched too late; kernel wait: "
        "starting it took so long; other: it was launched in time, yet waited for something.",
    ),
    "trace.memory": Meaning(
        "memory in the trace",
        "What the allocator had handed out after each event, and what was alive at the highest point, by the operator "
        "that asked for it.",
    ),
}
"""By field; the run screen shows no number without one of these."""
