"""The numbers of a summary as short texts, the same in every place that shows them to a person."""

from gradscope.core.summary import NO_GPU, Audit, Energy, Flops, Identity, Loss, Memory, Share, Summary, Time
from gradscope.core.units import (
    MISSING,
    format_bytes,
    format_count,
    format_ms,
    format_number,
    format_number_of,
    format_pct,
    format_rate,
    format_seconds,
    format_si,
    three_digits,
)

CATEGORIES = (
    ("parameters", "parameters_bytes"),
    ("buffers", "buffers_bytes"),
    ("gradients", "gradients_bytes"),
    ("optimizer state", "optimizer_state_bytes"),
    ("inputs", "inputs_bytes"),
    ("activations", "peak_activations_bytes"),
)
"""What adds up to the peak in backward, and the fields of `Memory` that hold it."""


def run_words(who: Identity, times: str) -> list[str]:
    """Return what was run: preset, model, optimizer, strategy; `times` is a multiplication sign."""
    model = f"{who.model} {who.scale}" if who.model and who.scale else who.model
    micro = f" {times} {who.micro_steps}" if who.micro_steps and who.micro_steps > 1 else ""
    strategy = f"{who.strategy}{micro}" if who.strategy else None
    return [word for word in (who.preset, model, who.optimizer, strategy) if word]


def machine_words(who: Identity) -> list[str]:
    """Return what it ran on, and its size."""
    threads = format_number_of(who.threads, "thread") if who.threads and who.device == "cpu" else None
    size = f"{format_count(who.parameters)} parameters" if who.parameters is not None else None
    batch = f"batch {who.batch_rows}" if who.batch_rows else None
    return [word for word in (who.device, who.device_name, threads, who.precision, size, batch) if word]


def counts(summary: Summary) -> str:
    """Return how much was done."""
    done = summary.duration
    planned = "" if done.planned_steps in (None, done.measured_steps) else f" of {done.planned_steps}"
    text = f"{done.measured_steps}{planned} steps measured after {done.warmup_steps} of warm-up"
    seconds = done.measured_seconds
    return text if seconds is None else f"{text}, {done.samples} samples in {format_seconds(seconds)}"


def loss_words(loss: Loss, arrow: str) -> str:
    """Return first, last and lowest loss."""
    ends = f"{format_number(loss.first)} {arrow} {format_number(loss.last)}"
    return f"{ends}   lowest {format_number(loss.minimum)}" if loss.curve else MISSING


def step_words(time: Time) -> str:
    """Return the time of a step with its spread."""
    step = time.step_ms
    if step is None:
        return MISSING
    spread = f"p95 {format_ms(step.p95)}   IQR {format_ms(step.iqr)}   n {step.count}"
    return f"{format_ms(step.median)} median   {spread}"


def throughput_words(time: Time) -> str:
    """Return samples, tokens and steps a second."""
    if time.steps_per_second is None:
        return MISSING
    rates = [format_rate(time.samples_per_second, "samples"), format_rate(time.steps_per_second, "steps")]
    if time.tokens_per_second is not None:
        rates.insert(1, format_rate(time.tokens_per_second, "tokens"))
    return "   ".join(rates)


def foretold_words(memory: Memory) -> str:
    """Return the foretold peak, and by how much it differs from the measured one."""
    text = format_bytes(memory.foretold_peak_bytes)
    if memory.foretold_peak_bytes is None or not memory.allocated_peak_bytes:
        return text
    return (
        f"{text}   {100 * (memory.foretold_peak_bytes / memory.allocated_peak_bytes - 1):+.2f} % of the measured peak"
    )


def growth_words(growth_bytes: int) -> str:
    """Return by how much resident memory grew."""
    sign = "+" if growth_bytes >= 0 else ""
    return f"{sign}{format_bytes(growth_bytes)} since the worker's start, largest sampled"


def why_no_gpu(summary: Summary) -> list[str]:
    """Return why there is no figure of a card, if that is known; on a CPU, what the machine has does not matter."""
    if summary.identity.device == "cpu":
        return ["the run is on the CPU"]
    return [remark.message for remark in summary.remarks if remark.code == NO_GPU][:1]


def share_words(share: Share | None, unit: str) -> str:
    """Return a sampled figure with its spread."""
    if share is None:
        return MISSING
    words = [f"{three_digits(share.mean)} {unit} mean"]
    if share.p5 is not None and share.p95 is not None:
        words += [f"p5 {three_digits(share.p5)}", f"p95 {three_digits(share.p95)}"]
    if share.samples:
        words.append(f"n {share.samples}")
    return "   ".join(words)


def energy_words(energy: Energy) -> str:
    """Return the energy of a step and of a sample."""
    if energy.joules_per_step is None:
        return MISSING
    per_sample = format_si(energy.joules_per_sample, "J")
    return f"{format_si(energy.joules_per_step, 'J')} a step   {per_sample} a sample   from the {energy.source}"


def flops_words(flops: Flops) -> list[str]:
    """Return operations a second, and their share of what the card can do, each as a line; none where not counted."""
    if flops.model is None:
        return []
    text = f"{format_si(flops.model_per_second, 'FLOP/s')}   {format_si(flops.model, 'FLOP')} a gradient"
    if flops.executed is not None and flops.executed > flops.model:
        text += f", {format_si(flops.executed, 'FLOP')} executed"
    if flops.share_of_peak is None:
        return [text]
    peak = format_si(flops.peak_per_second, "FLOP/s")
    return [text, f"{format_pct(flops.share_of_peak * 100)} of the card's {peak}"]


def verdict(audit: Audit) -> str:
    """Return what the gradient audit came to."""
    word = {True: "passed", False: "FAILED", None: "not judged"}[audit.passed]
    if audit.error is None:
        return word
    return f"{word}, error {audit.error:.1e}" + ("" if audit.bound is None else f" of at most {audit.bound:.0e}")
