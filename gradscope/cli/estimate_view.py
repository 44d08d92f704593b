"""An estimate, and the largest batches, as text."""

from collections.abc import Sequence

from gradscope.config.schema import Preset
from gradscope.core.estimate import CATEGORIES, Estimate
from gradscope.core.table import format_table
from gradscope.core.text import visible
from gradscope.core.units import format_bytes, format_pct
from gradscope.launch.estimate import Room
from gradscope.launch.find_batch import Found

PHASES = ("data", "h2d", "forward", "backward", "optimizer")

NAMES = {"optimizer": "optimizer state"}


def estimate_text(preset: Preset, found: Estimate, space: Room | None, *, width: int | None = None) -> str:
    """Return an estimate as a table by category, and what it assumes."""
    between = {
        "parameters": found.parameters_bytes,
        "buffers": found.buffers_bytes,
        "gradients": found.gradients_bytes,
        "optimizer": found.optimizer_state_bytes,
        "inputs": found.inputs_bytes,
    }
    rows = [
        [
            NAMES.get(name, name),
            format_bytes(between[name]) if name in between else "",
            format_bytes(found.at_peak_bytes[name]),
            format_pct(100 * found.at_peak_bytes[name] / found.peak_bytes) if found.peak_bytes else "",
        ]
        for name in CATEGORIES
    ]
    rows.append(["all", "", format_bytes(found.peak_bytes), ""])
    phases = [
        f"{name} {format_bytes(found.phase_peak_bytes[name])}" for name in PHASES if name in found.phase_peak_bytes
    ]
    facts = [
        [
            "activations",
            f"saved {format_bytes(found.saved_activations_bytes)}, "
            f"most in backward {format_bytes(found.peak_activations_bytes)}",
        ],
        ["peak by phase", "   ".join(phases)],
        ["attention", ", ".join(found.attention) or "no kernel of torch's"],
    ]
    if space is not None:
        word = "fits into" if found.peak_bytes <= space.size_bytes else "DOES NOT FIT into"
        facts.append(["room", f"{word} {format_bytes(space.size_bytes)} ({space.source})"])
    facts += [["note", note] for note in found.notes]
    return "\n".join(
        [
            visible(
                f"{preset.name}, foretold for {found.device}: "
                f"peak {format_bytes(found.peak_bytes)} in {found.peak_phase} "
                f"({preset.memory.strategy}, {preset.optimizer.name}, {preset.data.batch_size} rows)"
            ),
            "",
            format_table(["category", "held", "at the peak", "share"], rows, "lrrr"),
            "",
            format_table(["", ""], facts, width=width),
        ]
    )


def found_text(preset: Preset, best: Sequence[Found], space: Room, *, width: int | None = None) -> str:
    """Return each strategy's largest batch."""
    rows = [
        [
            one.strategy,
            "none" if one.batch_size is None else str(one.batch_size),
            format_bytes(one.foretold_peak_bytes),
            format_bytes(one.measured_peak_bytes) if one.trials else "not tried",
            one.note,
        ]
        for one in best
    ]
    return "\n".join(
        [
            visible(
                f"{preset.name}: the largest data.batch_size whose peak is within {format_bytes(space.size_bytes)} "
                f"({space.source})"
            ),
            "",
            format_table(["strategy", "batch_size", "foretold peak", "measured peak", ""], rows, "lrrrl", width),
        ]
    )
